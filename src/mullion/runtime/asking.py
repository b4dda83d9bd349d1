"""Questions that are asked once, of what the last commits left. What answers them: `runtime.checked_questions`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from mullion.algebra.nodes import scans
from mullion.catalog.catalog import Catalog
from mullion.errors import MullionError
from mullion.instants import EVERYTHING
from mullion.language.parse import parse_query
from mullion.language.query import Named, Query, Window
from mullion.options import DEFAULTS, Isolation
from mullion.runtime.checked_questions import CheckedQuestion, Present, checked
from mullion.runtime.isolation import StateScan, answered
from mullion.runtime.published import Published
from mullion.runtime.relation_runs import RelationRuns
from mullion.runtime.stream_run import StreamRun
from mullion.runtime.synopsis_answers import is_served
from mullion.runtime.view import Evaluate


class QuestionAnswer(NamedTuple):
    """The answer of a question."""

    rows: pa.Table
    answered_from: str
    up_to: int | None
    """The event time up to which it holds; None while there was no event."""
    newest: int | None
    """The time of the newest event that was there to be asked about."""


REMEMBERED = 1024
"""Questions that are known when they are asked again."""


class Questions:
    """What was asked before is known, parsed and checked, as long as the same things are registered: a monitor asks the
    same over and over."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._registered: tuple[dict[str, Any], ...] = ()
        self._checked: dict[int, tuple[Query, CheckedQuestion]] = {}
        self._alike: dict[Query, CheckedQuestion] = {}
        """Questions of which only the length of the window is left open."""

    @staticmethod
    @lru_cache(maxsize=REMEMBERED)
    def parsed(text: str) -> Query:
        return parse_query(text)

    def checked(self, query: Query) -> CheckedQuestion:
        self._forget_what_changed()
        known = self._checked.get(id(query))
        if known is None or known[0] is not query:
            known = self._checked[id(query)] = query, checked(query, self._catalog)
            window = _window_of(query)
            if window is not None:
                self._alike[_of_any_length(query, window)] = known[1]
        return known[1]

    def at_once(self, query: Query, runs: Mapping[str, StreamRun]) -> QuestionAnswer | None:
        """The answer of a synopsis to a question that differs from an earlier one by the length of its window alone."""
        self._forget_what_changed()
        if id(query) in self._checked or (window := _window_of(query)) is None:
            return None
        alike = self._alike.get(_of_any_length(query, window))
        if alike is None:
            return None
        answered = alike.of_length(window, {name: runs[name].view for name in alike.streams if name in runs})
        if answered is None:
            return None
        answer, view = answered
        return QuestionAnswer(*answer, view.newest)

    def _forget_what_changed(self) -> None:
        catalog = self._catalog
        registered = catalog.streams, catalog.tables, catalog.materialized, catalog.synopses
        if registered != self._registered or len(self._checked) >= REMEMBERED:
            self._registered = tuple(dict(names) for names in registered)
            self._checked.clear()
            self._alike.clear()


def _window_of(query: Query) -> Window | None:
    """The window of the question, if a synopsis may answer it."""
    window = query.source.window if isinstance(query.source, Named) and not query.approximate else None
    return window if window is not None and is_served(window) else None


def _of_any_length(query: Query, window: Window) -> Query:
    """The question with the length of its window left open."""
    assert isinstance(query.source, Named)
    window = replace(window, rows=window.rows and 1, range=window.range and 1)
    return replace(query, source=replace(query.source, window=window))


class Question:
    """A question to what commits have published. Batches may go on while it is answered."""

    def __init__(
        self,
        checked: CheckedQuestion,
        runs: Mapping[str, StreamRun],
        relations: RelationRuns,
        published: Published,
    ) -> None:
        self._checked, self._published = checked, published
        for stream in checked.streams:
            if stream not in runs:
                raise MullionError(f"no event of stream '{stream}' was read yet", hint="start the engine first")
        self._runs = {stream: runs[stream] for stream in checked.streams}
        self._kept = relations.materialized(checked.reads)
        self.readers = checked.readers

    def answer(
        self,
        evaluate: Evaluate,
        table: Callable[[str, str], pa.Table],
        isolation: Isolation = DEFAULTS.isolation,
    ) -> QuestionAnswer:
        """`evaluate` computes what the kernel cannot, `table(reader, name)` gives the rows of a table as the reader
        last saw them."""
        return answered(self, self._published, lambda: self._present(evaluate, table), isolation)

    def _present(self, evaluate: Evaluate, table: Callable[[str, str], pa.Table]) -> Present:
        """All that the question is about, from one moment if nothing is published meanwhile."""
        views = {stream: run.view for stream, run in self._runs.items()}
        newest = max((view.newest for view in views.values() if view is not None), default=None)
        kept = {name: run.shown[name] for name, run in self._kept.items() if name in run.shown}
        return Present(views, newest, kept, evaluate, table)

    def whole(self, state: Present) -> QuestionAnswer:
        return QuestionAnswer(*self._checked.answer(state), state.newest)

    def scan(self, state: Present, before: StateScan[Any] | None) -> StateScan[QuestionAnswer]:
        scan = self._checked.scan(state, before)
        return StateScan(scan.sub_windows, lambda parts: QuestionAnswer(*scan.answer(parts), state.newest), scan.base)


def prepare(query: Query, catalog: Catalog) -> None:
    """Check a question, and let its streams keep what it needs."""
    relation = checked(query, catalog).over_events
    if relation is not None:
        for scan in scans(relation.root):
            _keep_for(scan.window, scan.stream, catalog, relation.slide)


def _keep_for(frame: Window, name: str, catalog: Catalog, slide: int | None) -> None:
    """Let a stream keep the events that a window over it needs."""
    stream = catalog.streams[name]
    keep, rows = stream.keep, stream.keep_rows
    if frame.range is not None and frame.attribute is None and frame.slide_rows is None:
        keep = max(keep or 0, frame.range + (frame.slide or slide or 0))
    elif frame.rows is not None and not frame.partition_by and frame.slide is None:
        rows = max(rows or 0, frame.rows + (frame.slide_rows or 1))
    else:
        rows = EVERYTHING
    catalog.streams[name] = replace(stream, keep=keep, keep_rows=rows)
