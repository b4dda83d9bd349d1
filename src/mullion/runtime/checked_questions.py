"""Questions that were checked against what is registered: one kind for each thing that may answer them.

| question | kind | is answered from |
|---|---|---|
| SELECT APPROX count(*), where nothing is shed | `OfSummary` | a summary |
| other SELECT APPROX, where nothing is shed | `OfTimegram` | a timegram |
| aggregates over one stream | `OfStream` | a synopsis, sub-windows or kept events (`runtime.view`) |
| other relations | `OfRelation` | kept results, if they read nothing else, or kept events (`operators.once`) |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import scans
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.binding.bounded_joins import keeping_all
from mullion.binding.relations import bind
from mullion.binding.shed_streams import reads_shed_streams
from mullion.catalog.catalog import Catalog
from mullion.catalog.synopses import StreamSynopsis
from mullion.errors import NotSupported
from mullion.language.query import Named, Output, Query, Window
from mullion.operators.materialized import KeptResult
from mullion.operators.network import StepEvents
from mullion.operators.once import (
    FromKept,
    answer_from_kept,
    answer_now,
    are_in_step,
    by_key,
    last_instant,
    reading_kept,
)
from mullion.planner.answer_schema import answer_schema
from mullion.planner.physical import sliced
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.isolation import StateScan, in_one_read
from mullion.runtime.relation_state import run_name
from mullion.runtime.summary_answers import CountQuestion, counts_events
from mullion.runtime.synopsis_answers import bounds_of, check_bounds, exact_answer
from mullion.runtime.view import Evaluate, SourcedRows, View

NO_EVENTS = StepEvents(pa.table({}), np.zeros(0, np.int64))


@dataclass(frozen=True)
class Present:
    """What is there when a question is asked."""

    views: Mapping[str, View | None]
    """What the last commit of each stream left; None while there was no event."""
    newest: int | None
    kept: Mapping[str, KeptResult]
    """The kept results of materialised queries that the question reads."""
    evaluate: Evaluate
    table: Callable[[str, str], pa.Table]
    """The rows of a table as a reader last saw them, by the reader and the table."""


class CheckedQuestion(ABC):
    readers: Sequence[str] = ()
    """The stream or the relations as which it looks into tables."""
    reads: Sequence[str] = ()
    """The materialised queries whose kept results answer it."""
    over_events: Relation | None = None
    """What it computes from events that its streams must keep for it."""

    @property
    @abstractmethod
    def streams(self) -> Sequence[str]:
        """The streams that it is about."""

    @abstractmethod
    def answer(self, present: Present) -> SourcedRows: ...

    def scan(self, present: Present, before: StateScan[Any] | None) -> StateScan[SourcedRows]:
        """How to answer while windows slide: where there are no sub-windows to be read apart, all of it is one."""
        return in_one_read(lambda: self.answer(present))

    def of_length(self, window: Window, views: Mapping[str, View | None]) -> tuple[SourcedRows, View] | None:
        """What a synopsis answers if only the window were another that ends now, and what it was answered from; None
        where there is no such synopsis. Mistakes that it raises are told at the place of this question."""
        return None


def checked(query: Query, catalog: Catalog) -> CheckedQuestion:
    if query.approximate and query.preference is None and not reads_shed_streams(query, catalog.streams):
        stream = catalog.stream(query.source.name if isinstance(query.source, Named) else "", query.place)
        if counts_events(query):
            return OfSummary(query, stream, catalog)
        synopses = [
            structure for structure in catalog.synopses_on(stream.name) if isinstance(structure, StreamSynopsis)
        ]
        return OfTimegram(query, stream, synopses)
    _check_once(query)
    streams = keeping_all(catalog.streams)
    if query.output is None and query.limit is not None:
        query = replace(query, output=Output(kind="rstream"))  # what is there now is all of it, not changes
    relation = bind(query, streams, catalog.tables, catalog.materialized, catalog.summaries)
    if relation.at_most:
        hint = "leave its SLIDE out: it is answered now"
        raise NotSupported("SLIDE AT MOST in a question that is asked once", query.place, hint=hint)
    plan = sliced(relation, catalog.streams)
    if plan is None:
        return OfRelation(relation, reading_kept(relation, catalog.materialized))
    return OfStream(relation, plan)


def _check_once(query: Query) -> None:
    """A question tells what is there now: nothing is new or gone without an answer before it."""
    output = query.output
    if output is not None and (output.kind != "rstream" or output.restore):
        written = f"{output.kind.upper()}{' RESTORE' if output.restore else ''}"
        hint = f"leave it out, or make it a standing query: CREATE QUERY name AS {written}(...)"
        raise NotSupported(f"{written} in a question that is asked once", output.place, hint=hint)


class OfTimegram(CheckedQuestion):
    def __init__(self, query: Query, stream: Stream, synopses: Sequence[StreamSynopsis]) -> None:
        check_bounds(query, stream, synopses)
        self._query, self._stream, self._synopses = query, stream, synopses

    @property
    def streams(self) -> Sequence[str]:
        return (self._stream.name,)

    def answer(self, present: Present) -> SourcedRows:
        return bounds_of(self._query, self._stream, present.views[self._stream.name], self._synopses)

    def of_length(self, window: Window, views: Mapping[str, View | None]) -> tuple[SourcedRows, View] | None:
        view = views.get(self._stream.name)
        if view is None:
            return None
        return bounds_of(self._query, self._stream, view, self._synopses, window), view


class OfSummary(CheckedQuestion):
    """How often a value came."""

    def __init__(self, query: Query, stream: Stream, catalog: Catalog) -> None:
        relation = bind(replace(query, approximate=False), catalog.streams, catalog.tables, catalog.materialized)
        plan = sliced(relation, catalog.streams)
        self._stream = stream
        self._counted = CountQuestion(query, plan, stream, catalog.summaries)

    @property
    def streams(self) -> Sequence[str]:
        return (self._stream.name,)

    def answer(self, present: Present) -> SourcedRows:
        return self._counted.answer(present.views[self._stream.name])


class OfStream(CheckedQuestion):
    """Aggregates over the window of one stream."""

    def __init__(self, relation: Relation, plan: SlicedAggregation) -> None:
        self._relation, self._plan = relation, plan
        self.readers, self.over_events = (plan.stream,), relation

    @property
    def streams(self) -> Sequence[str]:
        return (self._plan.stream,)

    def answer(self, present: Present) -> SourcedRows:
        view = present.views[self._plan.stream]
        if view is None:
            return _no_events(self._relation)
        return view.ask(self._plan, present.evaluate, partial(present.table, self._plan.stream))

    def scan(self, present: Present, before: StateScan[Any] | None) -> StateScan[SourcedRows]:
        view = present.views[self._plan.stream]
        sub_windows = None if view is None else view.scan(self._plan)
        return super().scan(present, before) if sub_windows is None else sub_windows

    def of_length(self, window: Window, views: Mapping[str, View | None]) -> tuple[SourcedRows, View] | None:
        view = views.get(self._plan.stream)
        if view is None:
            return None
        answer = exact_answer(self._plan, view, window)
        return None if answer is None else (answer, view)


class OfRelation(CheckedQuestion):
    def __init__(self, relation: Relation, from_kept: FromKept | None) -> None:
        self._relation, self._from_kept = relation, from_kept
        self.readers = (run_name(relation.streams),)
        if from_kept is None:
            self.over_events = relation
        else:
            self.reads = from_kept.reads

    @property
    def streams(self) -> Sequence[str]:
        return self._relation.streams

    def answer(self, present: Present) -> SourcedRows:
        if self._from_kept is not None and are_in_step(present.kept):
            return answer_from_kept(self._from_kept, present.kept)
        return self._from_events(present)

    def scan(self, present: Present, before: StateScan[Any] | None) -> StateScan[SourcedRows]:
        """Kept results are read sub-index by sub-index. What an update of the index puts into those that were read is
        copied to the reader, which so has nothing to read again (golab 7.4.3)."""
        asked, kept = self._from_kept, present.kept
        if asked is None or not are_in_step(kept):
            return super().scan(present, before)
        begun = before.base if before is not None and isinstance(before.base, dict) else {}
        bases = {name: result.base(begun.get(name)) for name, result in kept.items()}
        asks = {name: by_key(asked, name, result) for name, result in kept.items()}
        reads = {
            (name, bases[name], number): read
            for name, result in kept.items()
            for number, read in enumerate(result.reads(bases[name], *asks[name]))
        }

        def answer(parts: Sequence[Any]) -> SourcedRows:
            of = {name: [part for key, part in zip(reads, parts, strict=True) if key[0] == name] for name in kept}
            rows = {name: result.rows(of[name], bases[name], *asks[name]) for name, result in kept.items()}
            return answer_from_kept(asked, kept, rows)

        return StateScan(reads, answer, bases)

    def _from_events(self, present: Present) -> SourcedRows:
        relation, newest = self._relation, present.newest
        if newest is None:
            return _no_events(relation)
        events = {}
        for stream, view in present.views.items():
            windows = [scan.window for scan in scans(relation.root) if scan.stream == stream]
            events[stream] = NO_EVENTS if view is None else view.kept_events(windows, newest)
        rows = answer_now(relation, events, newest, partial(present.table, run_name(relation.streams)))
        return rows, "the events that the streams keep", min(newest, last_instant(relation, newest))


def _no_events(relation: Relation) -> SourcedRows:
    return answer_schema(relation).empty_table(), "no events", None
