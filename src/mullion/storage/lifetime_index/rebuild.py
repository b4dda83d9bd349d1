"""Rebuild: a touched sub-index is written anew, all rows of a key side by side (golab 4.3.1; REINDEX of a wave)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.expressions.arrays import Codes, Index, Mask, numbers
from mullion.storage.lifetime_index.keys import NOT_THERE, IndexKeys
from mullion.storage.lifetime_index.mapped import Mapped
from mullion.storage.lifetime_index.rows import END, Fresh, matching
from mullion.storage.lifetime_index.sub_index import (
    NO_ROWS,
    Change,
    IndexSpec,
    SubIndex,
    UpdateWork,
    order_by_key_and_end,
    read_directory,
    write_file,
)

AT_A_TIME = 1 << 14
"""Rows of a record batch: so many are in memory at once while a sub-index is written."""


@dataclass(frozen=True)
class Rebuilt(SubIndex):
    """An Arrow file sorted by key and end, which readers map into memory, and a directory beside it.

        directory            rows
        key  count           x until 9 | x until 12 | y until 3 | y until 8 | y until 8
        x    2   ------------^                       ^
        y    3   ------------------------------------'

    A search reads one contiguous piece. An update reads the file and writes another, in which the old rows that stay
    and the new ones are merged, some thousand at a time.

    Time: a search O(rows found); an update O(rows of the sub-index). Space: nothing but the rows.
    """

    kind = "rebuild"
    spec: IndexSpec
    number: int
    rows: int
    soonest: int
    file: str | None
    """The rows. None: there are none."""
    directory: str | None
    """The directory of keys."""
    keys: IndexKeys
    counts: npt.NDArray[np.int64]
    """Rows of every key."""

    @classmethod
    def empty(cls, spec: IndexSpec, number: int) -> Rebuilt:
        return cls(spec, number, 0, NO_ROWS, None, None, IndexKeys.none(spec.key_type), np.zeros(0, np.int64))

    @classmethod
    def load(cls, spec: IndexSpec, number: int, state: dict[str, Any]) -> Rebuilt:
        if state["file"] is None:
            return cls.empty(spec, number)
        directory = read_directory(spec.directory / state["directory"])
        keys, counts = IndexKeys(directory.column("key").combine_chunks()), numbers(directory, "count")
        rows = int(counts.sum())
        return cls(spec, number, rows, state["soonest"], state["file"], state["directory"], keys, counts)

    def to_json(self) -> dict[str, Any]:
        return {"file": self.file, "directory": self.directory, "soonest": self.soonest}

    @property
    def files(self) -> tuple[str, ...]:
        return () if self.file is None or self.directory is None else (self.file, self.directory)

    def updated(self, change: Change, others: Sequence[SubIndex]) -> tuple[SubIndex, UpdateWork]:
        if change.fresh is None and change.gone is None and self.soonest > change.now:
            return self, UpdateWork()
        old = self._all()
        stays = self._stays(old, change)
        if change.fresh is None and stays.all():
            return self, UpdateWork(bytes_read=self._bytes)
        fresh = change.fresh or Fresh(self.spec.stored.empty_table(), np.zeros(0, np.intp))
        merged = _Merged.of(self, old, np.flatnonzero(stays), fresh)
        work = UpdateWork(self._bytes, 0, len(fresh), int(len(stays) - stays.sum()))
        if not len(merged.order):
            return self.empty(self.spec, self.number), work
        folder, label = self.spec.directory, f"{change.name}-{self.number:03d}"
        file, written = write_file(folder, label, ".rows", self.spec.stored, merged.pieces())
        present = np.flatnonzero(merged.counts)
        keys, counts = merged.keys.take(present), merged.counts[present]
        table = pa.table({"key": keys.values, "count": counts})
        directory, size = write_file(folder, label, ".keys", table.schema, [table])
        new = Rebuilt(self.spec, self.number, len(merged.order), merged.soonest, file, directory, keys, counts)
        return new, UpdateWork(work.bytes_read, written + size, work.inserted, work.deleted)

    def _stays(self, old: pa.Table, change: Change) -> Mask:
        stays: Mask = numbers(old, END) > change.now
        return stays if change.gone is None else stays & ~matching(old, change.gone)

    def search(self, keys: pa.Array) -> pa.Table:
        codes = np.unique(self.keys.codes(keys))
        codes = codes[codes != NOT_THERE]
        if not len(codes):
            return self.spec.stored.empty_table()
        rows = Mapped.pieces(self._path)
        return pa.concat_tables([rows.piece(self._offsets[code], self.counts[code]) for code in codes])

    def tables(self) -> Iterator[pa.Table]:
        for batch in self._all().to_batches():
            yield pa.Table.from_batches([batch])

    @cached_property
    def _offsets(self) -> npt.NDArray[np.int64]:
        return np.cumsum(self.counts) - self.counts

    @property
    def _bytes(self) -> int:
        return 0 if self.file is None else self._path.stat().st_size

    @property
    def _path(self) -> Path:
        assert self.file is not None
        return self.spec.directory / self.file

    def _all(self) -> pa.Table:
        return self.spec.stored.empty_table() if self.file is None else Mapped.whole(self._path)


@dataclass(frozen=True)
class _Merged:
    """Old rows that stay and fresh ones, by key and end."""

    old: pa.Table
    fresh: Fresh
    order: Index
    """Numbers of rows: below len(old) of old ones, the others of fresh ones."""
    keys: IndexKeys
    counts: npt.NDArray[np.int64]
    soonest: int

    @staticmethod
    def of(sub: Rebuilt, old: pa.Table, stays: Index, fresh: Fresh) -> _Merged:
        keys, new_codes = sub.keys.extended(fresh.column(sub.spec.key))
        old_codes: Codes = np.repeat(np.arange(len(sub.keys)), sub.counts)[stays]
        codes = np.concatenate([old_codes, new_codes])
        ends = np.concatenate([numbers(old, END)[stays], np.asarray(fresh.column(END), np.int64)])
        row = np.concatenate([stays, len(old) + np.arange(len(fresh))])
        order = row[order_by_key_and_end(codes, ends)]
        counts = np.bincount(codes, minlength=len(keys))
        return _Merged(old, fresh, order, keys, counts, int(ends.min(initial=NO_ROWS)))

    def pieces(self) -> Iterator[pa.Table]:
        for begin in range(0, len(self.order), AT_A_TIME):
            yield self._piece(self.order[begin : begin + AT_A_TIME])

    def _piece(self, order: Index) -> pa.Table:
        """The rows of a part of the order. The old ones among them lie close together, since old rows are in order."""
        is_old = order < len(self.old)
        old_rows, fresh_rows = order[is_old], order[~is_old] - len(self.old)
        if not len(fresh_rows):
            return self._old(old_rows)
        place = np.empty(len(order), np.int64)
        place[is_old] = np.arange(len(old_rows))
        place[~is_old] = len(old_rows) + np.arange(len(fresh_rows))
        parts = [self._old(old_rows), self.fresh.take(fresh_rows)]
        return pa.concat_tables(parts).take(pa.array(place))

    def _old(self, rows: Index) -> pa.Table:
        if not len(rows):
            return self.old.slice(0, 0)
        near = self.old.slice(rows[0], rows[-1] - rows[0] + 1)
        return near if len(near) == len(rows) else near.take(pa.array(rows - rows[0]))
