"""An index on disk of rows that live for different times (golab 4)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from mullion.errors import CheckpointError
from mullion.expressions.arrays import Times
from mullion.storage.fault_points import fault_point
from mullion.storage.files import check
from mullion.storage.lifetime_index.partitioning import Calendar, DoublyPartitioned, Touched
from mullion.storage.lifetime_index.rebuild import Rebuilt
from mullion.storage.lifetime_index.rows import Fresh, stored_schema, timed
from mullion.storage.lifetime_index.snapshot import Snapshot
from mullion.storage.lifetime_index.sub_index import Change, IndexSpec, SubIndex, UpdateWork
from mullion.storage.syncing import Syncing, sync_directory

FORMAT = 1
CLUSTERINGS: dict[str, type[SubIndex]] = {Rebuilt.kind: Rebuilt}
"""How sub-indices are kept, by the word for it in a state. Benchmarks add the paper's other way."""


@dataclass(frozen=True)
class Definition:
    """What an index is."""

    schema: pa.Schema
    key: str
    calendar: Calendar
    clustering: str = Rebuilt.kind
    bucket_rows: int = 64

    def __post_init__(self) -> None:
        if self.clustering not in CLUSTERINGS:
            raise ValueError(f"clustering is {' or '.join(CLUSTERINGS)}, not {self.clustering}")
        if self.bucket_rows < 1:
            raise ValueError(f"a bucket holds at least one row, not {self.bucket_rows}")
        if self.schema.get_field_index(self.key) < 0:
            raise ValueError(f"there is no column {self.key} among {self.schema.names}")

    def to_json(self) -> dict[str, Any]:
        calendar = self.calendar
        return {
            "schema": base64.b64encode(self.schema.serialize()).decode(),
            "key": self.key,
            "partitioning": calendar.partitioning.to_json(),
            "lifetime": calendar.lifetime,
            "interval": calendar.interval,
            "origin": calendar.origin,
            "clustering": self.clustering,
            "bucket_rows": self.bucket_rows,
        }

    @staticmethod
    def from_json(state: dict[str, Any]) -> Definition:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(state["schema"])))
        partitioning = DoublyPartitioned(**state["partitioning"])
        calendar = Calendar(partitioning, state["lifetime"], state["interval"], state["origin"])
        return Definition(schema, state["key"], calendar, state["clustering"], state["bucket_rows"])

    def spec(self, directory: Path) -> IndexSpec:
        return IndexSpec(directory, stored_schema(self.schema), self.key, self.bucket_rows)


@dataclass(frozen=True)
class UpdateCounts:
    """What an update did."""

    inserts_into: tuple[int, ...]
    """The sub-indices that take what came since the update before."""
    deletes_from: tuple[int, ...]
    """Those whose rows could end since."""
    touched: int
    """All that it had to look into: G + E - 1 if rows came in the interval that it ends, and none ended unforeseen."""
    read: int
    written: int
    inserted: int
    deleted: int
    expired_before: int
    """Rows given that had ended already: they are left out."""
    bytes_read: int
    bytes_written: int


@dataclass
class LifetimeIndex:
    """Rows with different, foreseen lifetimes on disk, clustered by a search key (golab 4.3).

        update at 18:   I1 + -   I2 +          + takes new rows, - loses those that ended
                        I3   -   I4            I4 is not touched

    Every update touches G + E - 1 of the G x E sub-indices and writes new versions of those that change. Their files
    are on the disk when it returns, and `state` names them all, for the commit of whoever owns the index. Files that
    the newest version does not name are swept away, but for those of snapshots that are in use.

    Requires: times that do not go back. Unforeseen ends are not in the paper: `gone` finds such rows in all
    sub-indices and has those that hold one written anew.
    Lives longer than `lifetime` are right too, only the sub-indices less even.
    Time: an update about (G + E - 1) / (G E) of the rows; searches go to all G E directories. Space: the rows, once
    more for the version before.
    """

    directory: Path
    definition: Definition
    _current: Snapshot
    _in_use: WeakSet[Snapshot] = field(default_factory=WeakSet)

    @staticmethod
    def create(directory: Path, definition: Definition) -> LifetimeIndex:
        """A new index in a directory of its own, which it empties."""
        spec, kind = definition.spec(directory), CLUSTERINGS[definition.clustering]
        directory.mkdir(parents=True, exist_ok=True)
        subs = tuple(kind.empty(spec, number) for number in range(definition.calendar.partitioning.count))
        index = LifetimeIndex(directory, definition, Snapshot(spec, 0, None, subs))
        index._sweep()
        return index

    @staticmethod
    def restore(directory: Path, state: dict[str, Any]) -> LifetimeIndex:
        """The index as it was when `state` was taken. What came after is forgotten."""
        if state["format"] != FORMAT:
            raise CheckpointError(f"the index in {directory} has format {state['format']}")
        definition = Definition.from_json(state["definition"])
        spec, kind = definition.spec(directory), CLUSTERINGS[definition.clustering]
        for name in _immutable(state):
            check(directory / name)
        try:
            subs = tuple(kind.load(spec, number, sub_state) for number, sub_state in enumerate(state["sub_indices"]))
        except (OSError, pa.ArrowException) as problem:
            raise CheckpointError(f"the index in {directory} is damaged: {problem}") from None
        snapshot = Snapshot(spec, state["version"], state["now"], subs)
        missing = sorted(name for name in snapshot.files if not (directory / name).exists())
        if missing:
            raise CheckpointError(f"the index in {directory} has lost {', '.join(missing)}")
        index = LifetimeIndex(directory, definition, snapshot)
        index._sweep()
        return index

    def state(self) -> dict[str, Any]:
        """What `restore` needs, for a checkpoint: the names of files."""
        return {
            "format": FORMAT,
            "definition": self.definition.to_json(),
            "version": self._current.version,
            "now": self._current.now,
            "sub_indices": [sub.to_json() for sub in self._current.subs],
        }

    def snapshot(self) -> Snapshot:
        """The index as it is now. Its files stay as long as it is used."""
        self._in_use.add(self._current)
        return self._current

    @property
    def now(self) -> int | None:
        """When the last update was."""
        return self._current.now

    @property
    def rows(self) -> int:
        return self._current.rows

    @property
    def sizes(self) -> list[int]:
        """Rows of every sub-index."""
        return [sub.rows for sub in self._current.subs]

    def update(
        self, now: int, rows: pa.Table, start: Times, end: Times, *, gone: pa.Table | None = None
    ) -> UpdateCounts:
        """Insert rows, delete what ended by `now`.

        `rows` came by `now`, and after the update before, or the update touches more sub-indices. The first update is
        the initial stage of Algorithm 1. `gone`: rows that were there and equal one of these in all its columns go too.
        """
        before = self._current
        if before.now is not None and now < before.now:
            raise ValueError(f"the index was updated at {before.now}, it cannot be updated at {now}")
        if len(start) and int(start.max()) > now:
            raise ValueError(f"a row comes at {int(start.max())}, after the update at {now}")
        touched = Touched((), ()) if before.now is None else self.definition.calendar.touched(before.now, now)
        fresh, left_out = self._by_sub_index(now, rows, start, end)
        gone = gone if gone is not None and len(gone) else None
        everywhere = range(len(before.subs)) if gone is not None else ()
        numbers = sorted({*touched.all, *fresh, *everywhere})
        subs, works = list(before.subs), []
        name = f"{before.version + 1:09d}"
        for number in numbers:
            change = Change(now, fresh.get(number), gone, name)
            subs[number], work = before.subs[number].updated(change, self._others(number))
            works.append(work)
        changed = [new for new, old in zip(subs, before.subs, strict=True) if new is not old]
        self._wait_for_disk({name for sub in changed for name in sub.files})
        self._current = Snapshot(before.spec, before.version + 1, now, tuple(subs))
        self._sweep()
        return _counts(touched, numbers, len(changed), left_out, works)

    def _by_sub_index(self, now: int, rows: pa.Table, start: Times, end: Times) -> tuple[dict[int, Fresh], int]:
        """The new rows of every sub-index that has some; and how many ended already."""
        table = timed(rows, start, end, self._current.spec.stored)
        there = np.flatnonzero(end > now)
        number = self.definition.calendar.sub_indices(start[there], end[there])
        order = np.argsort(number, kind="stable")
        present, first = np.unique(number[order], return_index=True)
        pieces = np.split(there[order], first[1:])
        return {int(n): Fresh(table, piece) for n, piece in zip(present, pieces, strict=False)}, len(rows) - len(there)

    def _others(self, number: int) -> Sequence[SubIndex]:
        """Versions of a sub-index that must stay readable when this update is done."""
        return [snapshot.subs[number] for snapshot in {self._current, *self._in_use}]

    def _wait_for_disk(self, names: set[str]) -> None:
        fault_point("before index files are on disk")
        syncing = Syncing()
        for name in sorted(names):
            syncing.begin(self.directory / name)
        syncing.settle()
        sync_directory(self.directory)
        fault_point("index files are on disk")

    def _sweep(self) -> None:
        """Remove the files that no readable version names."""
        named = self._current.files.union(*(snapshot.files for snapshot in self._in_use))
        for path in self.directory.iterdir():
            if path.name not in named and path.is_file():
                path.unlink()


def _immutable(state: dict[str, Any]) -> list[str]:
    """The files of a state that are written once."""
    names = [sub.get(name) for sub in state["sub_indices"] for name in ("file", "directory")]
    return [name for name in names if name is not None]


def _counts(touched: Touched, numbers: list[int], changed: int, left_out: int, works: list[UpdateWork]) -> UpdateCounts:
    return UpdateCounts(
        inserts_into=touched.inserts,
        deletes_from=touched.deletes,
        touched=len(numbers),
        read=sum(work.bytes_read > 0 for work in works),
        written=changed,
        inserted=sum(work.inserted for work in works),
        deleted=sum(work.deleted for work in works),
        expired_before=left_out,
        bytes_read=sum(work.bytes_read for work in works),
        bytes_written=sum(work.bytes_written for work in works),
    )
