"""Questions that are asked once: what they are answered from, and what streams must keep for them.

| question | from |
|---|---|
| SELECT APPROX | a timegram |
| aggregates over one stream | a synopsis, sub-windows or kept events (`runtime.questions`) |
| FROM materialised queries alone | their kept results (`operators.once`) |
| other relations | the events that their streams keep (`operators.once`) |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import scans
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.binding.relations import bind
from mullion.catalog.catalog import Catalog
from mullion.catalog.synopses import Synopsis
from mullion.errors import CheckError, MullionError, NotSupported, closest
from mullion.instants import EVERYTHING
from mullion.language.parse import parse_query
from mullion.language.query import Named, Query, Window
from mullion.operators.materialized import KeptResult
from mullion.operators.network import Events
from mullion.operators.once import FromKept, answer_from_kept, answer_now, are_in_step, last_instant, reading_kept
from mullion.planner.answer_schema import answer_schema
from mullion.planner.physical import sliced
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.questions import Evaluate, View
from mullion.runtime.relation_runs import RelationRuns
from mullion.runtime.relation_state import run_name
from mullion.runtime.stream_run import StreamRun
from mullion.runtime.synopsis_answers import bounds_of, exact_answer, is_served


class QuestionAnswer(NamedTuple):
    """The answer of a question."""

    rows: pa.Table
    answered_from: str
    up_to: int | None
    """The event time up to which it holds; None while there was no event."""
    newest: int | None
    """The time of the newest event that was there to be asked about."""


Views = Mapping[str, View | None]
TablesOf = Callable[[str, str], pa.Table]

NO_EVENTS = Events(pa.table({}), np.zeros(0, np.int64))
REMEMBERED = 1024
"""Questions that are known when they are asked again."""


@dataclass(frozen=True)
class CheckedQuestion:
    """A question checked against what is registered."""

    query: Query
    bound: Relation | None
    plan: SlicedAggregation | None
    stream: Stream | None
    """Of SELECT APPROX."""
    synopses: Sequence[Synopsis]
    from_kept: FromKept | None


class Questions:
    """What was asked before is known, parsed and checked, as long as the same things are registered: a monitor asks the
    same over and over."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._registered: tuple[dict[str, Any], ...] = ()
        self._checked: dict[int, CheckedQuestion] = {}
        self._alike: dict[Query, SlicedAggregation] = {}
        """Questions of which only the length of the window is left open."""

    @staticmethod
    @lru_cache(maxsize=REMEMBERED)
    def parsed(text: str) -> Query:
        return parse_query(text)

    def checked(self, query: Query) -> CheckedQuestion:
        self._forget_what_changed()
        known = self._checked.get(id(query))
        if known is None or known.query is not query:
            known = self._checked[id(query)] = _checked(query, self._catalog)
            shape = _any_length(query)
            if shape is not None and known.plan is not None:
                self._alike[shape] = known.plan
        return known

    def at_once(self, query: Query, runs: Mapping[str, StreamRun]) -> QuestionAnswer | None:
        """The answer of a synopsis to a question that differs from an earlier one by the length of its window alone."""
        self._forget_what_changed()
        if id(query) in self._checked or (shape := _any_length(query)) is None:
            return None
        plan = self._alike.get(shape)
        view = None if plan is None or plan.stream not in runs else runs[plan.stream].view
        if plan is None or view is None:
            return None
        assert isinstance(query.source, Named) and query.source.window is not None
        asked = query.source.window
        answer = exact_answer(replace(plan, frame=replace(plan.frame, rows=asked.rows, range=asked.range)), view)
        return None if answer is None else QuestionAnswer(*answer, view.newest)

    def _forget_what_changed(self) -> None:
        catalog = self._catalog
        registered = catalog.streams, catalog.tables, catalog.materialized, catalog.synopses
        if registered != self._registered or len(self._checked) >= REMEMBERED:
            self._registered = tuple(dict(names) for names in registered)
            self._checked.clear()
            self._alike.clear()


def _any_length(query: Query) -> Query | None:
    """The question with the length of its window left open, if a synopsis may answer it."""
    source = query.source
    if query.approximate or not isinstance(source, Named) or source.window is None or not is_served(source.window):
        return None
    window = replace(source.window, rows=source.window.rows and 1, range=source.window.range and 1)
    return replace(query, source=replace(source, window=window))


def _checked(query: Query, catalog: Catalog) -> CheckedQuestion:
    if query.approximate:
        stream = stream_asked(query, catalog)
        return CheckedQuestion(query, None, None, stream, catalog.synopses_on(stream.name), None)
    relation = bound(query, catalog)
    plan = sliced(relation, catalog.streams)
    from_kept = reading_kept(relation, catalog.materialized) if plan is None else None
    return CheckedQuestion(query, relation, plan, None, (), from_kept)


class Question:
    """A question to what there is when it is asked. Batches may go on while it is answered."""

    def __init__(self, checked: CheckedQuestion, runs: Mapping[str, StreamRun], relations: RelationRuns) -> None:
        self._query, self._runs = checked.query, runs
        self._bound, self._plan = checked.bound, checked.plan
        self._stream, self._synopses = checked.stream, checked.synopses
        self._from_kept = checked.from_kept
        self._kept: dict[str, KeptResult] = {}
        if self._from_kept is not None:
            self._kept = relations.materialized(self._from_kept.reads)

    @property
    def readers(self) -> list[str]:
        """The stream or the relations as which it looks into tables."""
        if self._bound is None:
            return []
        return [run_name(self._bound.streams) if self._plan is None else self._plan.stream]

    def answer(self, evaluate: Evaluate, table: TablesOf) -> QuestionAnswer:
        """`evaluate` computes what the kernel cannot, `table(reader, name)` gives the rows of a table as the reader
        last saw them."""
        views = {stream: self._view(stream) for stream in self._streams}
        newest = max((view.newest for view in views.values() if view is not None), default=None)
        return QuestionAnswer(*self._answer(views, newest, evaluate, table), newest)

    def _answer(
        self, views: Views, newest: int | None, evaluate: Evaluate, table: TablesOf
    ) -> tuple[pa.Table, str, int | None]:
        if self._stream is not None:
            return bounds_of(self._query, self._stream, views[self._stream.name], self._synopses)
        assert self._bound is not None
        if self._plan is None:
            return self._from_relations(self._bound, views, newest, table)
        view = views[self._plan.stream]
        if view is None:
            return answer_schema(self._bound).empty_table(), "no events", None
        return view.ask(self._plan, evaluate, partial(table, self._plan.stream))

    @property
    def _streams(self) -> Sequence[str]:
        if self._stream is not None:
            return [self._stream.name]
        assert self._bound is not None
        return self._bound.streams

    def _view(self, stream: str) -> View | None:
        """What the last commit of a stream left; None while there was no event."""
        if stream not in self._runs:
            raise MullionError(f"no event of stream '{stream}' was read yet", hint="start the engine first")
        return self._runs[stream].view

    def _from_relations(
        self, relation: Relation, views: Views, newest: int | None, table: TablesOf
    ) -> tuple[pa.Table, str, int | None]:
        if self._from_kept is not None and are_in_step(self._kept):
            return answer_from_kept(self._from_kept, self._kept)
        if newest is None:
            return answer_schema(relation).empty_table(), "no events", None
        events = {}
        for stream, view in views.items():
            windows = [scan.window for scan in scans(relation.root) if scan.stream == stream]
            events[stream] = NO_EVENTS if view is None else view.kept_events(windows, newest)
        tables = partial(table, run_name(relation.streams))
        rows = answer_now(relation, events, newest, tables)
        return rows, "the events that the streams keep", min(newest, last_instant(relation, newest))


def bound(query: Query, catalog: Catalog) -> Relation:
    """The question checked."""
    _check_once(query)
    return bind(query, catalog.streams, catalog.tables, catalog.materialized)


def _check_once(query: Query) -> None:
    """A question tells what is there now: nothing is new or gone without an answer before it."""
    output = query.output
    if output is not None and (output.kind != "rstream" or output.restore):
        written = f"{output.kind.upper()}{' RESTORE' if output.restore else ''}"
        hint = f"leave it out, or let it stand: CREATE QUERY name AS {written}(...)"
        raise NotSupported(f"{written} in a question that is asked once", output.place, hint=hint)


def stream_asked(query: Query, catalog: Catalog) -> Stream:
    name = query.source.name if isinstance(query.source, Named) else ""
    stream = {known.lower(): s for known, s in catalog.streams.items()}.get(name.lower())
    if stream is None:
        raise CheckError(f"unknown stream '{name}'", query.place, hint=closest(name, catalog.streams))
    return stream


def prepare(query: Query, catalog: Catalog) -> None:
    """Check a question, and let its streams keep what it needs."""
    if query.approximate:
        stream_asked(query, catalog)
        return
    asked = bound(query, catalog)
    if sliced(asked, catalog.streams) is not None or reading_kept(asked, catalog.materialized) is None:
        for scan in scans(asked.root):
            _keep_for(scan.window, scan.stream, catalog, asked.slide)


def _keep_for(frame: Window, name: str, catalog: Catalog, slide: int | None = None) -> None:
    """Let a stream keep the events that a window over it needs."""
    stream = catalog.streams[name]
    keep, rows = stream.keep, stream.keep_rows
    if frame.range is not None and frame.attribute is None and frame.slide_rows is None:
        keep = max(keep or 0, frame.range + (frame.slide or slide or 0))
    elif frame.rows is not None and not frame.partition_by:
        rows = max(rows or 0, frame.rows + (frame.slide_rows or 1))
    else:
        rows = EVERYTHING
    catalog.streams[name] = replace(stream, keep=keep, keep_rows=rows)


__all__ = ["Question", "Questions", "prepare"]
