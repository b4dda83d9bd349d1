"""What survives a crash: commits, each one file that is there whole or not at all.

    DIRECTORY/
      queries/000000000007.0-<sum>.json the queries that batch 7 sees, written before it starts
      commits/000000000007.0-<sum>      batch 7 is done: its sub-windows, cursors and counts
      commits/000000000007.0.000000001-<sum> event time went on after batch 7, without events
      commits/000000000007.1-<sum>      the end of the input after batch 7 is answered
      head-000000000007.1-<sum>         the newest commit

A batch is computed, its answers are written under its number, then its commit appears by one rename. A crash before
the rename leaves the previous commit in force: the batch is played again with the same events and the same queries,
and its answers overwrite those that were left behind.

    snapshot <--previous-- commit <--previous-- newest commit --files--> what it stands on

A commit names the one before it, up to a snapshot that holds everything, and every file that it stands on. All names
have a checksum (see `files`), so a commit says what must be in all of them, and `load` looks before anything is used.

The head is an empty file that is renamed after each commit, to name it. A crash between the two leaves the head at the
commit before, which does no harm. A head that is ahead of the newest commit means that a commit was lost. The head is
written before the first commit, so commits without a head mean that the head was lost.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from mullion.errors import CheckpointError
from mullion.storage.fault_points import fault_point
from mullion.storage.files import (
    CommittedFiles,
    check,
    damaged,
    label_of,
    missing,
    read_checked,
    serialised,
    write_named,
)
from mullion.storage.marks import PATTERN, Mark
from mullion.storage.syncing import Syncing, sync_directory

VERSION = 3
SNAPSHOT_EVERY = 32
"""Commits between two that hold everything; reading a journal reads at most so many."""
HEAD = "head-"
_MARK = re.compile(PATTERN)
_PLACE = re.compile(r"(\d{12})\.(\d+)")


Standings = dict[str, list[str]]
"""How far other journals are, by their folders: the newest commit and list of queries of each; empty where there is
none."""


@dataclass(frozen=True)
class Commit:
    """State at the end of a batch. `tables` are the sub-windows that it adds, or all of them in a snapshot."""

    at: Mark
    state: dict[str, Any]
    tables: tuple[pa.Table, ...]
    snapshot: bool = False
    files: tuple[str, ...] = ()
    """Every file that it stands on, relative to the journal's directory."""
    previous: str | None = None
    """The file of the commit before it."""


class Journal:
    """The commits of one run in a directory, and the files that they stand on."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._syncing = Syncing()
        self.files = CommittedFiles(directory, self._syncing)
        self._since_snapshot = SNAPSHOT_EVERY
        self._previous: str | None = None
        self._queries: dict[tuple[int, int], str] | None = None
        self._last_queries: list[dict[str, Any]] | None = None
        self._begun_here: set[int] = set()

    @property
    def wants_snapshot(self) -> bool:
        return self._since_snapshot >= SNAPSHOT_EVERY

    def commit(self, commit: Commit) -> Mark | None:
        """Write a commit. After it, what neither it nor the one before names may be swept away. The commits before a
        snapshot leave with the one after it, so that a repair can always go back by one; returns the oldest that is
        left when some leave."""
        queries = self.list_in_force()
        files = sorted({*commit.files, *([] if queries is None else [queries])})
        header = {
            "version": VERSION,
            "at": commit.at.text,
            "previous": self._previous,
            "files": files,
            "state": commit.state,
            "snapshot": commit.snapshot,
        }
        bodies = itertools.chain([json.dumps(header).encode()], map(serialised, commit.tables))
        parts = (part for body in bodies for part in (struct.pack("<Q", len(body)), body))
        self._syncing.settle()
        fault_point("before commit")
        if self.head() is None:
            self.set_head("")
        self._previous = write_named(self._commits, commit.at.text, parts)
        fault_point("before head")
        self.set_head(self._previous)
        fault_point("after commit")
        follows_snapshot = self._since_snapshot == 1
        self._since_snapshot = 1 if commit.snapshot else self._since_snapshot + 1
        if not follows_snapshot:
            return None
        commits = self.commits()
        for _, name in commits[:-2]:
            (self._commits / name).unlink()
        return commits[-2:][0][0]

    def load(self) -> list[Commit]:
        """The commits that everything stands on, the newest last: those since the last snapshot. Empty when nothing was
        committed."""
        commits, head = self.commits(), self.head()
        newest = commits[-1][1] if commits else None
        if head is None and newest is not None:
            raise missing(self.directory / f"{HEAD}{newest}")
        if head and (newest is None or head > newest):
            raise missing(self._commits / head)
        if newest is None:
            return []
        chain = list(self._chain(newest))
        self.files.check(chain[0].files)
        self._since_snapshot, self._previous = len(chain), newest
        return chain[::-1]

    def _chain(self, name: str) -> Iterator[Commit]:
        """A commit and those before it, back to a snapshot."""
        commit = self.read(name)
        yield commit
        while not commit.snapshot:
            if commit.previous is None:
                raise damaged(self._commits / name, "it stands on no snapshot")
            name = commit.previous
            commit = self.read(name)
            yield commit

    def newest_whole(self) -> list[Commit]:
        """The newest commit that is whole with all that it stands on, after those before it up to a snapshot. Empty
        when none is."""
        for _, name in reversed(self.commits()):
            try:
                chain = list(self._chain(name))
                self.files.check(chain[0].files)
            except CheckpointError:
                continue
            return chain[::-1]
        return []

    def go_back(self, to: Commit | None, set_aside: Callable[[Path], None], keep: Collection[str] = ()) -> None:
        """Make a commit the newest, or let there be none. The next run goes on from there, with the lists of queries
        that the commit stands on, and those to `keep`."""
        for mark, name in self.commits():
            if to is None or mark > to.at:
                set_aside(self._commits / name)
        for (batch, _), name in self._lists().items():
            if to is None or (batch > to.at.batch and name not in {*to.files, *keep}):
                set_aside(self.files.path(name))
        if to is not None:
            self.set_head(dict(self.commits())[to.at])
        elif (head := self.head()) is not None:
            set_aside(self.directory / f"{HEAD}{head}")

    def commits(self) -> list[tuple[Mark, str]]:
        """The files of commits, oldest first."""
        names = [path.name for path in self._commits.iterdir()] if self._commits.is_dir() else []
        return sorted((mark, name) for name in names if (mark := _mark(name)) is not None)

    def read(self, name: str) -> Commit:
        """The commit of a file, which may be damaged or missing."""
        path = self._commits / name
        check(path)
        try:
            with path.open("rb") as file:
                header = json.loads(next(_parts(file), b""))
                if header["version"] != VERSION:
                    raise other_format(self.directory, header["version"])
                tables = tuple(pa.ipc.open_stream(part).read_all() for part in _parts(file))
        except (struct.error, ValueError, LookupError, TypeError, pa.ArrowException) as problem:
            raise damaged(path, str(problem)) from None
        mark = Mark.parse(header["at"])
        if mark.text != label_of(name):
            raise damaged(path, f"it is the commit {mark.text}")
        return Commit(mark, header["state"], tables, header["snapshot"], tuple(header["files"]), header["previous"])

    @property
    def _commits(self) -> Path:
        return self.directory / "commits"

    # The head

    def head(self) -> str | None:
        """The file of the commit that the head names, empty before the first; None when there never was a head."""
        paths = self.directory.glob(f"{HEAD}*") if self.directory.is_dir() else ()
        names = [path.name.removeprefix(HEAD) for path in paths]
        return max((name for name in names if not name or _mark(name) is not None), default=None)

    def set_head(self, name: str) -> None:
        """The name of the head holds everything, so that there is no content to wait for: after a power cut it may be
        behind, and nothing else."""
        old, path = self.head(), self.directory / f"{HEAD}{name}"
        if old is not None:
            os.rename(self.directory / f"{HEAD}{old}", path)
        else:
            self.directory.mkdir(parents=True, exist_ok=True)
            path.touch()
            sync_directory(self.directory)

    def standing(self) -> list[str]:
        """How far it is, for others that let go what it has taken."""
        return [self.head() or "", self.list_in_force() or ""]

    def check_standing(self, then: list[str]) -> None:
        """Raise where it is not as far as others say that it was."""
        commit, queries = then
        now = self.head() or ""
        if now < commit:
            raise missing(self._commits / commit)
        if now == commit and queries and not self.files.path(queries).exists():
            raise missing(self.files.path(queries))

    # Queries

    def begin(self, batch: int, queries: Sequence[dict[str, Any]]) -> None:
        """Write down which queries the batch sees, where they differ from those of the batch before."""
        if queries != self.last_queries():
            content, lists = json.dumps(queries).encode(), self._lists()
            again = sum(number == batch for number, _ in lists)
            lists[batch, again] = self.files.write("queries", f"{batch:012d}.{again}", content, ".json")
            self._last_queries = deepcopy(list(queries))  # callers may go on changing what they gave
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
        lists = self._lists()
        newest = max((place for place in lists if place[0] <= batch), default=None)
        return None if newest is None else json.loads(read_checked(self.files.path(lists[newest])))

    def has_queries_of(self, batch: int) -> bool:
        return any(number == batch for number, _ in self._lists())

    def _lists(self) -> dict[tuple[int, int], str]:
        """The lists of queries by the first batch that saw them, and by how often one was written for it."""
        if self._queries is None:
            matched = (
                (_PLACE.fullmatch(label_of(Path(name).name) or ""), name) for name in self.files.names("queries")
            )
            self._queries = {(int(place[1]), int(place[2])): name for place, name in matched if place is not None}
        return self._queries

    def lists_of(self, batch: int) -> list[str]:
        """The files of the lists that were written for a batch."""
        return [name for (number, _), name in sorted(self._lists().items()) if number == batch]

    def list_in_force(self) -> str | None:
        """The file of the newest list of queries."""
        lists = self._lists()
        return lists[max(lists)] if lists else None


def _parts(file: BinaryIO) -> Iterator[bytes]:
    """The parts of a commit that are left."""
    while size := file.read(8):
        yield file.read(*struct.unpack("<Q", size))


def _mark(name: str) -> Mark | None:
    """The mark of a commit's file; None for a file that is none."""
    label = label_of(name)
    return Mark.parse(label) if label is not None and _MARK.fullmatch(label) else None


def other_format(directory: Path, version: object) -> CheckpointError:
    hint = "finish it with the version of Mullion that made it, or start with a new checkpoint directory"
    return CheckpointError(f"the checkpoint {directory} has format {version}", hint=hint)
