"""A query's past: the events that the stream has read before it entered, read once more, for this query alone.

The source notes which events each batch consisted of, so exactly that is read which the stream had read when the query
entered. Where it cannot be read again, the past is what the stream keeps (`kept_events`), if that reaches back far
enough. For slices a side job makes partials of it, beside the stream; only the answers of this query wait for it.
Operators take the events themselves, as the first that their stream hands on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.algebra.streams import Stream
from mullion.expressions.vector import arrow_type
from mullion.kernels.arrival import ARRIVAL
from mullion.options import Options, Way
from mullion.planner.plan import Pass, Plan
from mullion.planner.rules import make_plan
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.slices import distinct
from mullion.runtime.batch import BatchSource, BatchTables, ByGrouping, collected, job_of, partials_of
from mullion.runtime.kept_events import KeptEvents
from mullion.runtime.lookup_tables import LookupTables, RunTables, TableAt
from mullion.runtime.punctuations import Punctuations, without
from mullion.slices.bounds import EVERYWHERE, Stretch, sift
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tally import Tally, tally


@dataclass(frozen=True)
class PastPartials:
    """Sub-windows for some queries, and the slices that hold an event."""

    names: frozenset[str]
    entries: list[PartialSubWindows] = field(default_factory=list)
    slices: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


class PastBatch(Protocol):
    """What a past asks of a `Batch`."""

    def read(self, inputs: Input) -> pa.Table: ...

    def partials_within(self, plan: Plan, tables: BatchTables, stretch: Stretch) -> ByGrouping: ...


@dataclass(frozen=True)
class KeptBatch:
    """Events that the stream keeps, in their order."""

    stream: Stream
    events: pa.Table

    def read(self, inputs: Input) -> pa.Table:
        return self.events.select([TIME, *inputs.columns])

    def partials_within(self, plan: Plan, tables: BatchTables, stretch: Stretch) -> ByGrouping:
        inputs = Input({name: type_ for name, type_ in self.stream.columns if name in self.events.schema.names})
        events = self.events.append_column(ARRIVAL, pa.array(np.arange(len(self.events))))
        alone = Pass((plan,))
        return collected([partials_of(events, job_of(alone, inputs, tables, 0), stretch)], alone)[0].taken


@dataclass
class PastEvents:
    """What a stream has read, batch by batch, with the bounds of what counted then."""

    stream: Stream
    source: BatchSource
    some_were_late: bool
    limits: Mapping[int, int]
    """From which time on events were too far ahead, at offsets that had such events."""
    holds: Mapping[int, int]
    """The watermark at offsets where it was held back."""
    kept: KeptEvents | None = None
    """What the stream keeps, where the source cannot be read again."""
    newest: int | None = None

    reached: tuple[int | None, int] = (None, 0)
    """The newest time of all, and the first batch that held it."""
    said: Sequence[pa.Table] = ()
    """The keys that somebody said are over (PUNCTUATE)."""

    def batches(self, up_to: int, since: int | None = None) -> Iterator[tuple[PastBatch, Stretch]]:
        """Those up to a batch. Call `observe` after each. Nobody needs events before `since`."""
        if self.kept is not None:
            yield KeptBatch(self.stream, self.kept.read(since, up_to)), EVERYWHERE
            return
        apart = self.some_were_late or bool(self.limits) or self.stream.punctuation is not None
        punctuations = None if self.stream.punctuation is None else Punctuations(self.stream)
        heard = -1
        for offset, batch in self.source.past(up_to, apart=apart, first=self._first(since)):
            by_events = None if self.newest is None else self.newest - self.stream.lateness
            watermark = self.holds.get(offset, by_events) if self.some_were_late else None
            if punctuations is None:
                lows = [low for low in (watermark, since) if low is not None]
                yield batch, Stretch(max(lows, default=None), self.limits.get(offset))
            else:  # a key may have ended before what is needed
                punctuations.close_again(self.said, heard, offset)
                heard, bounds = offset, Stretch(watermark, self.limits.get(offset))
                yield self._before_ends(batch, bounds, punctuations), EVERYWHERE

    def _first(self, since: int | None) -> int:
        """Batches before it hold nothing that is needed. Where keys end, it matters when they did."""
        newest, first = self.reached
        is_last = since is not None and newest is not None and since >= newest
        return first if is_last and self.stream.punctuation is None else 0

    def _before_ends(self, batch: PastBatch, bounds: Stretch, punctuations: Punctuations) -> KeptBatch:
        """The events of a batch without those that came after the end of their key."""
        taken = sift(batch.read(punctuations.whole), bounds)
        return KeptBatch(self.stream, without(taken, punctuations.broken(taken)).taken)

    def observe(self, seen: Tally) -> None:
        if seen.newest is not None:
            self.newest = seen.newest if self.newest is None else max(self.newest, seen.newest)

    def rows(self, up_to: int, columns: Set[str], since: int | None = None) -> pa.Table:
        """The events up to a batch, from a time on or all: their times, and the columns that are wanted."""
        inputs = Input({name: type_ for name, type_ in self.stream.columns if name in columns})
        tables = [events_schema(inputs).empty_table()]
        for batch, bounds in self.batches(up_to, since):
            sifted = sift(batch.read(inputs), bounds)
            self.observe(sifted.counted)
            tables.append(Stretch(since).of(sifted.taken).select([TIME, *inputs.columns]))
        return pa.concat_tables(tables)


def events_schema(inputs: Input) -> pa.Schema:
    return pa.schema([(TIME, pa.int64()), *((name, arrow_type(type_)) for name, type_ in inputs.columns.items())])


@dataclass(frozen=True)
class Backfill:
    """What a side job needs: queries that have entered after one batch."""

    past: PastEvents
    together: Sequence[Sequence[SlicedAggregation]]
    """Those that share partials."""
    since: int
    """Events before this time are in none of their windows."""
    table: TableAt
    options: Options

    def run(self) -> list[PastPartials]:
        batch_before = self.together[0][0].entered_after
        assert batch_before is not None
        plans = [self._plan(queries) for queries in self.together]
        tables = [LookupTables(RunTables(self.table)).at(plan.groupings, batch_before) for plan in plans]
        read = [PastPartials(frozenset(query.name for query in queries)) for queries in self.together]
        for batch, bounds in self.past.batches(batch_before, self.since):
            for i, plan in enumerate(plans):
                counted, entries = _partials(plan, tables[i], batch, bounds)
                slices = distinct(np.concatenate([read[i].slices, counted.slices]))
                read[i] = PastPartials(read[i].names, [*read[i].entries, *entries], slices)
            self.past.observe(counted)
        return read

    def _plan(self, queries: Sequence[SlicedAggregation]) -> Plan:
        """With the slots alone that the past is for."""
        options = self.options
        if any(query.lookups for query in queries):
            options = replace(options, way=Way.KERNEL)
        return make_plan(self.past.stream, [replace(query, backfill=True) for query in queries], options)


def _partials(
    plan: Plan, tables: BatchTables, batch: PastBatch, stretch: Stretch
) -> tuple[Tally, list[PartialSubWindows]]:
    """The partials of one batch's events; those that were late or ahead then are left out now."""
    collected = batch.partials_within(plan, tables, stretch)
    counted = Tally()
    for table in collected[0]:
        counted.add(tally(table, plan.groupings[0]))
    by_grouping = zip(plan.groupings, collected, strict=True)
    entries = [PartialSubWindows.of(table, grouping) for grouping, tables in by_grouping for table in tables]
    return counted, [entry for entry in entries if len(entry.slices)]


class SideJobs:
    """The side jobs of a stream, one after the other in a thread of their own, by the tags of their queries."""

    def __init__(self) -> None:
        self._futures: dict[str, Future[list[PastPartials]]] = {}
        self._thread: ThreadPoolExecutor | None = None

    def __contains__(self, tag: str) -> bool:
        return tag in self._futures

    def start(self, tag: str, job: Callable[[], list[PastPartials]]) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="mullion-backfill")
        self._futures[tag] = self._thread.submit(job)

    def done(self, wanted: Collection[str], *, wait: bool) -> Iterator[tuple[str, Future[list[PastPartials]]]]:
        """Those that are done, or all when `wait`. Jobs of queries that are no longer wanted are given up."""
        for tag, future in list(self._futures.items()):
            if tag not in wanted:
                future.cancel()
                del self._futures[tag]
            elif wait or future.done():
                del self._futures[tag]
                yield tag, future

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
            self._thread = None
            self._futures.clear()
