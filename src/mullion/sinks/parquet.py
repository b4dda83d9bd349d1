"""Answers as Parquet files: DIRECTORY/<query>/<mark>.parquet, late and malformed records in _late/ and _malformed/."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mullion.catalog.journal import Mark, step, write_whole
from mullion.sinks.base import Sink
from mullion.spark.shards import Writer
from mullion.windows.finalize import Answers

OURS = re.compile(r"^(\d{12}\.[01])(-shard-\d+)?\.parquet$")


class ParquetSink(Sink):
    """One file for each query and batch that answers it, there whole or not at all."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, mark: Mark, answers: Sequence[Answers]) -> None:
        by_query: dict[str, list[pa.Table]] = {}
        for some in answers:
            for name, table in some:
                by_query.setdefault(name, []).append(table)
        step("before answers")
        with ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(self._write, name, mark, tables) for name, tables in by_query.items()]
            for job in jobs:
                job.result()
                step("between answers")
        step("after answers")

    def _write(self, name: str, mark: Mark, tables: list[pa.Table]) -> None:
        _write_table(self.directory / name / f"{mark.text}.parquet", pa.concat_tables(tables))

    def aside(self, kind: str, mark: Mark, rows: pa.Table) -> None:
        _write_table(self.directory / f"_{kind}" / f"{mark.text}.parquet", rows)

    def resume(self, committed: Mark | None) -> None:
        for file in self._files():
            match = OURS.match(file.name)
            assert match is not None
            if committed is None or Mark.parse(match[1]) > committed:
                file.unlink()

    def _files(self) -> list[Path]:
        if not self.directory.exists():
            return []
        return [
            f for folder in self.directory.iterdir() if folder.is_dir() for f in folder.iterdir() if OURS.match(f.name)
        ]

    def tables(self, query: str) -> list[pa.Table]:
        """What was written for a query, oldest first."""
        folder = self.directory / query
        files = sorted(f for f in folder.iterdir() if OURS.match(f.name)) if folder.exists() else []
        return [pq.read_table(f, partitioning=None) for f in files]

    def finish(self, schemas: dict[str, pa.Schema]) -> None:
        """A query without answers gets an empty file, so that every query can be read."""
        for name, schema in schemas.items():
            folder = self.directory / name
            if not folder.exists() or not any(OURS.match(f.name) for f in folder.iterdir()):
                _write_table(folder / f"{Mark(0).text}.parquet", schema.empty_table())

    def shard_writer(self) -> Writer:
        return _ShardWriter(self.directory)


@dataclass(frozen=True)
class _ShardWriter:
    directory: Path

    def __call__(self, mark: Mark, shard: int, query: str, rows: pa.Table) -> None:
        _write_table(self.directory / query / f"{mark.text}-shard-{shard}.parquet", rows)


def _write_table(path: Path, table: pa.Table) -> None:
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    write_whole(path, bytes(buffer.getvalue()))
