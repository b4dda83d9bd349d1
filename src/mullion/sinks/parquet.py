"""Answers as Parquet files: DIRECTORY/<query>/<mark>.parquet, and records that answer no
query in _late/<stream>.<mark>.parquet, _ahead and _malformed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mullion.sinks.base import ASIDE, Sink
from mullion.sinks.owner import Owner, is_owner, of_another, take_over
from mullion.spark.shards import Writer
from mullion.storage.files import write_whole
from mullion.storage.marks import Mark
from mullion.storage.steps import step
from mullion.windows.finalize import Answers

OURS = re.compile(r"^((?P<stream>.+)\.)?(?P<mark>\d{12}\.[01])(-shard-\d+)?\.parquet$")


class ParquetSink(Sink):
    """One file for each query and batch that answers it, there whole or not at all."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, stream: str, mark: Mark, answers: Sequence[Answers]) -> None:
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

    def aside(self, kind: str, stream: str, mark: Mark, rows: pa.Table) -> None:
        _write_table(self.directory / f"_{kind}" / f"{stream}.{mark.text}.parquet", rows)

    def claim(self, owner: Owner, *, overwrite: bool = False) -> None:
        """Let this run write here: where answers are of its owner, or there are none, or they may be removed."""
        if is_owner(self.directory, owner):
            return
        if any(_ours(folder) for folder in self._folders()):
            if not overwrite:
                raise of_another(self.directory, owner)
            self._remove_all()
        take_over(self.directory, owner)

    def _remove_all(self) -> None:
        """Remove every file that a sink wrote, and the folders that hold nothing else."""
        for folder in self._folders():
            for file in _ours(folder):
                file.unlink()
            with suppress(OSError):
                folder.rmdir()

    def _folders(self) -> list[Path]:
        return [f for f in self.directory.iterdir() if f.is_dir()] if self.directory.exists() else []

    def resume(self, stream: str, queries: Sequence[str], committed: Mark | None) -> None:
        files = [file for query in queries for file in _ours(self.directory / query)]
        files += [file for kind in ASIDE for file in _ours(self.directory / f"_{kind}", stream)]
        for file in files:
            if committed is None or _mark(file) > committed:
                file.unlink()

    def tables(self, query: str) -> list[pa.Table]:
        """What was written for a query, oldest first."""
        return [pq.read_table(file, partitioning=None) for file in _ours(self.directory / query)]

    def aside_tables(self, kind: str) -> list[pa.Table]:
        return [pq.read_table(file, partitioning=None) for file in _ours(self.directory / f"_{kind}")]

    def finish(self, schemas: dict[str, pa.Schema]) -> None:
        """A query without answers gets an empty file, so that every query can be read."""
        for name, schema in schemas.items():
            if not _ours(self.directory / name):
                _write_table(self.directory / name / f"{Mark(0).text}.parquet", schema.empty_table())

    def shard_writer(self) -> Writer:
        return _ShardWriter(self.directory)


@dataclass(frozen=True)
class _ShardWriter:
    directory: Path

    def __call__(self, mark: Mark, shard: int, query: str, rows: pa.Table) -> Path:
        path = self.directory / query / f"{mark.text}-shard-{shard}.parquet"
        _write_table(path, rows)
        return path


def _ours(folder: Path, stream: str | None = None) -> list[Path]:
    """The files that a sink wrote, oldest first; of the records put aside perhaps those of one stream."""
    files = sorted(folder.iterdir()) if folder.exists() else []
    return [f for f in files if (m := OURS.match(f.name)) and stream in (None, m["stream"])]


def _mark(file: Path) -> Mark:
    match = OURS.match(file.name)
    assert match is not None
    return Mark.parse(match["mark"])


def _write_table(path: Path, table: pa.Table) -> None:
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    write_whole(path, bytes(buffer.getvalue()))
