"""Whole runs of an engine without a JVM, in milliseconds. Batches are delivered one by one:

    with local_engine("CREATE STREAM s ...; CREATE QUERY q AS ...") as engine:
        engine.deliver("s", [{"ts": 1, "x": 2}], 0)

or they are files of a directory that grows, for tests of what a run leaves behind and the next one finds:

    with engine_without_spark(out=..., checkpoint=...) as engine:
        engine.execute("CREATE STREAM s (...) USING parquet OPTIONS (path '...') ...")
        engine.run()

Everything is real but Spark, whose place `memory_batch` takes. `ListedFeed` notes the files of a batch where and as
Spark does, before the batch is processed, and after it that it is done; so a batch that a crash interrupts is played
again with its files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from memory_batch import MemorySource, Rows, evaluated, from_files
from mullion.algebra.streams import Stream, Table
from mullion.engine import Engine
from mullion.errors import Place
from mullion.expressions.vector import Vector
from mullion.planner.plan import Grouping
from mullion.runtime.batch import Batch
from mullion.runtime.shard_step import ShardedStep, ShardOutcome
from mullion.runtime.sink import ShardWriter
from mullion.runtime.stream_run import StreamRun
from mullion.slices.inputs import input_for
from mullion.slices.kernels.partial import Input
from mullion.spark.backend import SparkBackend
from mullion.spark.backlog import Backlog
from mullion.spark.feed import Feed
from mullion.spark.source_log import SourceLog

SESSION: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))


def in_turn(step: ShardedStep, write: ShardWriter | None = None) -> list[ShardOutcome]:
    """One shard after the other, in this process."""
    return [step.run(shard, write) for shard in range(step.count)]


class ListedFeed(Feed):
    """The files of a directory in batches, as Spark's file source gives them: one each time that somebody waits."""

    most_bytes = 1 << 60
    """Of the files that a batch takes, unless it takes but one."""

    def start(self) -> None:
        pass

    def wait(self, seconds: float) -> bool:
        planned = self._planned()
        if planned is None:
            if not self.ended and not self.follow:
                self.finish()
                self.ended = True
            return True
        number, paths = planned
        with self.at_work():
            self.process(paths, number)  # type: ignore[arg-type]
        self._note("commits", number, "{}")
        return False

    def _planned(self) -> tuple[int, list[str]] | None:
        """The batch that was planned last, if it is not done, or else the next one, if there are new files."""
        batches = {number: self._files(number) for number in self._numbers("offsets")}
        last = max(batches, default=-1)
        if last >= 0 and last not in self._numbers("commits"):
            return last, batches[last]
        options = {name.lower(): value for name, value in self.stream.options}
        folder, seen = Path(options["path"]), {path for paths in batches.values() for path in paths}
        found = sorted(folder.glob("*.parquet")) if folder.exists() else []
        new = [str(path) for path in found if str(path) not in seen]
        new = new[: int(options.get("maxfilespertrigger", len(new)))]
        sizes = list(accumulate(Path(path).stat().st_size for path in new))
        new = new[: max(1, sum(size <= self.most_bytes for size in sizes))]
        if not new:
            return None
        entries = [{"path": f"file://{p}", "timestamp": 0, "batchId": last + 1} for p in new]
        self._note("sources/0", last + 1, *(json.dumps(entry, separators=(",", ":")) for entry in entries))
        self._note("offsets", last + 1, "{}", json.dumps({"logOffset": last + 1}))
        return last + 1, new

    def _numbers(self, folder: str) -> list[int]:
        place = self.directory / folder
        return [int(file.name) for file in place.iterdir()] if place.exists() else []

    def _files(self, number: int) -> list[str]:
        lines = (self.directory / "sources/0" / str(number)).read_text().splitlines()[1:]
        return [json.loads(line)["path"].removeprefix("file://") for line in lines]

    def _note(self, folder: str, number: int, *lines: str) -> None:
        path = self.directory / folder / str(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(("v1", *lines)))


class MemoryBackend(SparkBackend):
    """In the place of Spark: batches are delivered, and shards are worked on one after the other."""

    @property
    def session(self) -> Any:
        self.check_open()
        return SESSION

    def check_there(self, sources: Iterable[Stream | Table], places: Mapping[str, Place]) -> None:
        pass

    def source_of(self, stream: Stream, notes: Path) -> MemorySource:
        return MemorySource(stream, forgets=True)

    def run_step(self, step: ShardedStep, write: ShardWriter | None) -> Sequence[ShardOutcome]:
        return in_turn(step, write)

    def evaluate(self, stream: Stream, events: pa.Table, groupings: Sequence[Grouping]) -> tuple[pa.Table, Input]:
        inputs = input_for(stream, groupings, [name for name, _ in stream.columns])
        return evaluated(stream, events, inputs), inputs


class FilesBackend(MemoryBackend):
    """Streams are files of directories."""

    def source_of(self, stream: Stream, notes: Path) -> MemorySource:
        return MemorySource(stream, SourceLog(notes))

    def feed(
        self, run: StreamRun, notes: Path, process: Callable[[Batch], None], finish: Callable[[], None], every: int
    ) -> ListedFeed:
        source = run.source
        assert isinstance(source, MemorySource)
        source.backlog = Backlog.of(run.stream, self.memory, SourceLog(notes))
        feed = ListedFeed(
            stream=run.stream,
            frame=None,
            open=lambda: None,  # type: ignore[arg-type,return-value]
            directory=notes,
            process=lambda paths, number: process(source.batch(from_files(source.stream, paths), number)),
            finish=finish,
            follow=not run.bounded,
        )
        feed.most_bytes = int(source.backlog.options.get("maxbytespertrigger", feed.most_bytes))
        return feed


class EngineOfFiles(Engine):
    """Reads the files of its streams."""

    _backend_type = FilesBackend


class EngineWithoutSpark(Engine):
    """Reads nothing: batches are delivered."""

    _backend_type = MemoryBackend

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._operation._start_feed = lambda *args, **more: None  # type: ignore[method-assign]

    def deliver(self, stream: str, rows: Rows | pa.Table, number: int) -> None:
        """A batch of a stream."""
        source = self._runs.of(stream).source
        assert isinstance(source, MemorySource)
        self._batches.process(stream, source.batch(rows, number))

    def end(self, stream: str) -> None:
        """The input has ended."""
        self._batches.finish(stream, close=True)


def write_events(folder: Path, number: int, stream: Stream, events: Sequence[Mapping[str, Any]]) -> Path:
    """The next file of a stream."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = {name: Vector.of(t, [event[name] for event in events]).to_arrow() for name, t in stream.columns}
    path = folder / f"{number:06d}.parquet"
    pq.write_table(pa.table(columns), path)
    return path


@contextmanager
def engine_without_spark(**options: Any) -> Iterator[EngineOfFiles]:
    """An engine that reads the files of its streams."""
    with EngineOfFiles(**options) as engine:
        yield engine


@contextmanager
def local_engine(script: str, **options: Any) -> Iterator[EngineWithoutSpark]:
    """An engine with a script's streams, queries and synopses, to which batches are delivered."""
    with EngineWithoutSpark(**options) as engine:
        engine.execute(script)
        engine.start()
        yield engine
