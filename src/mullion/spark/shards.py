"""Groupings with very many groups: their sub-windows stay on executors, sharded by group key.

    batch ---> partials --hash by key--> shard 0 | shard 1 | ..        each writes FOLDER/<shard>/<mark>
    due   ---> shard 0 | shard 1 | ..   each reads its own files, calls `slices.finalize`, writes or returns answers

Only tallies and windows travel through the driver. On a cluster the directory must be on shared storage: a machine that
does not see what another wrote would answer from a part of the events, so every reader looks whether it does.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mullion.errors import EnvironmentProblem
from mullion.planner.plan import Grouping
from mullion.runtime.counts import add_counts
from mullion.runtime.sink import ShardWriter
from mullion.slices.arrange import arrange
from mullion.slices.due import Due
from mullion.slices.finalize import Answers, Work, finalize
from mullion.slices.subwindow import Rows, SubWindows
from mullion.slices.tally import Tally, tally
from mullion.spark.pipeline import as_schema, plain_schema, typed
from mullion.storage.files import CommittedFiles, serialised
from mullion.storage.marks import Mark

"""Writes the answers of a query from a shard: mark, shard, query, rows. Returns the file."""


class Entry(NamedTuple):
    """What was written under a mark: by each shard that has something, one file."""

    mark: str
    newest: int
    """The newest slice."""
    files: dict[int, str]


@dataclass
class Shards:
    """The sharded sub-windows of one grouping, in a folder of the stream's files."""

    files: CommittedFiles
    folder: str
    count: int
    entries: list[Entry] = field(default_factory=list)

    def absorb(self, partials: DataFrame, grouping: Grouping, mark: Mark) -> Tally:
        """Write the partials of a batch, and return what they tell of it."""
        files, folder = self.files, self.folder

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = list(batches)
            if found:
                table = typed(pa.Table.from_batches(found), grouping)
                content = serialised(SubWindows.of(table, grouping).table)
                yield message(
                    [tally(table, grouping), _shard(), files.write(f"{folder}/{_shard()}", mark.text, content)]
                )

        keys = [F.col(f"k{i}") for i in range(len(grouping.group_keys))]
        sharded = partials.repartition(self.count, *keys)
        total, written = Tally(), {}
        for part, shard, file in messages(sharded.mapInArrow(run, "message binary")):
            require(self.files.path(file))
            total.add(part)
            written[shard] = file
        if len(total.slices):
            self.entries.append(Entry(mark.text, int(total.slices.max()), written))
        return total

    def adopt(self, spark: SparkSession, entry: SubWindows, grouping: Grouping, name: str) -> None:
        """Take over sub-windows that were held on the driver."""
        files, folder, metadata = self.files, self.folder, entry.table.schema.metadata

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = list(batches)
            if found:
                table = as_schema(pa.Table.from_batches(found), entry_schema).replace_schema_metadata(metadata)
                yield message([_shard(), files.write(f"{folder}/{_shard()}", name, serialised(table))])

        entry_schema = entry.table.schema.remove_metadata()
        keys = [F.col(f"key{i}") for i in range(len(grouping.group_keys))]
        frame = spark.createDataFrame(entry.table.cast(plain_schema(entry.table.schema)))
        written = dict(messages(frame.repartition(self.count, *keys).mapInArrow(run, "message binary")))
        for file in written.values():
            require(self.files.path(file))
        self.entries.append(Entry(name, entry.newest, written))

    def answer(
        self,
        spark: SparkSession,
        grouping: Grouping,
        due: Due,
        mark: Mark,
        work: Work,
        write: ShardWriter | None,
        counted: Sequence[tuple[Grouping, Shards]] = (),
    ) -> list[Answers]:
        """Answer the due windows shard by shard. Answers that a shard could not write by itself come back: those that
        have an order or a limit across shards, and all of them without a writer."""
        own_files = self.by_shard()
        counts = [(other, shards.by_shard()) for other, shards in counted]

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                shard = _shard()
                needed = [*own_files[shard], *(path for _, others in counts for path in others[shard])]
                if unseen := [path for path in needed if not sees(path)]:
                    yield message([None, [], unseen[0]])
                    continue
                mine = _read(own_files[shard])
                if not mine:
                    continue
                own = Work()
                back: list[Answers] = []
                file = None
                values = {other.name: Rows(_read(others[shard]), other) for other, others in counts}
                rows = Rows(mine, grouping)
                for answers in finalize(rows, grouping, due, own, counted=values, arranged=False):
                    if write is None or any(n.startswith("#") for n in answers.table.schema.names):
                        back.append(answers)
                        continue
                    for name, answered in answers:
                        file = write(mark, shard, name, answered)
                        own.written[name] = own.written.get(name, 0) + len(answered)
                yield message([own, back, file])

        ids = spark.range(0, self.count, 1, self.count)
        returned: list[Answers] = []
        for own, back, file in messages(ids.mapInArrow(run, "message binary")):
            if own is None:
                raise not_shared(file)
            if file is not None:
                require(file)
            work.final += own.final
            add_counts(work.written, own.written)
            add_counts(work.bad, own.bad)
            returned += back
        return returned

    def by_shard(self) -> list[list[Path]]:
        """The files of each shard."""
        files = [entry.files for entry in self.entries]
        return [[self.files.path(some[shard]) for some in files if shard in some] for shard in range(self.count)]

    def forget(self, horizon: int) -> None:
        """Let go what ended before the horizon."""
        self.entries = [entry for entry in self.entries if entry.newest >= horizon]

    @property
    def names(self) -> list[str]:
        """The files that a commit has to name."""
        return [name for entry in self.entries for name in entry.files.values()]

    def snapshot(self) -> list[Any]:
        return [self.folder, self.count, [[e.mark, e.newest, list(e.files.items())] for e in self.entries]]

    @staticmethod
    def restored(files: CommittedFiles, state: list[Any]) -> Shards:
        folder, count, entries = state
        return Shards(files, folder, count, [Entry(mark, newest, dict(some)) for mark, newest, some in entries])


def arranged_across(shards: Sequence[Answers], grouping: Grouping) -> list[Answers]:
    """Answers of many shards as one: ordered and cut to the limit again, now over all of them."""
    shapes = {query.name: query.template for query in grouping.queries}
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


def _read(files: Sequence[Path]) -> list[SubWindows]:
    return [SubWindows(pa.ipc.open_stream(file.read_bytes()).read_all()) for file in files]


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


__all__ = ["Shards", "arranged_across", "message", "messages", "not_shared", "require", "sees"]
