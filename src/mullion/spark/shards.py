"""Groupings with very many groups: their sub-windows stay on executors, sharded by group key.

    batch ---> partials --hash by key--> shard 0 | shard 1 | ..        each writes DIRECTORY/<mark>/<shard>.arrow
    due   ---> shard 0 | shard 1 | ..   each reads its own files, calls `windows.finalize`, writes or returns answers

Only tallies and windows travel through the driver. On a cluster the directory must be on shared storage: a machine that
does not see what another wrote would answer from a part of the events, so every reader looks whether it does.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion.catalog.journal import Mark, serialised, write_whole
from mullion.errors import EnvironmentProblem
from mullion.planner.plan import Grouping
from mullion.spark.pipeline import as_schema, plain_schema, typed
from mullion.windows.arrange import arrange
from mullion.windows.due import Due
from mullion.windows.finalize import Answers, Work, finalize
from mullion.windows.subwindow import Rows, SubWindows
from mullion.windows.tally import Tally, tally

Writer = Callable[[Mark, int, str, pa.Table], Path]
"""Writes the answers of a query from a shard: mark, shard, query, rows. Returns the file."""


@dataclass
class Shards:
    """The sharded sub-windows of one grouping."""

    directory: Path
    count: int
    entries: list[tuple[str, int]] = field(default_factory=list)
    """Marks that were written, and the newest slice of each."""
    _expired: list[str] = field(default_factory=list)

    def absorb(self, partials: DataFrame, grouping: Grouping, mark: Mark) -> Tally:
        """Write the partials of a batch, and return what they tell of it."""
        folder = self.directory / mark.text
        if folder.exists():  # of an attempt with more events, whose shards may be more
            shutil.rmtree(folder)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = list(batches)
            if found:
                table = typed(pa.Table.from_batches(found), grouping)
                file = folder / f"{_shard()}.arrow"
                write_whole(file, serialised(SubWindows.of(table, grouping).table))
                yield message([tally(table, grouping), file])

        keys = [F.col(f"k{i}") for i in range(len(grouping.group_keys))]
        sharded = partials.repartition(self.count, *keys)
        total = Tally()
        for part, file in messages(sharded.mapInArrow(run, "message binary")):
            require(file)
            total.add(part)
        if len(total.slices):
            self.entries.append((mark.text, int(total.slices.max())))
        return total

    def adopt(self, spark: SparkSession, entry: SubWindows, grouping: Grouping, name: str) -> None:
        """Take over sub-windows that were held on the driver."""
        folder, metadata = self.directory / name, entry.table.schema.metadata

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = list(batches)
            if found:
                table = as_schema(pa.Table.from_batches(found), entry_schema).replace_schema_metadata(metadata)
                file = folder / f"{_shard()}.arrow"
                write_whole(file, serialised(table))
                yield message([file])

        entry_schema = entry.table.schema.remove_metadata()
        keys = [F.col(f"key{i}") for i in range(len(grouping.group_keys))]
        frame = spark.createDataFrame(entry.table.cast(plain_schema(entry.table.schema)))
        for (file,) in messages(frame.repartition(self.count, *keys).mapInArrow(run, "message binary")):
            require(file)
        self.entries.append((name, entry.newest))

    def answer(
        self,
        spark: SparkSession,
        grouping: Grouping,
        due: Due,
        mark: Mark,
        work: Work,
        write: Writer | None,
        counted: Sequence[tuple[Grouping, Shards]] = (),
    ) -> list[Answers]:
        """Answer the due windows shard by shard. Answers that a shard could not write by itself come back: those that
        have an order or a limit across shards, and all of them without a writer."""
        own_folders = self.folders()
        counts = [(other, shards.folders()) for other, shards in counted]
        folders = [*own_folders, *(folder for _, others in counts for folder in others)]

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                if unseen := [f for f in folders if not sees(f)]:
                    yield message([None, [], unseen[0]])
                    continue
                shard = _shard()
                mine = _read(own_folders, shard)
                if not mine:
                    continue
                own = Work()
                back: list[Answers] = []
                file = None
                values = {other.name: Rows(_read(others, shard), other) for other, others in counts}
                rows = Rows(mine, grouping)
                for answers in finalize(rows, grouping, due, own, counted=values, arranged=False):
                    if write is None or any(n.startswith("#") for n in answers.table.schema.names):
                        back.append(answers)
                        continue
                    for name, answered in answers:
                        file = write(mark, shard, name, answered)
                        own.written += len(answered)
                yield message([own, back, file])

        ids = spark.range(0, self.count, 1, self.count)
        returned: list[Answers] = []
        for own, back, file in messages(ids.mapInArrow(run, "message binary")):
            if own is None:
                raise not_shared(file)
            if file is not None:
                require(file)
            work.final += own.final
            work.written += own.written
            for name, number in own.bad.items():
                work.bad[name] = work.bad.get(name, 0) + number
            returned += back
        return returned

    def folders(self) -> list[Path]:
        return [self.directory / name for name, _ in self.entries]

    def forget(self, horizon: int) -> None:
        """Let go what ended before the horizon; `sweep` removes it."""
        self._expired += [name for name, newest in self.entries if newest < horizon]
        self.entries = [entry for entry in self.entries if entry[1] >= horizon]

    def sweep(self) -> None:
        """Remove what a commit no longer names: a batch that is played again may need it until then."""
        for name in self._expired:
            shutil.rmtree(self.directory / name, ignore_errors=True)
        self._expired.clear()


def arranged_across(shards: Sequence[Answers], grouping: Grouping) -> list[Answers]:
    """Answers of many shards as one: ordered and cut to the limit again, now over all of them."""
    shapes = {query.name: query.shape for query in grouping.queries}
    by_query: dict[str, list[pa.Table]] = {}
    for answers in shards:
        for name, table in answers:
            by_query.setdefault(name, []).append(table)
    made = []
    for name, tables in by_query.items():
        whole = pa.concat_tables(tables)
        _, whole = arrange(np.zeros(len(whole), np.intp), whole, shapes[name])
        made.append(Answers((name,), [0, len(whole)], whole))
    return made


def _read(folders: Sequence[Path], shard: int) -> list[SubWindows]:
    files = [folder / f"{shard}.arrow" for folder in folders]
    return [SubWindows(pa.ipc.open_stream(f.read_bytes()).read_all()) for f in files if f.exists()]


def require(path: Path) -> None:
    """Raise where this machine does not see what another wrote."""
    if not sees(path):
        raise not_shared(path)


def sees(path: Path) -> bool:
    with suppress(OSError):
        os.scandir(path.parent).close()  # a network file system looks again when a directory is opened
    return path.exists()


def not_shared(path: Path) -> EnvironmentProblem:
    hint = "put the checkpoint and the answers on storage that the driver and all executors share"
    return EnvironmentProblem(f"{path} was written on one machine and is not seen on another", hint=hint)


def _shard() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def message(parts: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"message": pa.array([pickle.dumps(parts)], pa.binary())})


def messages(frame: DataFrame) -> Iterator[list[Any]]:
    for row in frame.toArrow().column("message").to_pylist():
        yield pickle.loads(row)


__all__ = ["Shards", "Writer", "arranged_across", "message", "messages", "not_shared", "require", "sees"]
