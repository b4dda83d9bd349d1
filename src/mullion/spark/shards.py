"""Groupings with very many groups: their sub-windows stay on executors, sharded by group key.

    batch ---> partials --hash by key--> shard 0 | shard 1 | ..        each writes DIRECTORY/<mark>/<shard>.arrow
    due   ---> shard 0 | shard 1 | ..   each reads its own files, calls `windows.finalize`, writes or returns answers

Only tallies and windows travel through the driver. On a cluster the directory must be on shared storage.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion.catalog.journal import Mark, serialised, write_whole
from mullion.planner.plan import Grouping
from mullion.spark.pipeline import as_schema, plain_schema, typed
from mullion.windows.due import Due
from mullion.windows.finalize import Answers, Work, finalize
from mullion.windows.subwindow import Rows, SubWindows
from mullion.windows.tally import Tally, tally

Writer = Callable[[Mark, int, str, pa.Table], None]
"""Writes the answers of a query from a shard: mark, shard, query, rows."""


@dataclass
class Shards:
    """The sharded sub-windows of one grouping."""

    directory: Path
    count: int
    entries: list[tuple[str, int]] = field(default_factory=list)
    """Marks that were written, and the newest slice of each."""

    def absorb(self, partials: DataFrame, grouping: Grouping, mark: Mark) -> Tally:
        """Write the partials of a batch, and return what they tell of it."""
        folder = self.directory / mark.text

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = list(batches)
            if found:
                table = typed(pa.Table.from_batches(found), grouping)
                kept = SubWindows.of(table, grouping).table
                write_whole(folder / f"{_shard()}.arrow", serialised(kept))
                yield _message([tally(table, grouping)])

        keys = [F.col(f"k{i}") for i in range(len(grouping.keys))]
        sharded = partials.repartition(self.count, *keys)
        total = Tally()
        for (part,) in _messages(sharded.mapInArrow(run, "message binary")):
            total.add(part)
        if len(total.slices):
            self.entries.append((mark.text, int(total.slices.max())))
        return total

    def adopt(self, spark: SparkSession, entry: SubWindows, name: str) -> None:
        """Take over sub-windows that were held on the driver."""
        folder, metadata = self.directory / name, entry.table.schema.metadata

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = list(batches)
            if found:
                table = as_schema(pa.Table.from_batches(found), entry_schema).replace_schema_metadata(metadata)
                write_whole(folder / f"{_shard()}.arrow", serialised(table))
            yield _message([len(found)])

        entry_schema = entry.table.schema.remove_metadata()
        keys = [F.col(n) for n in entry.table.schema.names if n.startswith("key") and n[3:].isdigit()]
        frame = spark.createDataFrame(entry.table.cast(plain_schema(entry.table.schema)))
        frame.repartition(self.count, *keys).mapInArrow(run, "message binary").collect()
        self.entries.append((name, entry.newest))

    def answer(
        self, spark: SparkSession, grouping: Grouping, due: Due, mark: Mark, work: Work, write: Writer | None
    ) -> list[Answers]:
        """Answer the due windows shard by shard. Answers that a shard could not write by itself come back: those that
        have an order or a limit across shards, and all of them without a writer."""
        folders = [self.directory / name for name, _ in self.entries]

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                shard = _shard()
                files = [f / f"{shard}.arrow" for f in folders]
                tables = [pa.ipc.open_stream(f.read_bytes()).read_all() for f in files if f.exists()]
                if not tables:
                    continue
                own = Work()
                back: list[Answers] = []
                for answers in finalize(
                    Rows([SubWindows(t) for t in tables], grouping), grouping, due, own, arranged=False
                ):
                    if write is None or any(n.startswith("#") for n in answers.table.schema.names):
                        back.append(answers)
                        continue
                    for name, rows in answers:
                        write(mark, shard, name, rows)
                        own.written += len(rows)
                yield _message([own, back])

        ids = spark.range(0, self.count, 1, self.count)
        returned: list[Answers] = []
        for own, back in _messages(ids.mapInArrow(run, "message binary")):
            work.final += own.final
            work.written += own.written
            for name, number in own.bad.items():
                work.bad[name] = work.bad.get(name, 0) + number
            returned += back
        return returned

    def forget(self, horizon: int) -> None:
        expired = [name for name, newest in self.entries if newest < horizon]
        self.entries = [e for e in self.entries if e[0] not in expired]
        for name in expired:
            shutil.rmtree(self.directory / name, ignore_errors=True)


def _shard() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def _message(parts: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"message": pa.array([pickle.dumps(parts)], pa.binary())})


def _messages(frame: DataFrame) -> Iterator[list[Any]]:
    for row in frame.toArrow().column("message").to_pylist():
        yield pickle.loads(row)


__all__ = ["Shards", "Writer"]
