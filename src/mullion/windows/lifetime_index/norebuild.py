"""NoRebuild: buckets of one size, of which an update writes those that change (golab 4.3.1; DEL of a wave)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.catalog.journal import step
from mullion.windows.lifetime_index.bucket_file import BucketFile, Numbers
from mullion.windows.lifetime_index.keys import NOT_THERE, Codes, Keys
from mullion.windows.lifetime_index.records import RECORDS, Layout, Records, opaque
from mullion.windows.lifetime_index.rows import Fresh, Mask, matching, numbers
from mullion.windows.lifetime_index.sub_index import (
    NEVER,
    Change,
    Shape,
    SubIndex,
    Work,
    order_by_key_and_end,
    read_directory,
    write_file,
)

AT_A_TIME = 1 << 27
"""Bytes of buckets that are in memory at once."""


@dataclass(frozen=True)
class Buckets:
    """The directory: buckets by key, a key's side by side. Figure 4.3."""

    keys: Keys
    code: Codes
    """The key of every bucket."""
    place: Numbers
    """Where it is in the file: its number there."""
    count: Numbers
    """Rows in it."""
    soonest: Numbers
    """The smallest end of them."""

    def __len__(self) -> int:
        return len(self.place)

    @staticmethod
    def none(type_: pa.DataType) -> Buckets:
        nothing = np.zeros(0, np.int64)
        return Buckets(Keys.none(type_), nothing, nothing, nothing, nothing)

    def take(self, index: npt.NDArray[Any]) -> Buckets:
        return Buckets(self.keys, self.code[index], self.place[index], self.count[index], self.soonest[index])

    def joined(self, more: Buckets) -> Buckets:
        """Both, the codes being those of `more`. Keys that have no bucket are forgotten."""
        code = np.concatenate([self.code, more.code])
        order = np.argsort(code, kind="stable")
        present, dense = np.unique(code[order], return_inverse=True)
        return Buckets(
            more.keys.take(present),
            dense.astype(np.int64),
            np.concatenate([self.place, more.place])[order],
            np.concatenate([self.count, more.count])[order],
            np.concatenate([self.soonest, more.soonest])[order],
        )

    def to_table(self) -> pa.Table:
        keys = self.keys.take(self.code).values
        return pa.table({"key": keys, "place": self.place, "count": self.count, "soonest": self.soonest})

    @staticmethod
    def from_table(table: pa.Table) -> Buckets:
        column = table.column("key")
        keys, code = Keys.none(column.type).extended(column)
        return Buckets(keys, code, *(numbers(table, name) for name in ("place", "count", "soonest")))


@dataclass(frozen=True)
class Bucketed(SubIndex):
    """A file of buckets of one size, each with rows of one key by their ends, and a directory of them.

        directory                        file
        key  bucket  count  soonest      0: y 3 8 8 -   1: (free)   2: x 9 12 - -   3: y 9 - - -
        x      2       2       9  ----------------------------------^
        y      0       3       3  -------^                                          |
        y      3       1       9  --------------------------------------------------'

    An update reads the buckets from which rows go (`soonest` tells) and, for every key with new rows, one that has
    room; it takes out what ended, puts in what is new, and writes them. A key that overflows gets another bucket. The
    buckets go to places that no version in use has, empty ones first, as in shadow paging; so a crash loses nothing and
    readers are not disturbed. Rows of a key lie in several places: searches are slower than with Rebuild, updates
    faster.

    Requires: columns of fixed width. Time: an update O(rows of the buckets that change). Space: buckets that are not
    full, and the places of the version before.
    """

    kind = "norebuild"
    shape: Shape
    number: int
    buckets: Buckets
    file: str | None
    """The directory. None: there are no rows."""

    @classmethod
    def empty(cls, shape: Shape, number: int) -> Bucketed:
        return cls(shape, number, Buckets.none(shape.key_type), None)

    @classmethod
    def load(cls, shape: Shape, number: int, told: dict[str, Any]) -> Bucketed:
        if told["file"] is None:
            return cls.empty(shape, number)
        return cls(shape, number, Buckets.from_table(read_directory(shape.directory / told["file"])), told["file"])

    def to_json(self) -> dict[str, Any]:
        return {"file": self.file}

    @property
    def files(self) -> tuple[str, ...]:
        return () if self.file is None else (self.file, self._path.name)

    @cached_property
    def rows(self) -> int:  # type: ignore[override]
        return int(self.buckets.count.sum())

    @cached_property
    def soonest(self) -> int:  # type: ignore[override]
        return int(self.buckets.soonest.min(initial=NEVER))

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.shape.stored)

    @property
    def _path(self) -> Path:
        return self.shape.directory / f"{self.number:03d}.buckets"

    @cached_property
    def bucket(self) -> np.dtype[np.void]:
        return self.layout.bucket(self.shape.bucket_rows)

    @property
    def _bucket_bytes(self) -> int:
        return self.bucket.itemsize

    def updated(self, change: Change, others: Sequence[SubIndex]) -> tuple[SubIndex, Work]:
        fresh = change.fresh or Fresh(self.shape.stored.empty_table(), np.zeros(0, np.intp))
        keys, codes = self.buckets.keys.extended(fresh.column(self.shape.key))
        touched = self._touched(change, codes)
        if not touched.any() and not len(fresh):
            return self, Work()
        busy = np.concatenate([self.buckets.place, *(o.buckets.place for o in others if isinstance(o, Bucketed))])
        edit = _Edit(self, keys, _Free(busy), change)
        made, deleted = edit.run(self.buckets.take(touched), fresh, codes)
        work = Work(int(touched.sum()) * self._bucket_bytes, len(made) * self._bucket_bytes, len(fresh), deleted)
        if not len(fresh) and not deleted:
            return self, work
        buckets = self.buckets.take(~touched).joined(made)
        if not len(buckets):
            return self.empty(self.shape, self.number), work
        name = f"{change.name}-{self.number:03d}.keys"
        directory = buckets.to_table()
        written = write_file(self.shape.directory / name, directory.schema, [directory])
        new = Bucketed(self.shape, self.number, buckets, name)
        return new, Work(work.bytes_read, work.bytes_written + written, work.inserted, work.deleted)

    def _touched(self, change: Change, codes: Codes) -> Mask:
        """The buckets from which rows may go; for other keys with new rows the first that has room."""
        if change.gone is not None:
            return np.ones(len(self.buckets), np.bool_)
        code = self.buckets.code
        touched = self.buckets.soonest <= change.now
        wants_room = np.setdiff1d(codes, code[touched])
        room = np.flatnonzero((self.buckets.count < self.shape.bucket_rows) & np.isin(code, wants_room))
        touched[room[np.unique(code[room], return_index=True)[1]]] = True
        return touched

    def search(self, keys: pa.Array) -> pa.Table:
        found = self.buckets.keys.codes(keys)
        chosen = self.buckets.take(np.isin(self.buckets.code, found[found != NOT_THERE]))
        return self.layout.rows(self.read(chosen))

    def tables(self) -> Iterator[pa.Table]:
        """As they lie in the file."""
        some = max(1, AT_A_TIME // self._bucket_bytes)
        places = np.argsort(self.buckets.place)
        for begin in range(0, len(places), some):
            yield self.layout.rows(self.read(self.buckets.take(places[begin : begin + some])))

    def read(self, buckets: Buckets) -> Records:
        """The records of buckets, one after the other."""
        whole = np.empty(len(buckets), self.bucket)
        if len(buckets):
            with BucketFile.open(self._path, os.O_RDONLY, self._bucket_bytes) as file:
                file.read(whole, buckets.place)
        is_row = np.arange(self.shape.bucket_rows) < buckets.count[:, None]
        return opaque(whole[RECORDS])[is_row].view(self.layout.dtype)

    def write(self, buckets: npt.NDArray[np.void], place: Numbers) -> None:
        """Whole buckets to their places."""
        with BucketFile.open(self._path, os.O_WRONLY | os.O_CREAT, self._bucket_bytes) as file:
            file.write(buckets, place)
        step("index file")


class _Free:
    """Places of a file that nobody reads, ascending; beyond its end there are always more."""

    def __init__(self, busy: Numbers) -> None:
        self._end = int(busy.max(initial=-1)) + 1
        self._free = np.setdiff1d(np.arange(self._end), busy)

    def take(self, count: int) -> Numbers:
        found, self._free = self._free[:count], self._free[count:]
        more = count - len(found)
        self._end += more
        return np.concatenate([found, np.arange(self._end - more, self._end)])


@dataclass(frozen=True)
class _Edit:
    """One update at work: some keys at a time, so that memory holds but a part of a large sub-index."""

    sub: Bucketed
    keys: Keys
    free: _Free
    change: Change

    def run(self, old: Buckets, fresh: Fresh, codes: Codes) -> tuple[Buckets, int]:
        """New buckets instead of the old ones, with the fresh rows; and how many rows went."""
        made, deleted = [], 0
        by_code = np.argsort(codes, kind="stable")
        codes = codes[by_code]
        for low, high in self._groups(old, codes):
            some = old.take((low <= old.code) & (old.code < high))
            new = slice(*np.searchsorted(codes, [low, high]))
            records = self.sub.layout.records(fresh.take(by_code[new]))
            buckets, gone = self._group(some, records, codes[new])
            made.append(buckets)
            deleted += gone
        nothing = Buckets.none(self.keys.values.type)
        return Buckets(
            self.keys,
            *(
                np.concatenate([getattr(nothing, name), *(getattr(part, name) for part in made)])
                for name in ("code", "place", "count", "soonest")
            ),
        ), deleted

    def _groups(self, old: Buckets, codes: Codes) -> Iterator[tuple[int, int]]:
        """Ranges of keys with about AT_A_TIME bytes each."""
        rows = np.bincount(codes, minlength=len(self.keys))
        rows += np.bincount(old.code, minlength=len(self.keys)) * self.sub.shape.bucket_rows
        group = np.cumsum(rows) * self.sub.layout.dtype.itemsize // AT_A_TIME
        return pairwise([0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(self.keys)])

    def _group(self, old: Buckets, fresh: Records, fresh_codes: Codes) -> tuple[Buckets, int]:
        records, layout = self.sub.read(old), self.sub.layout
        codes = np.repeat(old.code, old.count)
        stays = layout.ends(records) > self.change.now
        if self.change.gone is not None:
            stays &= ~matching(layout.rows(records), self.change.gone)
        kept = np.flatnonzero(stays)
        all_codes = np.concatenate([codes[kept], fresh_codes])
        ends = np.concatenate([layout.ends(records)[kept], layout.ends(fresh)])
        filled = _Filled.of(self.keys, all_codes, ends, self.sub.shape.bucket_rows)
        buckets = np.zeros(len(filled.code), self.sub.bucket)
        bucket, place_in_it = np.divmod(filled.target, self.sub.shape.bucket_rows)
        opaque(buckets[RECORDS])[bucket, place_in_it] = np.concatenate([opaque(records)[kept], opaque(fresh)])
        place = self.free.take(len(buckets))
        if len(buckets):
            self.sub.write(buckets, place)
        return Buckets(self.keys, filled.code, place, filled.count, filled.soonest), int(len(stays) - len(kept))


@dataclass(frozen=True)
class _Filled:
    """Rows put into buckets: by key and end, each bucket of a key but the last being full."""

    target: Numbers
    """Where every row goes: bucket * rows of a bucket + place in it."""
    code: Codes
    count: Numbers
    soonest: Numbers

    @staticmethod
    def of(keys: Keys, codes: Codes, ends: Numbers, size: int) -> _Filled:
        rows = np.bincount(codes, minlength=len(keys))
        buckets = -(-rows // size)
        first_bucket, first_row = np.cumsum(buckets) - buckets, np.cumsum(rows) - rows
        order = order_by_key_and_end(codes, ends)
        sorted_codes = codes[order]
        target = np.empty(len(codes), np.int64)
        target[order] = first_bucket[sorted_codes] * size + np.arange(len(codes)) - first_row[sorted_codes]
        place = target[order]
        starts = np.flatnonzero(place % size == 0)
        count = np.bincount(place // size, minlength=int(buckets.sum()))
        return _Filled(target, sorted_codes[starts], count, ends[order][starts])


__all__ = ["Bucketed", "Buckets"]
