"""What survives a crash: commits, each one file that is there whole or not at all.

    DIRECTORY/
      manifest.json             what the run is: streams, queries, where answers go
      queries/000000000007.json the queries that batch 7 sees, written before it starts
      commits/000000000007.0    batch 7 is done: its sub-windows, cursors and counts
      commits/000000000007.1    the end of the input after batch 7 is answered

A batch is computed, its answers are written under its number, then its commit appears by one rename. A crash before
the rename leaves the previous commit in force: the batch is played again with the same events and the same queries,
and its answers overwrite those that were left behind.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from mullion.errors import CheckpointError

VERSION = 1
SNAPSHOT_EVERY = 32
"""Commits between two that hold everything; reading a journal reads at most so many."""

on_step: list[Callable[[str], None]] = []
"""Called at every step of a commit; crash tests hang on here."""


def step(name: str) -> None:
    for call in on_step:
        call(name)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{uuid4().hex}.tmp"
    try:
        with open(temporary, "xb") as file:  # with the rights that the umask leaves
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True, order=True)
class Mark:
    """The place of a commit: a batch, and whether it is the end of the input after it."""

    batch: int
    end: bool = False

    @property
    def text(self) -> str:
        return f"{self.batch:012d}.{int(self.end)}"

    @staticmethod
    def parse(text: str) -> Mark:
        batch, end = text.split(".")
        return Mark(int(batch), end == "1")


@dataclass(frozen=True)
class Commit:
    """State at the end of a batch. `tables` are the sub-windows that it adds, or all of them in a snapshot."""

    at: Mark
    state: dict[str, Any]
    tables: tuple[pa.Table, ...]
    snapshot: bool = False


class Journal:
    """The commits of one stream in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._since_snapshot = SNAPSHOT_EVERY
        self._last_queries: list[dict[str, Any]] | None = None
        self._begun_here: set[int] = set()

    @property
    def wants_snapshot(self) -> bool:
        return self._since_snapshot >= SNAPSHOT_EVERY

    def commit(self, commit: Commit) -> None:
        header = json.dumps({"version": VERSION, "state": commit.state, "snapshot": commit.snapshot}).encode()
        parts = [struct.pack("<Q", len(header)), header]
        for table in commit.tables:
            body = serialised(table)
            parts += [struct.pack("<Q", len(body)), body]
        step("before commit")
        write_whole(self._commits / commit.at.text, b"".join(parts))
        step("after commit")
        self._since_snapshot = 1 if commit.snapshot else self._since_snapshot + 1
        if commit.snapshot:
            for older in self._sequences():
                if older < commit.at:
                    (self._commits / older.text).unlink()

    def load(self) -> tuple[Commit, list[pa.Table]] | None:
        """The newest commit, and every sub-window that it stands on; None when nothing was committed."""
        sequences = self._sequences()
        if not sequences:
            return None
        newest = self._read(sequences[-1])
        tables: list[pa.Table] = list(newest.tables)
        commit, count = newest, 1
        for sequence in reversed(sequences[:-1]):
            if commit.snapshot:
                break
            commit = self._read(sequence)
            tables = [*commit.tables, *tables]
            count += 1
        self._since_snapshot = count
        return newest, tables

    def begin(self, batch: int, queries: Sequence[dict[str, Any]]) -> None:
        """Write down which queries the batch sees, where they differ from those of the batch before."""
        if queries != self.last_queries():
            write_whole(self.directory / "queries" / f"{batch:012d}.json", json.dumps(queries).encode())
            self._last_queries = list(queries)
        self._begun_here.add(batch)

    def was_begun(self, batch: int) -> bool:
        """Whether a run before this one began the batch under a list of its own."""
        return batch not in self._begun_here and self.has_queries_of(batch)

    def last_queries(self) -> list[dict[str, Any]]:
        """The newest list of queries."""
        if self._last_queries is None:
            self._last_queries = self.queries_of(10**12) or []
        return self._last_queries

    def queries_of(self, batch: int) -> list[dict[str, Any]] | None:
        """The queries that the batch was started with: the newest list written for it or an earlier one."""
        folder = self.directory / "queries"
        names = sorted(f.name for f in folder.glob("*.json")) if folder.exists() else []
        names = [n for n in names if int(n.removesuffix(".json")) <= batch]
        return json.loads((folder / names[-1]).read_bytes()) if names else None

    def has_queries_of(self, batch: int) -> bool:
        return (self.directory / "queries" / f"{batch:012d}.json").exists()

    @property
    def _commits(self) -> Path:
        return self.directory / "commits"

    def _sequences(self) -> list[Mark]:
        if not self._commits.exists():
            return []
        return sorted(Mark.parse(f.name) for f in self._commits.iterdir() if not f.name.startswith("."))

    def _read(self, sequence: Mark) -> Commit:
        path = self._commits / sequence.text
        content = path.read_bytes()
        at, parts = 0, []
        try:
            while at < len(content):
                (size,) = struct.unpack_from("<Q", content, at)
                parts.append(content[at + 8 : at + 8 + size])
                at += 8 + size
            header = json.loads(parts[0])
            tables = tuple(pa.ipc.open_stream(part).read_all() for part in parts[1:])
        except (struct.error, ValueError, IndexError, pa.ArrowException) as problem:
            raise CheckpointError(f"the checkpoint file {path} is damaged: {problem}") from None
        if header["version"] != VERSION:
            hint = "finish it with the Mullion that made it, or start with a new checkpoint directory"
            raise CheckpointError(f"the checkpoint {self.directory} has format {header['version']}", hint=hint)
        return Commit(sequence, header["state"], tables, header["snapshot"])


def serialised(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
