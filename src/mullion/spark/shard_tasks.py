"""The work of shards on executors: `runtime.sharding` for groupings, `runtime.shard_step` for relations.

    driver --functions and where files are--> one task for each shard --tallies, answers, names of files--> driver

On a cluster the directory must be on storage that all machines share.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mullion.allocation import release
from mullion.expressions.arrays import Index
from mullion.expressions.coding.canonical import in_one_piece
from mullion.planner.plan import Grouping
from mullion.runtime.shard_parts import by_group
from mullion.runtime.shard_step import ShardedStep, ShardOutcome, ShardState
from mullion.runtime.sharding import Shards, ShardTask, not_shared, require_shared, sees
from mullion.runtime.sink import ShardWriter
from mullion.slices.subwindow import PartialSubWindows, with_used_codes
from mullion.slices.tally import Tally
from mullion.spark.native import with_partial_types
from mullion.spark.pipeline import plain_schema
from mullion.storage.files import serialised
from mullion.storage.marks import Mark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_shards(shards: Shards, partials: DataFrame, grouping: Grouping, mark: Mark) -> Tally:
    """Write the partials of a batch, each on the executor of its shard, and return what they tell of it."""
    from pyspark.sql import functions as F

    slim = replace(shards, entries=[])

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = list(batches)
        if received:
            yield _message(
                slim.write(_shard(), with_partial_types(pa.Table.from_batches(received), grouping), grouping, mark)
            )
            received.clear()
            release()

    keys = [F.col(f"k{i}") for i in range(len(grouping.group_keys))]
    sharded = partials.repartition(shards.count, *keys)
    return shards.absorb(_messages(sharded.mapInArrow(run, "message binary")), mark)


def write_into_shards(
    spark: SparkSession, shards: Shards, entry: PartialSubWindows, grouping: Grouping, name: str, *, at_once: int
) -> dict[int, str]:
    """Write sub-windows that were held on the driver into their shards: the files by shard. Only their keys go to
    Spark, so many bytes at once; states may be many times larger than its heap."""
    keys = entry.table.select([f"key{i}" for i in range(len(grouping.group_keys))])
    keys = keys.cast(plain_schema(keys.schema)).replace_schema_metadata(None)
    rows = max(1, len(keys) * at_once // max(1, keys.nbytes))
    numbers = np.concatenate([_shards_of(spark, keys.slice(at, rows), shards) for at in range(0, len(keys), rows)])
    files = {}
    for shard in np.unique(numbers).tolist():
        own = entry.table.take(pa.array(np.flatnonzero(numbers == shard)))
        files[shard] = shards.write_entry(shard, name, serialised(with_used_codes(by_group(own, grouping))))
    return files


def _shards_of(spark: SparkSession, keys: pa.Table, shards: Shards) -> Index:
    """The shard of each row, which is the one that `repartition` by the same keys gives it."""
    from pyspark.sql import functions as F

    hashed = F.pmod(F.hash(*(F.col(name) for name in keys.schema.names)), F.lit(shards.count))
    found = spark.createDataFrame(keys).select(hashed.alias("shard")).toArrow()
    return np.asarray(in_one_piece(found.column("shard")), np.intp)


def run_shards(spark: SparkSession, count: int, task: ShardTask) -> Iterator[Any]:
    """What the task returns for each shard, in any order."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for shard in batch.column(0).to_pylist():
                yield _message(task(shard))
                release()

    return _messages(spark.range(0, count, 1, count).mapInArrow(run, "message binary"))


def run_step(spark: SparkSession, step: ShardedStep, write: ShardWriter | None) -> Sequence[ShardOutcome]:
    """What the shards of relations made of a step, in their order."""

    def task(shard: int) -> tuple[int, ShardOutcome | None, Path | None]:
        unseen = [path for path in _needed(step, shard) if not sees(path)]
        return (shard, None, unseen[0]) if unseen else (shard, step.run(shard, write), None)

    by_shard: dict[int, ShardOutcome] = {}
    for shard, done, unseen in run_shards(spark, step.count, task):
        if done is None:
            raise not_shared(unseen)
        for path in (*_files(step, done.standing), *done.written):
            require_shared(path)
        by_shard[shard] = done
    return [by_shard[shard] for shard in range(step.count)]


def _needed(step: ShardedStep, shard: int) -> list[Path]:
    """The files that the task of a shard reads."""
    before = step.before[shard]
    own = [] if before is None else _files(step, before)
    return [*step.events.values(), *step.tables.values(), *own]


def _files(step: ShardedStep, standing: ShardState) -> list[Path]:
    return [step.directory / name for name in sorted(standing.files)]


def _shard() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def _message(content: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"message": pa.array([pickle.dumps(content)], pa.binary())})


def _messages(frame: DataFrame) -> Iterator[Any]:
    for row in frame.toArrow().column("message").to_pylist():
        yield pickle.loads(row)
