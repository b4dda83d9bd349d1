"""A query's past: the events that the stream has read before it entered, read once more, for this query alone.

The source notes which events each batch consisted of, so the side job reads exactly what the stream had read when the
query entered. It runs beside the stream; only the answers of this query wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mullion.algebra.streams import Stream
from mullion.kernels.lookup import prepare
from mullion.options import Options, Way
from mullion.planner.rules import make_plan
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.slices import distinct
from mullion.runtime.batch import Batch, Source
from mullion.runtime.lookup_tables import TableAt
from mullion.slices.bounds import Stretch
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tally import Tally, tally


@dataclass(frozen=True)
class Past:
    """Sub-windows for one query, and the slices that hold an event."""

    entries: list[PartialSubWindows]
    slices: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Backfill:
    """What a side job needs."""

    stream: Stream
    query: SlicedAggregation
    source: Source
    since: int
    """Events before this time are in none of the query's windows."""
    some_were_late: bool
    limits: Mapping[int, int]
    """From which time on events were too far ahead, at offsets that had such events."""
    table: TableAt
    holds: Mapping[int, int] = field(default_factory=dict)
    """The watermark at offsets where it was held back."""

    def run(self) -> Past:
        assert self.query.entered_after is not None
        read = Past([], np.empty(0, np.int64))
        newest: int | None = None
        apart = self.some_were_late or bool(self.limits)
        for offset, batch in self.source.past(self.query.entered_after, apart=apart):
            watermark = None if newest is None else newest - self.stream.lateness
            low = self.holds.get(offset, watermark) if self.some_were_late else self.since
            counted, part = self._partials(batch, Stretch(low, self.limits.get(offset)))
            if counted.newest is not None:
                newest = counted.newest if newest is None else max(newest, counted.newest)
            filled = [e for e in part.entries if len(e.slices)]
            read = Past([*read.entries, *filled], distinct(np.concatenate([read.slices, part.slices])))
        return read

    def _partials(self, batch: Batch, stretch: Stretch) -> tuple[Tally, Past]:
        """The partials of one batch's events; those that were late or ahead then are left out now."""
        plan = make_plan(self.stream, [self.query], Options(way=Way.KERNEL if self.query.lookups else Way.AUTO))
        lookups = self.query.lookups
        tables = tuple(prepare(lookup, self.table(lookup.table, self.query.entered_after or 0)) for lookup in lookups)
        collected = batch.partials_within(plan, tables, stretch)
        counted = Tally()
        for table in collected[0]:
            counted.add(tally(table, plan.groupings[0]))
        by_grouping = zip(plan.groupings, collected, strict=True)
        entries = [PartialSubWindows.of(table, grouping) for grouping, tables in by_grouping for table in tables]
        return counted, Past(entries, counted.slices)


class SideJobs:
    """The side jobs of a stream, one after the other in a thread of their own."""

    def __init__(self) -> None:
        self._futures: dict[str, Future[Past]] = {}
        self._thread: ThreadPoolExecutor | None = None

    def __contains__(self, query: str) -> bool:
        return query in self._futures

    def start(self, query: str, job: Callable[[], Past]) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="mullion-backfill")
        self._futures[query] = self._thread.submit(job)

    def done(self, wanted: Collection[str], *, wait: bool) -> Iterator[tuple[str, Future[Past]]]:
        """Those that are done, or all when `wait`. Jobs of queries that are no longer wanted are given up."""
        for name, future in list(self._futures.items()):
            if name not in wanted:
                future.cancel()
                del self._futures[name]
            elif wait or future.done():
                del self._futures[name]
                yield name, future

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
            self._thread = None
            self._futures.clear()


__all__ = ["Backfill", "Past", "SideJobs"]
