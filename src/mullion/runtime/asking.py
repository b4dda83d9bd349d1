"""Questions that are asked once, of what the last commits left. What answers them: `runtime.checked_questions`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from mullion.algebra.nodes import scans
from mullion.catalog.catalog import Catalog
from mullion.errors import MullionError, TextError
from mullion.instants import EVERYTHING
from mullion.language.parse import parse_query, parse_window
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
    same over and over, or the same over windows of other lengths."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._registered: tuple[dict[str, Any], ...] = ()
        self._checked: dict[int, tuple[Query, CheckedQuestion]] = {}
        self._alike: dict[tuple[str, str], dict[str, CheckedQuestion]] = {}
        """Questions by the text before and after their window, and by its kind: only its length is left open."""

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
            around = None if window is None else _around(window)
            if window is not None and around is not None:
                self._alike.setdefault(around, {})[_kind(window)] = known[1]
        return known[1]

    def at_once(self, asked: str | Query, runs: Mapping[str, StreamRun]) -> QuestionAnswer | None:
        """The answer of a synopsis to a text that differs from an earlier question by the length of its window alone;
        None where only the whole question tells what to answer, or what is wrong."""
        self._forget_what_changed()
        if isinstance(asked, Query):
            return None
        before, written, after = _split_at_window(asked)
        questions = self._alike.get((before, after))
        window = _served_window(written) if questions else None
        alike = questions.get(_kind(window)) if questions and window else None
        if alike is None or window is None:
            return None
        try:
            answered = alike.of_length(window, {name: runs[name].view for name in alike.streams if name in runs})
        except TextError:
            return None
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


def _split_at_window(text: str) -> tuple[str, str, str]:
    """What stands before the first window in brackets, it, and what stands after it.

    >>> _split_at_window("SELECT max(x) FROM s [ROWS 5] WHERE y > 1")
    ('SELECT max(x) FROM s ', '[ROWS 5]', ' WHERE y > 1')
    """
    before, opening, rest = text.partition("[")
    within, closing, after = rest.partition("]")
    return before, f"{opening}{within}{closing}", after


def _around(window: Window) -> tuple[str, str] | None:
    """The text before and after a window, if it is the first in brackets.

    The brackets were tokens when all of the text was read. So they are with any other window between them that can be
    read by itself, and the text around them means the same.
    """
    if window.place is None:
        return None
    text, start, end = window.place
    before, _, after = _split_at_window(text)
    return (before, after) if (start, end) == (len(before), len(text) - len(after)) else None


def _window_of(query: Query) -> Window | None:
    """The window of the question, if a synopsis may answer it."""
    window = query.source.window if isinstance(query.source, Named) else None
    return window if window is not None and is_served(window) else None


def _kind(window: Window) -> str:
    """Of a window that a synopsis may answer."""
    return "now" if window.now else "range" if window.rows is None else "rows"


@lru_cache(maxsize=REMEMBERED)
def _served_window(text: str) -> Window | None:
    """The window that is written so, if a synopsis may answer a question over it."""
    try:
        window = parse_window(text)
    except TextError:
        return None
    return window if is_served(window) else None


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
