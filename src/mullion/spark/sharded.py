"""Relations in shards on executors: one task for each shard, which runs `ShardedStep.run`.

    driver: files of events, where shards stand --> shard 0 | shard 1 | ..   --> answers, where shards stand now

As for groupings in shards, the directory must be on storage that all machines share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from mullion.runtime.shard_step import Done, ShardedStep, Standing
from mullion.runtime.sink import ShardWriter
from mullion.spark.shards import message, messages, not_shared, require, sees


def run_on_executors(spark: SparkSession, step: ShardedStep, write: ShardWriter | None) -> Sequence[Done]:
    """What the shards made of a step, in their order."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for shard in batch.column(0).to_pylist():
                unseen = [path for path in _needed(step, shard) if not sees(path)]
                yield message([shard, None, unseen[0]] if unseen else [shard, step.run(shard, write), None])

    shards = spark.range(0, step.count, 1, step.count)
    found: dict[int, Done] = {}
    for shard, done, unseen in messages(shards.mapInArrow(run, "message binary")):
        if done is None:
            raise not_shared(unseen)
        for path in (*_files(step, done.standing), *done.written):
            require(path)
        found[shard] = done
    return [found[shard] for shard in range(step.count)]


def _needed(step: ShardedStep, shard: int) -> list[Path]:
    """The files that the task of a shard reads."""
    before = step.before[shard]
    own = [] if before is None else _files(step, before)
    return [*step.events.values(), *step.tables.values(), *own]


def _files(step: ShardedStep, standing: Standing) -> list[Path]:
    return [step.directory / name for name in sorted(standing.files)]


__all__ = ["run_on_executors"]
