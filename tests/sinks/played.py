"""Batches that a sink of files is given, and what readers find of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mullion.sinks.owner import Owner
from mullion.sinks.parquet import ParquetSink
from mullion.slices.finalize import Answers
from mullion.storage.marks import Mark

SCHEMA = pa.schema([("batch", pa.int64()), ("n", pa.int64())])
MINE = Owner("mine", "/the/checkpoint")


def rows_of(batch: int, number: int) -> pa.Table:
    return pa.table({"batch": [batch] * number, "n": list(range(number))}, schema=SCHEMA)


def opened(out: Path, queries: list[str], committed: int | None) -> ParquetSink:
    sink = ParquetSink(out)
    sink.claim(MINE)
    sink.set_queries("s", {name: f"text of {name}" for name in queries})
    sink.resume("s", queries, None if committed is None else Mark(committed))
    return sink


def play(sink: ParquetSink, batch: int, numbers: dict[str, int], *, shards: bool = False) -> None:
    """What a batch writes: some queries by shards, the others by the driver, perhaps in parts, and late records."""
    late = sum(numbers.values()) % 3
    if late:
        sink.aside("late", "s", Mark(batch), rows_of(batch, late))
    write = sink.shard_writer()
    answers, more = [], []
    for name, number in numbers.items():
        table = rows_of(batch, number)
        if shards and number > 1:
            write(Mark(batch), 0, name, table.slice(0, 1))
            write(Mark(batch), 1, name, table.slice(1))
        elif number > 2:
            answers.append(Answers((name,), [0, 2], table.slice(0, 2)))
            more.append(Answers((name,), [0, number - 2], table.slice(2)))
        else:
            answers.append(Answers((name,), [0, number], table))
    sink.write("s", Mark(batch), answers)
    if more:
        sink.write("s", Mark(batch), more, 1)


def read(out: Path, name: str) -> list[tuple[int, int]]:
    """As any reader would."""
    found = [pq.read_table(path, partitioning=None) for path in sorted((out / name).glob("*.parquet"))]
    return [tuple(row.values()) for table in found for row in table.to_pylist()]


def parquet_files(out: Path) -> int:
    return sum(1 for _ in out.rglob("*.parquet"))


def expected(numbers: list[dict[str, int]], name: str) -> list[tuple[int, int]]:
    return [(batch, n) for batch, some in enumerate(numbers) for n in range(some.get(name, 0))]
