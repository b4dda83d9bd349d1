"""Whole runs of an engine without a JVM, in milliseconds: for tests of what a run leaves behind and the next one finds.

    with engine_without_spark(out=..., checkpoint=...) as engine:
        engine.execute("CREATE STREAM s (...) USING parquet OPTIONS (path '...') ...")
        engine.run()

Everything is real but Spark. `ListedFeed` notes the files of a batch where and as Spark does, before the batch is
processed, and after it that it is done; so a batch that a crash interrupts is played again with its files. The kernel
reads the files itself, which it does in the direct way of real runs. What only Spark evaluates is `NeedsSpark`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mullion import engine as engines
from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.expressions.vector import Vector
from mullion.planner.plan import Plan
from mullion.runtime.shard_step import Done, ShardedStep
from mullion.runtime.sink import ShardWriter
from mullion.slices.kernels.partial import TIME
from mullion.slices.tally import Tally
from mullion.spark import stream as streams
from mullion.spark.feed import Feed
from mullion.spark.files import pieces_of
from mullion.spark.pipeline import Events, collect_partials, kernel_columns
from mullion.spark.stream import StreamRun

SESSION = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))


class NeedsSpark(Exception):
    """A query that only Spark can evaluate."""


@dataclass(frozen=True)
class Listed:
    """A batch: what stands for a DataFrame."""

    paths: list[str]
    columns: tuple[str, ...] = ()

    @property
    def sparkSession(self) -> Any:
        return SESSION

    def createOrReplaceTempView(self, name: str) -> None:
        raise NeedsSpark(name)


class ListedFeed(Feed):
    """The files of a directory in batches, as Spark's file source gives them: one each time that somebody waits."""

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
        self.process(Listed(paths), number)
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
        if not new:
            return None
        entries = [{"path": f"file://{p}", "timestamp": 0, "batchId": last + 1, "action": "add"} for p in new]
        self._note("sources/0", last + 1, *map(json.dumps, entries))
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


def write_events(folder: Path, number: int, stream: Stream, events: Sequence[Mapping[str, Any]]) -> Path:
    """The next file of a stream."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = {name: Vector.of(t, [event[name] for event in events]).to_arrow() for name, t in stream.columns}
    path = folder / f"{number:06d}.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def _rows(events: Events) -> pa.Table:
    """The events of a batch with their time."""
    whole = pa.concat_tables([pq.read_table(path) for path in events.batch.paths])  # type: ignore[attr-defined]
    whole = whole.append_column(TIME, whole.column(events.stream.time_column).cast(pa.int64()))
    return events.within.of(whole)


class ListedRun(StreamRun):
    def _events(self, batch: Any, number: int) -> Events:
        self._paths = batch.paths
        return Events(batch, self.stream, number=number)

    def _records(self, events: Events) -> pa.Table:
        return _rows(events).drop_columns([TIME])

    def _is_large(self, *_: object) -> bool:
        return False


def _malformed_records(events: Events) -> pa.Table:
    rows = _rows(events)
    return rows.filter(pc.is_null(rows.column(TIME))).drop_columns([TIME])


def _times_in(events: Events) -> Tally:
    times = _rows(events).column(TIME)
    extremes = pc.min_max(times).as_py()
    return Tally(
        events=len(times) - times.null_count,
        malformed=times.null_count,
        oldest=extremes["min"],
        newest=extremes["max"],
    )


def _collect_partials(events: Events, plan: Plan, **more: Any) -> list[list[pa.Table]]:
    """From the files also where the engine would let Spark read once more, for events that are late."""
    needed = kernel_columns(plan.groupings)
    if events.pieces is None and needed is not None:
        pieces = pieces_of(events.batch.paths, events.stream, needed)  # type: ignore[attr-defined]
        events, plan = replace(events, pieces=tuple(pieces or ())), replace(plan, way="direct")
    return collect_partials(events, plan, **more)


def _on_this_machine(session: Any, step: ShardedStep, write: ShardWriter | None) -> list[Done]:
    return [step.run(shard, write) for shard in range(step.count)]


@contextmanager
def engine_without_spark(**options: Any) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "session", SESSION)
        patch.setattr(engines, "Feed", ListedFeed)
        patch.setattr(engines, "run_on_executors", _on_this_machine)
        patch.setattr(engines, "StreamRun", ListedRun)
        patch.setattr(streams, "collect_partials", _collect_partials)
        patch.setattr(streams, "malformed_records", _malformed_records)
        patch.setattr(streams, "times_in", _times_in)
        with Engine(way="direct", **options) as engine:
            yield engine


__all__ = ["ListedFeed", "NeedsSpark", "engine_without_spark", "write_events"]
