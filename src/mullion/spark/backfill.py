"""A joining query's past: the events that the stream has read before, read once more, for this query alone.

Spark notes which files each batch consisted of (`source_log`), so the side job reads exactly what the stream had read
when the query joined. It runs beside the stream; the query's answers wait for it,
nobody else's do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession

from mullion.algebra.sliced import SlicedAggregation
from mullion.algebra.streams import Stream
from mullion.kernels.arrival import FileOrder
from mullion.kernels.lookup import prepare
from mullion.options import Options, Way
from mullion.planner.rules import make_plan
from mullion.planner.slices import distinct
from mullion.slices.bounds import Stretch
from mullion.slices.subwindow import SubWindows
from mullion.slices.tally import Tally, tally
from mullion.spark.pipeline import Events, collect_partials
from mullion.spark.source_log import SourceLog
from mullion.spark.sources import open_files


@dataclass(frozen=True)
class Past:
    """Sub-windows for one query, and the slices that hold an event."""

    entries: list[SubWindows]
    slices: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Backfill:
    """What a side job needs."""

    session: SparkSession
    stream: Stream
    query: SlicedAggregation
    log: SourceLog
    since: int
    """Events before this time are in none of the query's windows."""
    some_were_late: bool
    limits: Mapping[int, int]
    """From which time on events were too far ahead, at offsets that had such events."""
    table: Callable[[str, int], pa.Table]

    def run(self) -> Past:
        assert self.query.entered_after is not None
        parts = list(self.log.files_up_to(self.query.entered_after))
        order = FileOrder(tuple(path for _, paths in parts for path in paths))
        if not self.some_were_late and not self.limits:
            parts = [(0, [path for _, paths in parts for path in paths])]
        found = Past([], np.empty(0, np.int64))
        newest: int | None = None
        for offset, paths in parts:
            if not paths:
                continue
            watermark = None if newest is None else newest - self.stream.lateness
            low = watermark if self.some_were_late else self.since
            told, past = self._partials(paths, order, Stretch(low, self.limits.get(offset)))
            if told.newest is not None:
                newest = told.newest if newest is None else max(newest, told.newest)
            kept = [e for e in past.entries if len(e.slices)]
            found = Past([*found.entries, *kept], distinct(np.concatenate([found.slices, past.slices])))
        return found

    def _partials(self, paths: list[str], order: FileOrder, stretch: Stretch) -> tuple[Tally, Past]:
        """The partials of one batch's files; events that were late or ahead then are left out now."""
        plan = make_plan(self.stream, [self.query], Options(way=Way.KERNEL if self.query.lookups else Way.AUTO))
        lookups = self.query.lookups
        tables = tuple(prepare(lookup, self.table(lookup.table, self.query.entered_after or 0)) for lookup in lookups)
        events = Events(open_files(self.session, self.stream.stored, paths), self.stream, tables=tables, files=order)
        collected = collect_partials(events.of(stretch), plan)
        told = Tally()
        for table in collected[0]:
            told.add(tally(table, plan.groupings[0]))
        made = zip(plan.groupings, collected, strict=True)
        entries = [SubWindows.of(table, grouping) for grouping, tables in made for table in tables]
        return told, Past(entries, told.slices)


class SideJobs:
    """The side jobs of a stream, one after the other in a thread of their own."""

    def __init__(self) -> None:
        self._futures: dict[str, Future[Past]] = {}
        self._thread: ThreadPoolExecutor | None = None

    def __contains__(self, query: str) -> bool:
        return query in self._futures

    def start(self, job: Backfill) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="mullion-backfill")
        self._futures[job.query.name] = self._thread.submit(job.run)

    def done(self, wanted: Collection[str], *, wait: bool) -> Iterator[tuple[str, Future[Past]]]:
        """Those that are done, or all when `wait`; what nobody wants any more is given up."""
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
