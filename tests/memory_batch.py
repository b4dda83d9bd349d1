"""Batches and sources in memory: the whole course of a batch without a JVM.

The kernels are the product's own. What only Spark evaluates in real runs is evaluated as the reference does it. Every
batch notes how it was read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mullion.algebra.streams import EVENT, WEIGHT, Stream
from mullion.expressions.vector import Vector
from mullion.kernels.arrival import ARRIVAL
from mullion.kernels.columns import BatchColumns
from mullion.kernels.thinning import Thinner, Thinning, in_order_of_worth
from mullion.language.query import Period
from mullion.planner.plan import FRAGMENTS, Grouping, Pass, Plan
from mullion.planner.statistics import FOOTERS, Statistics
from mullion.runtime.batch import (
    Batch,
    BatchTables,
    ByGrouping,
    Collected,
    Outside,
    Timed,
    collected,
    job_of,
    partials_of,
)
from mullion.runtime.monitor import SourceLag
from mullion.runtime.sharding import Shards, ShardTask
from mullion.slices.bounds import EVERYWHERE, Stretch, sift
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input, Job
from mullion.slices.sampling import MOST_SAMPLED, Sample, evenly_spread, statistics_of
from mullion.slices.shed_tally import ShedEvents
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tally import Tally, tally
from mullion.spark.backlog import Backlog
from mullion.spark.source_log import SourceLog
from mullion.storage.files import serialised
from mullion.storage.marks import Mark

Rows = Sequence[Mapping[str, Any]]


def as_events(stream: Stream, rows: Rows) -> pa.Table:
    """Events with their time as `#t`."""
    columns = {name: Vector.of(type_, [row[name] for row in rows]).to_arrow() for name, type_ in stream.shown}
    events = pa.table({TIME: pa.array([row[stream.time_column] for row in rows], pa.int64()), **columns})
    return _weighable(stream, events)


def _weighable(stream: Stream, events: pa.Table) -> pa.Table:
    """Events with a weight and a number, if their stream may shed."""
    if stream.shedding is None:
        return events
    weighed = events.append_column(WEIGHT, pa.array(np.ones(len(events))))
    return weighed.append_column(EVENT, pa.array(np.zeros(len(events), np.int64)))


def from_files(stream: Stream, paths: Sequence[str]) -> pa.Table:
    whole = pa.concat_tables([pq.read_table(path) for path in paths])
    return _weighable(stream, whole.append_column(TIME, whole.column(stream.time_column).cast(pa.int64())))


@dataclass
class MemoryBatch:
    """Events in the order of arrival. It is cut into `partitions`, as Spark would; `sized` says that their number is
    known before they are read, `files` that the kernel could read them from files."""

    stream: Stream
    events: pa.Table
    number: int
    partitions: int = 1
    sized: bool = True
    files: bool = False
    lost: pa.Table | None = None
    """The events that were not kept, if it was thinned."""
    passes: Counter[str] = field(default_factory=Counter)
    """How often the events were gone through, and for what."""

    def thinned(self, thinning: Thinning) -> MemoryBatch:
        """Events are told apart by their batch and their place in it."""
        thinner, places = Thinner.of_stream(self.stream, thinning), np.arange(len(self.events))
        lost = None if thinning.is_whole else thinner.lost(self.events, self.number, places, TIME)
        return replace(self, events=thinner.of(self.events, self.number, places, TIME), lost=lost, passes=self.passes)

    def shed(self, bounds: Stretch, windows: Sequence[Period]) -> ShedEvents:
        self.passes["shed"] += 1
        assert self.lost is not None
        return ShedEvents.at(self.lost.column(TIME).to_numpy(), bounds, windows)

    def worths(self, most: int) -> npt.NDArray[np.float64]:
        assert self.stream.shedding is not None and self.stream.shedding.by is not None
        worth = BatchColumns.of(self.events.slice(0, most), self.stream.types).value(self.stream.shedding.by)
        return in_order_of_worth(worth.values, worth.valid)

    @property
    def size(self) -> int | None:
        return len(self.events) if self.sized else None

    def reads_files(self, groupings: Sequence[Grouping]) -> bool:
        return self.files

    def read(self, inputs: Input, texts: Collection[str] = ()) -> pa.Table:
        self.passes["rows"] += 1
        table = evaluated(self.stream, self.events, inputs)
        for name in texts:
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, table.column(name).dictionary_encode())
        return table

    def partials(self, together: Pass, tables: BatchTables, bounds: Stretch) -> list[Collected]:
        self.passes["partials"] += 1
        job = self._job(together, tables)
        return collected([partials_of(part, job, bounds) for part in self._parts()], together)

    def partials_within(self, plan: Plan, tables: BatchTables, stretch: Stretch) -> ByGrouping:
        self.passes["partials within"] += 1
        alone = Pass((plan,))
        job = self._job(alone, tables)
        return collected([partials_of(stretch.of(part), job, EVERYWHERE) for part in self._parts()], alone)[0].taken

    def to_shards(
        self, shards: Shards, plan: Plan, grouping: Grouping, tables: BatchTables, stretch: Stretch, mark: Mark
    ) -> Tally:
        self.passes["shards"] += 1
        alone = replace(plan, groupings=(grouping,), methods=(FRAGMENTS,))
        job = self._job(Pass((alone,)), tables)
        portions = [partials_of(stretch.of(part), job, EVERYWHERE) for part in self._parts()]
        whole = pa.concat_tables([portion.taken[0] for portion in portions])
        keys = [f"k{i}" for i in range(len(grouping.group_keys))]
        parts = split(whole, keys, shards.count)
        return shards.absorb([shards.write(shard, rows, grouping, mark) for shard, rows in parts], mark)

    def groups(self, plan: Plan, grouping: Grouping, tables: BatchTables, most: int) -> int:
        self.passes["sample"] += 1
        job = self._job(Pass((replace(plan, groupings=(grouping,), methods=(FRAGMENTS,)),)), tables)
        sample = _numbered(self.events.slice(0, most))
        return tally(partials_of(sample, job, EVERYWHERE).taken[0], grouping).groups

    def open_ahead(self) -> None:
        self.passes["opened"] += 1

    def read_ahead(self, groupings: Sequence[Grouping]) -> None:
        """It is there."""

    def statistics(self, groupings: Sequence[Grouping], tables: BatchTables = ()) -> Statistics:
        self.passes["statistics"] += 1
        whole, times = len(self.events) <= MOST_SAMPLED, pc.min_max(self.events.column(TIME)).as_py()
        sampled = self.events.take(pa.array(evenly_spread(len(self.events), MOST_SAMPLED)))
        number = len(self.events)
        known = number, number - self.events.column(TIME).null_count, times["min"], times["max"], FOOTERS, FOOTERS
        return statistics_of(Sample(sampled, Input(self.stream.types), whole, *known), groupings, tables)

    def times(self, bounds: Stretch) -> Timed:
        self.passes["times"] += 1
        sifted = sift(self.events, bounds)
        return Timed(sifted.counted, bool(len(sifted.late)), bool(len(sifted.ahead)))

    def outside(self, bounds: Stretch) -> Outside:
        self.passes["outside"] += 1
        found = bounds.outside(self.events)
        missing = pc.is_null(found.column(TIME))
        return Outside(found.filter(pc.invert(missing)), found.filter(missing).drop_columns([TIME]))

    def _job(self, together: Pass, tables: BatchTables) -> Job:
        return job_of(together, Input(self.stream.types), tables, self.number)  # the kernel evaluates all of it

    def _parts(self) -> Iterator[pa.Table]:
        events, parts = _numbered(self.events), self.partitions
        for i in range(parts):
            start, stop = len(events) * i // parts, len(events) * (i + 1) // parts
            yield events.slice(start, stop - start)


def evaluated(stream: Stream, events: pa.Table, inputs: Input) -> pa.Table:
    """The time and the columns of the input."""
    columns = BatchColumns.of(events, stream.types)
    computed = {name: columns.value(expr).to_arrow() for expr, name in inputs.evaluated.items()}
    for check, name in inputs.bad.items():
        bad = columns.bad(check)
        computed[name] = pa.array(np.zeros(len(events), np.bool_) if bad is None else bad)
    found = {name: computed[name] if name in computed else events.column(name) for name in inputs.columns}
    return pa.table({TIME: events.column(TIME), **found})


def _numbered(events: pa.Table) -> pa.Table:
    return events.append_column(ARRIVAL, pa.array(np.arange(len(events))))


def split(rows: pa.Table, keys: Sequence[str], count: int) -> list[tuple[int, pa.Table]]:
    """Rows by the shard of their keys."""
    values = zip(*(rows.column(key).to_pylist() for key in keys), strict=True) if keys else [()] * len(rows)
    shards = np.array([sum(map(ord, repr(value))) % count for value in values], np.int64)
    return [(shard, rows.filter(pa.array(shards == shard))) for shard in sorted(set(shards.tolist()))]


@dataclass
class MemorySource:
    """Keeps every batch that it gave, so that all can be read again, unless it `forgets`. With a log, batches are
    files."""

    stream: Stream
    log: SourceLog | None = None
    forgets: bool = False
    partitions: int = 1
    sized: bool = True
    failures: tuple[type[Exception], ...] = ()
    given: dict[int, pa.Table] = field(default_factory=dict)
    backlog: Backlog | None = None
    last: int | None = None
    """The batch that the stream ends with, where that is known beforehand."""

    def batch(self, rows: Rows | pa.Table, number: int) -> MemoryBatch:
        events = rows if isinstance(rows, pa.Table) else as_events(self.stream, rows)
        self.given[number] = events
        return MemoryBatch(self.stream, events, number, self.partitions, self.sized, self.log is not None)

    def offsets_of(self, batch: int) -> Sequence[int]:
        return range(batch, batch + 1) if self.log is None else self.log.offsets_of(batch)

    def still_to_come(self, batch: int) -> int | None:
        if self.backlog is None or self.log is None:
            return None
        return self.backlog.oldest_after(self.log.files_of(batch))

    def ends_with(self, batch: int) -> bool:
        return batch == self.last

    queued: SourceLag | None = None
    can_enlarge: bool = False
    tasks: int = 1
    holds: float | None = None
    """What a batch counts, if the source tells."""

    def amount(self, batch: int) -> float | None:
        return self.holds

    def waiting(self, batch: int) -> SourceLag | None:
        return self.queued

    def cannot_read_again(self) -> str | None:
        return "the source of the stream cannot be read twice" if self.forgets else None

    def past(self, batch: int, *, apart: bool, first: int = 0) -> Iterator[tuple[int, Batch]]:
        parts = [(number, events) for number, events in sorted(self.given.items()) if first <= number <= batch]
        if self.log is not None:
            found = self.log.files_up_to(batch, first)
            parts = [(at, from_files(self.stream, [p.removeprefix("file://") for p in paths])) for at, paths in found]
        if not apart and parts:
            parts = [(0, pa.concat_tables([events for _, events in parts]))]
        for offset, events in parts:
            yield offset, MemoryBatch(self.stream, events, 0)

    def adopt(self, shards: Shards, entry: PartialSubWindows, grouping: Grouping, name: str) -> Mapping[int, str]:
        keys = [f"key{i}" for i in range(len(grouping.group_keys))]
        parts = split(entry.table, keys, shards.count)
        return {shard: shards.write_entry(shard, name, serialised(rows)) for shard, rows in parts}

    def run_shards(self, count: int, task: ShardTask) -> Sequence[Any]:
        return [task(shard) for shard in range(count)]
