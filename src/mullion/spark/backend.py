"""All that an engine asks of Spark: a session, sources of batches, feeds, and work on executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from mullion.algebra.nodes.base import Columns
from mullion.algebra.streams import Stream, Table
from mullion.errors import Place
from mullion.memory import Memory
from mullion.options import Options
from mullion.planner.plan import Grouping
from mullion.planner.statistics import Statistics
from mullion.runtime.batch import Batch, BatchSource
from mullion.runtime.relation_shards import SHARDS
from mullion.runtime.shard_step import ShardedStep, ShardOutcome
from mullion.runtime.sink import ShardWriter
from mullion.runtime.stream_run import StreamRun
from mullion.slices.kernels.partial import Input
from mullion.spark.batch import SparkSource
from mullion.spark.events import evaluated_by_spark
from mullion.spark.feed import Feed
from mullion.spark.own_session import OwnSession
from mullion.spark.plain_paths import carried_columns
from mullion.spark.session import adopt
from mullion.spark.shard_tasks import run_step
from mullion.spark.source_log import SourceLog
from mullion.spark.sources import check_carries, check_there, is_files, read_columns, tells_files, with_places
from mullion.spark.statistics import LastLook, of_files_now

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMES_ON_FEW_CORES = 25
"""How many times more events relations take on the driver before they go to shards, where cores are few."""


class SparkBackend:
    def __init__(self, given: SparkSession | None, config: Mapping[str, str], options: Options) -> None:
        self._options = options
        self._own = OwnSession(given, config, options.memory_limit)
        self._frames: dict[str, DataFrame] = {}
        self._looks: dict[str, LastLook] = {}
        self.partials_of: Callable[[Stream], float] = lambda stream: 0.0
        """About how many partials an event of a stream leaves; batches are made smaller by it."""

    @property
    def session(self) -> SparkSession:
        """The session with the settings that answers depend on; started when it is first needed."""
        return self._own.get()

    @property
    def session_in_use(self) -> SparkSession | None:
        """The session, if one was needed so far."""
        return self._own.current

    def session_of_answers(self) -> SparkSession:
        """Where answers become DataFrames: the session in use, another one of this process, or a new one."""
        from pyspark.sql import SparkSession

        return self._own.current or SparkSession.getActiveSession() or self.session

    @property
    def memory(self) -> Memory:
        """The limit of memory, as it is divided between Java and Python."""
        return self._own.memory

    def check_open(self) -> None:
        """Refuse what cannot be done any more when the engine is closed."""
        self._own.check_open()

    def close(self) -> None:
        self._own.close()

    def add_frame(self, stream: str, frame: DataFrame) -> None:
        """The events of a stream that the user gives as a DataFrame."""
        self._frames[stream] = with_places(adopt(self.session, frame))

    def columns_of(self, name: str, format_: str, options: Mapping[str, str], place: Place | None) -> Columns:
        """The schema as a format carries it. Spark is not started for that where a footer tells as much, nor where
        there is none. `place`: where the path is written."""
        is_plain = self._own.is_ours and not self._own.has_settings("spark.sql")
        carried = carried_columns(format_, options) if is_plain else None
        if carried:
            return carried
        check_carries(name, format_, options, place)
        return read_columns(self.session, name, format_, dict(options))

    def check_there(self, sources: Iterable[Stream | Table], places: Mapping[str, Place]) -> None:
        """Refuse streams and tables that have nothing to read, before anything is begun."""
        check_there(sources, places)

    def is_static(self, stream: str) -> bool:
        """Whether the stream is one batch, and ends after it."""
        frame = self._frames.get(stream)
        return frame is not None and not frame.isStreaming

    def source_of(self, stream: Stream, notes: Path) -> BatchSource:
        """Where the batches of a stream come from. `notes` is where Spark notes how far it has read."""
        frame = self._frames.get(stream.name)
        noted = is_files(stream) or (frame is not None and frame.isStreaming and tells_files(frame.columns))
        log = SourceLog(notes) if noted else None
        plain = frame is None
        return SparkSource(
            stream,
            lambda: self.session,
            log,
            plain,
            self._options,
            executors=lambda: self._own.executors,
            memory=lambda: self.memory,
            partials=lambda: self.partials_of(stream),
            look=self._look(stream),
        )

    def statistics_now(self, stream: Stream, groupings: Sequence[Grouping]) -> Statistics:
        """What a stream would read now, as far as that is known without reading it: files, or a static DataFrame."""
        frame = self._frames.get(stream.name)
        if frame is None:
            return of_files_now(stream, groupings, self._look(stream)) if is_files(stream) else Statistics()
        if frame.isStreaming:
            return Statistics()
        source = SparkSource(stream, lambda: self.session, None, plain=False, options=self._options)
        return source.batch(frame, 0).statistics(groupings)

    def _look(self, stream: Stream) -> LastLook:
        return self._looks.setdefault(stream.name, LastLook())

    def feed(
        self, run: StreamRun, notes: Path, process: Callable[[Batch], None], finish: Callable[[], None], every: int
    ) -> Feed:
        """What calls `process` for every batch of a stream, and `finish` at its end."""
        source = run.source
        assert isinstance(source, SparkSource)
        feed = Feed(
            stream=run.stream,
            frame=self._frames.get(run.stream.name),
            open=lambda: source.open(run.overload.monitor.larger),
            directory=notes,
            process=lambda frame, number: process(source.batch(frame, number)),
            finish=finish,
            follow=not run.bounded,
            every=every,
            larger=lambda: run.overload.monitor.larger,
            listed=lambda: source.in_batches(notes) if run.journal is None else None,
        )
        source.watch(notes, feed.progress)
        return feed

    def relations_stay_up_to(self) -> int:
        """How many events of a first step keep relations on the driver. With fewer cores than shards it is faster than
        they are, and shards are for what would not fit."""
        enough = self._own.executors.cores >= SHARDS
        return self._options.shard_above * (1 if enough else TIMES_ON_FEW_CORES)

    def run_step(self, step: ShardedStep, write: ShardWriter | None) -> Sequence[ShardOutcome]:
        """A step of relations, on executors."""
        return run_step(self.session, step, write)

    def evaluate(self, stream: Stream, events: pa.Table, groupings: Sequence[Grouping]) -> tuple[pa.Table, Input]:
        """What only Spark evaluates of kept events."""
        return evaluated_by_spark(self.session, stream, events, groupings)
