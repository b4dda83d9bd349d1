"""A stream of Spark's as a run sees it: `runtime.batch.Batch` and `Source` on DataFrames and files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.algebra.streams import Stream
from mullion.expressions.evaluate import is_vectorised
from mullion.kernels.arrival import FileOrder
from mullion.kernels.thinning import Thinner, Thinning
from mullion.language.query import Period
from mullion.memory import Memory, default_limit
from mullion.options import Options, Way
from mullion.planner.plan import Grouping, Pass, Plan
from mullion.planner.statistics import Statistics
from mullion.runtime.batch import Batch, BatchTables, ByGrouping, Collected, Outside, Timed
from mullion.runtime.monitor import SourceLag
from mullion.runtime.sharding import Shards, ShardTask
from mullion.slices.bounds import Stretch
from mullion.slices.inputs import kernel_columns
from mullion.slices.kernels.partial import Input
from mullion.slices.shed_tally import ShedEvents
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tally import Tally
from mullion.spark.backlog import Backlog
from mullion.spark.batch_room import BatchRoom
from mullion.spark.batch_size import check_rows
from mullion.spark.events import NO_MALFORMED, TIME, SparkEvents, selection
from mullion.spark.failures import spark_failures
from mullion.spark.files import (
    RowGroup,
    by_change,
    can_tell_time,
    local,
    local_files,
    row_groups_of,
    uris_of,
)
from mullion.spark.footers import check_files, extent_of_files
from mullion.spark.larger_batches import larger_batches
from mullion.spark.options import reads_alike
from mullion.spark.own_files import FilesInBatches, can_go_on, plain_files
from mullion.spark.own_session import Executors
from mullion.spark.pipeline import collect_partials, partials_frame, partials_within, sampled_groups
from mullion.spark.reading import FilePortions, ReadAhead, read_outside, read_pieces
from mullion.spark.shard_tasks import run_shards, write_into_shards, write_shards
from mullion.spark.shed_events import shed_events, worths
from mullion.spark.source_log import SourceLog
from mullion.spark.sources import (
    ROW,
    SOURCE,
    as_declared,
    look_for_columns,
    open_files,
    open_stream,
    tells_files,
    with_source,
)
from mullion.spark.statistics import LastLook, of_batch
from mullion.spark.unseen import Unseen
from mullion.spark.waiting_files import WaitingFiles
from mullion.spark.waiting_offsets import WaitingOffsets
from mullion.storage.marks import Mark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NATIVE_PORTIONS = 4
"""Portions of the kernel that Spark may aggregate at once: it hands over partials alone."""


class SparkBatch:
    """A batch of a stream. Nothing is looked at before something is asked."""

    def __init__(
        self, number: int, open_: Callable[[], tuple[SparkEvents, list[str] | None]], look: LastLook | None = None
    ) -> None:
        """`open_` gives the events, and the files that they are where the kernel may read these itself."""
        self._number, self._open, self._look = number, open_, look
        self._pieces_of: dict[frozenset[str], tuple[RowGroup, ...] | None] = {}
        self._begun: tuple[FilePortions, ReadAhead] | None = None
        self._opening: Future[tuple[SparkEvents, list[str] | None]] | None = None

    @property
    def number(self) -> int:
        return self._number

    @cached_property
    def _opened(self) -> tuple[SparkEvents, list[str] | None]:
        return self._open() if self._opening is None else self._opening.result()

    def open_ahead(self) -> None:
        if self._opening is None:
            opener = ThreadPoolExecutor(1, thread_name_prefix="mullion-open")
            self._opening = opener.submit(self._open)
            opener.shutdown(wait=False)

    @property
    def _events(self) -> SparkEvents:
        return self._opened[0]

    def thinned(self, thinning: Thinning) -> SparkBatch:
        def opened() -> tuple[SparkEvents, list[str] | None]:
            return replace(self._events, thinning=thinning), self._opened[1]

        return SparkBatch(self._number, opened, self._look)

    def shed(self, bounds: Stretch, windows: Sequence[Period]) -> ShedEvents:
        return shed_events(self._events, self._pieces(()), bounds, windows)

    def worths(self, most: int) -> npt.NDArray[np.float64]:
        return worths(self._events, self.size, most)

    @property
    def size(self) -> int | None:
        pieces = self._pieces(())
        return None if pieces is None else sum(piece.rows for piece in pieces)

    def reads_files(self, groupings: Sequence[Grouping]) -> bool:
        return self._pieces_for(groupings) is not None

    def read(self, inputs: Input, texts: Collection[str] = ()) -> pa.Table:
        most = None if self._events.most is None else self._events.most(inputs.columns)
        check_rows(self.size, most, self._events.stream)
        own = not inputs.evaluated and not inputs.bad
        pieces = self._pieces(inputs.columns) if own else None
        if pieces:
            time = self._events.stream.time_column
            thinned = self._events.thinned
            return pa.concat_tables(read_pieces(pieces, list(inputs.columns), time, list(texts), thinned=thinned))
        return self._events.read(selection(inputs, self._events.stream))

    def partials(self, together: Pass, tables: BatchTables, bounds: Stretch) -> list[Collected]:
        events = replace(self._for_plan(together, tables), begun=self._begun)
        self._begun = None
        return collect_partials(events, together, bounds)

    def partials_within(self, plan: Plan, tables: BatchTables, stretch: Stretch) -> ByGrouping:
        return partials_within(self._for_plan(plan, tables).of(stretch), plan)

    def to_shards(
        self, shards: Shards, plan: Plan, grouping: Grouping, tables: BatchTables, stretch: Stretch, mark: Mark
    ) -> Tally:
        events = self._for(plan.groupings, tables).of(stretch)
        return write_shards(shards, partials_frame(events, plan, grouping), grouping, mark)

    def groups(self, plan: Plan, grouping: Grouping, tables: BatchTables, most: int) -> int:
        return sampled_groups(self._for(plan.groupings, tables), plan, grouping, most)

    def read_ahead(self, groupings: Sequence[Grouping]) -> None:
        events, pieces = self._events, self._pieces_for(groupings)
        if pieces is not None and self._begun is None and events.executors().are_here:
            what = FilePortions.of(events.stream, groupings, pieces, events.portion, events.thinned)
            self._begun = what, ReadAhead(what.read(pieces, events.executors().cores))

    def statistics(self, groupings: Sequence[Grouping], tables: BatchTables = ()) -> Statistics:
        events = replace(self._events, tables=tables)
        begun = self._begun[1] if self._begun is not None and self._begun[0].is_one else None
        return of_batch(events, self._pieces_for(groupings), groupings, tables, self._look, begun)

    def times(self, bounds: Stretch) -> Timed:
        return self._events.times(bounds)

    def outside(self, bounds: Stretch) -> Outside:
        events = self._events
        columns = [name for name, _ in events.stream.shown]
        pieces = self._pieces(columns)
        if pieces:
            found = read_outside(pieces, columns, events.stream.time_column, bounds, events.thinned)
            if not found.column(TIME.strip("`")).null_count:
                return Outside(found, NO_MALFORMED)
        return events.outside(bounds)

    def _for(self, groupings: Sequence[Grouping], tables: BatchTables) -> SparkEvents:
        return replace(self._events, pieces=self._pieces_for(groupings), tables=tables)

    def _for_plan(self, plan: Plan | Pass, tables: BatchTables) -> SparkEvents:
        return replace(self._for(plan.groupings, tables), cuts=self._cuts if plan.way == "native" else ())

    @cached_property
    def _cuts(self) -> tuple[int, ...]:
        """Where Spark cuts the batch, so that no part has too many events. It is done for files that are larger than
        a batch should be, and needs a pass for each part."""
        events = self._events
        paths = [local(uri) for uri in events.files.uris] if events.files is not None else []
        if events.stream.format != "parquet" or not can_tell_time(events.stream) or None in paths:
            return ()
        extent = extent_of_files([path for path in paths if path is not None], events.stream.time_column)
        most = events.portion * NATIVE_PORTIONS
        if extent is None or extent.oldest is None or extent.newest is None or extent.records <= most:
            return ()
        parts, span = -(-extent.records // most), extent.newest - extent.oldest
        return tuple(dict.fromkeys(extent.oldest + span * i // parts for i in range(1, parts)))

    def _pieces_for(self, groupings: Sequence[Grouping]) -> tuple[RowGroup, ...] | None:
        needed = kernel_columns(groupings) if self._opened[1] is not None else None
        return None if needed is None else self._pieces(needed)

    def _pieces(self, columns: Collection[str]) -> tuple[RowGroup, ...] | None:
        """The row groups of the files, where the kernel may read these columns of them itself."""
        key = frozenset(columns)
        if key not in self._pieces_of:
            events, paths = self._opened
            reads = Thinner.of_stream(events.stream, events.thinning)
            readable = reads.by is None or is_vectorised(reads.by, reads.reads)
            wanted = key | reads.reads.keys()
            pieces = row_groups_of(paths, events.stream, wanted) if paths is not None and readable else None
            self._pieces_of[key] = None if pieces is None else tuple(pieces)
        return self._pieces_of[key]


@dataclass
class SparkSource:
    """Where the batches of a stream come from. `plain`: the stream reads files and does nothing else to them. `log` is
    what Spark notes of the files that it has read, if the source is files."""

    stream: Stream
    engine_session: Callable[[], SparkSession]
    log: SourceLog | None
    plain: bool
    options: Options
    executors: Callable[[], Executors] | None = None
    """Where tasks run; None: where the engine's session has them."""
    memory: Callable[[], Memory] = lambda: Memory.divided(default_limit())
    partials: Callable[[], float] = lambda: 0.0
    """About how many partials an event leaves, for all queries that there are now."""
    look: LastLook = field(default_factory=LastLook)

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        return spark_failures()

    def __post_init__(self) -> None:
        self._unseen = Unseen(self.stream.stored, strict=self.options.strict)
        self._last: DataFrame | None = None
        self._columns: frozenset[str] | None = None
        """Those of all batches. Asking the JVM for them takes milliseconds."""
        self._backlog: Backlog | None = None
        self._in_batches: FilesInBatches | None = None
        self._can_enlarge = False
        self._queue: WaitingFiles | WaitingOffsets | None = None
        if self.log is not None and self.plain:
            self._queue = WaitingFiles(self.stream.stored, self.log)

    def watch(self, notes: Path, progress: Callable[[], Mapping[str, Any] | None]) -> None:
        """Where Spark notes how far it has read, and what it tells of the stream while that is being read."""
        if self.plain and self.stream.format == "kafka":
            self._queue = WaitingOffsets(notes, progress)

    def open(self, times: int = 1) -> DataFrame:
        """Begin to read, in batches that are so many times larger than the user chose, if memory allows it."""
        stored, memory, partials = self.stream.stored, self.memory(), self.partials()
        self._backlog = Backlog.of(stored, memory, self.log, partials)
        larger, still = (larger_batches(stored, n, memory, partials) for n in (times, 2 * times))
        self._can_enlarge = larger != still
        return open_stream(self.engine_session(), stored, {**self._backlog.options, **larger})

    @property
    def _session(self) -> SparkSession:
        return self.engine_session() if self._last is None else self._last.sparkSession

    def _executors(self) -> Executors:
        return Executors.of(self._session) if self.executors is None else self.executors()

    def in_batches(self, notes: Path) -> FilesInBatches | None:
        """The files that lie there, where they are all that the source is; None where Spark has to say what it is."""
        if not self.plain or self.log is None or not self._may_read_files or not self._executors().are_here:
            return None
        files = plain_files(self.stream.stored)
        if files is None or not can_go_on(notes):
            return None
        self._backlog = Backlog.of(self.stream.stored, self.memory(), self.log, self.partials())
        most = self._backlog.options.get("maxbytespertrigger")
        waiting = [file for file in files if file.path not in self._backlog.noted]
        self._in_batches = FilesInBatches(notes, waiting, None if most is None else int(most))
        return self._in_batches

    def batch(self, frame: DataFrame | None, number: int) -> SparkBatch:
        """A batch as Spark hands it over; without a frame, of the files that are noted for it."""
        self._last = frame
        return SparkBatch(number, lambda: self._opened(frame, number), self.look)

    def _opened(self, batch: DataFrame | None, number: int) -> tuple[SparkEvents, list[str] | None]:
        """The batch with every column's values under its name and of its type, and what is known of its files; refuses
        files that hold others."""
        if batch is None:
            return self._listed(number)
        if self._columns is None:
            self._columns = frozenset(batch.columns)
        uris = cache(lambda: uris_of(batch))
        if self.log is not None and tells_files(self._columns):
            order = self.log.files_of(number)
        elif not self.plain and not batch.isStreaming and SOURCE not in self._columns:
            order = by_change(uris())
        else:
            order = []
        # A stream that does nothing but read files has them all, as Spark has noted: asking the JVM takes longer.
        paths = local_files(order if self.plain else uris(), order) if self._may_read_files else None
        if self.stream.shedding is not None and ROW not in self._columns:
            paths = None  # the kernel would tell events apart otherwise than Spark
        opened: Callable[[], DataFrame] = partial(_same, batch)
        if order and SOURCE not in self._columns:
            opened = cache(partial(with_source, batch))  # when something is asked of Spark
        if self.plain and self.log is not None:
            opened = partial(_same, as_declared(self.stream.stored, opened(), order))
            look_for_columns(self._unseen, opened, order, lambda: self._session)
        return self._events_of(opened, number, order), paths

    def _listed(self, number: int) -> tuple[SparkEvents, list[str] | None]:
        """A batch of the files that are noted for it. Spark opens them when something is asked of it."""
        assert self.log is not None
        order, stored = self.log.files_of(number), self.stream.stored
        paths = local_files(order, order)
        check_files(stored.name, paths or (), stored.columns)
        opened = cache(lambda: open_files(self._session, stored, order))
        look_for_columns(self._unseen, opened, order, lambda: self._session)
        return self._events_of(opened, number, order), paths

    def _events_of(self, opened: Callable[[], DataFrame], number: int, order: Sequence[str]) -> SparkEvents:
        files = FileOrder(tuple(order)) if order else None
        what = opened, self.stream, self._executors
        return SparkEvents(*what, number=number, files=files, **self._room(order).parts)

    def _room(self, uris: Sequence[str]) -> BatchRoom:
        return BatchRoom(self.stream, self.memory(), self.tasks, uris)

    @property
    def _may_read_files(self) -> bool:
        """Whether the kernel may read a batch's files itself."""
        if self.options.way not in (Way.AUTO, Way.DIRECT) or not can_tell_time(self.stream):
            return False
        return not self.plain or (self.stream.format == "parquet" and reads_alike(self.stream.options))

    def offsets_of(self, batch: int) -> Sequence[int]:
        return range(0) if self.log is None else self.log.offsets_of(batch)

    def still_to_come(self, batch: int) -> int | None:
        if self._backlog is None or not self._backlog.waiting or self.log is None:
            return None
        return self._backlog.oldest_after(self.log.files_of(batch))

    def ends_with(self, batch: int) -> bool:
        if self._in_batches is None or self.log is None:
            return False
        return self._in_batches.ends_with(self.log.files_of(batch))

    def waiting(self, batch: int) -> SourceLag | None:
        """For files: bytes of those that lie there and were not read. For Kafka: records."""
        return None if self._queue is None else self._queue.after(batch)

    def amount(self, batch: int) -> float | None:
        return None if self._queue is None else self._queue.held_by(batch)

    @property
    def tasks(self) -> int:
        return self._executors().cores

    @property
    def can_enlarge(self) -> bool:
        return self._can_enlarge

    def cannot_read_again(self) -> str | None:
        return None if self.log is not None and self.plain else "the source of the stream cannot be read twice"

    def past(self, batch: int, *, apart: bool, first: int = 0) -> Iterator[tuple[int, Batch]]:
        assert self.log is not None
        parts = [(offset, paths) for offset, paths in self.log.files_up_to(batch, first) if paths]
        order = FileOrder(tuple(path for _, paths in parts for path in paths))
        if not apart:
            parts = [(0, list(order.uris))] if parts else []
        for offset, paths in parts:
            frame = open_files(self._session, self.stream.stored, paths)
            read = partial(_same, frame), self.stream, self._executors
            events = SparkEvents(*read, files=order, **self._room(paths).parts)
            yield offset, SparkBatch(0, lambda events=events: (events, None))  # type: ignore[misc]

    def adopt(self, shards: Shards, entry: PartialSubWindows, grouping: Grouping, name: str) -> Mapping[int, str]:
        return write_into_shards(self._session, shards, entry, grouping, name, at_once=self.memory().handed)

    def run_shards(self, count: int, task: ShardTask) -> Iterable[Any]:
        return run_shards(self._session, count, task)


def _same(frame: DataFrame) -> DataFrame:
    return frame
