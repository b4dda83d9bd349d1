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

from benchmarks.bucket_index.bucket_directory import Buckets
from benchmarks.bucket_index.bucket_file import BucketFile
from benchmarks.bucket_index.filling import Filled, Free
from benchmarks.bucket_index.records import RECORDS, Layout, Records, opaque
from mullion.expressions.arrays import Codes, Mask, Whole
from mullion.storage.fault_points import fault_point
from mullion.storage.lifetime_index.keys import NOT_THERE, IndexKeys
from mullion.storage.lifetime_index.rows import Fresh, matching
from mullion.storage.lifetime_index.sub_index import (
    NO_ROWS,
    Change,
    IndexSpec,
    SubIndex,
    UpdateWork,
    read_directory,
    write_file,
)

AT_A_TIME = 1 << 24
"""Bytes of buckets that are in memory at once."""


@dataclass(frozen=True)
class Bucketed(SubIndex):
    """A file of buckets of one size, each with rows of one key, and a directory of them.

        directory                        file
        key  bucket  count  soonest      0: y 3 8 8 -   1: (free)   2: x 9 12 - -   3: y 9 - - -
        x      2       2       9  ----------------------------------^
        y      0       3       3  -------^                                          |
        y      3       1       9  --------------------------------------------------'

    An update reads the buckets from which rows go (`soonest` tells), takes out what ended, puts in what is new, and
    writes them to places that no version in use has, empty ones first, as in shadow paging. Other new rows are added
    behind those of a bucket that has room, where no version before looks; a key that overflows gets another bucket. So
    a crash loses nothing and readers are not disturbed. Rows of a key lie in several places: searches are slower than
    with Rebuild, updates faster.

    Requires: columns of fixed width. Time: an update O(rows of the buckets from which rows go + new rows). Space:
    buckets that are not full, and the places of the version before.
    """

    kind = "norebuild"
    spec: IndexSpec
    number: int
    buckets: Buckets
    file: str | None
    """The directory. None: there are no rows."""

    @classmethod
    def empty(cls, spec: IndexSpec, number: int) -> Bucketed:
        _ = Layout(spec.stored).dtype  # refuses what has no fixed width
        return cls(spec, number, Buckets.none(spec.key_type), None)

    @classmethod
    def load(cls, spec: IndexSpec, number: int, state: dict[str, Any]) -> Bucketed:
        if state["file"] is None:
            return cls.empty(spec, number)
        return cls(spec, number, Buckets.from_table(read_directory(spec.directory / state["file"])), state["file"])

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
        return int(self.buckets.soonest.min(initial=NO_ROWS))

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.spec.stored)

    @property
    def _path(self) -> Path:
        return self.spec.directory / f"{self.number:03d}.buckets"

    @cached_property
    def bucket(self) -> np.dtype[np.void]:
        return self.layout.bucket(self.spec.bucket_rows)

    @property
    def _bucket_bytes(self) -> int:
        return self.bucket.itemsize

    def updated(self, change: Change, others: Sequence[SubIndex]) -> tuple[SubIndex, UpdateWork]:
        fresh = change.fresh or Fresh(self.spec.stored.empty_table(), np.zeros(0, np.intp))
        keys, codes = self.buckets.keys.extended(fresh.column(self.spec.key))
        by_key = np.argsort(codes, kind="stable")
        fresh, codes = fresh.only(by_key), codes[by_key]
        going = self._going(change)
        if not going.any() and not len(fresh):
            return self, UpdateWork()
        bucket = self._room(going, keys, codes)
        rest = bucket == NOT_THERE
        busy = np.concatenate([self.buckets.place, *(o.buckets.place for o in others if isinstance(o, Bucketed))])
        edit = _Edit(self, keys, Free(busy), change)
        rewritten, deleted = edit.run(self.buckets.take(going), fresh.only(np.flatnonzero(rest)), codes[rest])
        read = int(going.sum()) * self._bucket_bytes
        if not len(fresh) and not deleted:
            return self, UpdateWork(bytes_read=read)
        untouched = self._added(fresh.only(np.flatnonzero(~rest)), bucket[~rest]).take(~going)
        added = int((~rest).sum()) * self.layout.dtype.itemsize
        work = UpdateWork(read, len(rewritten) * self._bucket_bytes + added, len(fresh), deleted)
        return self._with(untouched.joined(rewritten), work, change.name)

    def _with(self, buckets: Buckets, work: UpdateWork, name: str) -> tuple[SubIndex, UpdateWork]:
        if not len(buckets):
            return self.empty(self.spec, self.number), work
        directory = buckets.to_table()
        label = f"{name}-{self.number:03d}"
        name, written = write_file(self.spec.directory, label, ".keys", directory.schema, [directory])
        new = Bucketed(self.spec, self.number, buckets, name)
        return new, UpdateWork(work.bytes_read, work.bytes_written + written, work.inserted, work.deleted)

    def _going(self, change: Change) -> Mask:
        """The buckets from which rows may go."""
        if change.gone is not None:
            return np.ones(len(self.buckets), np.bool_)
        return self.buckets.soonest <= change.now

    def _room(self, going: Mask, keys: IndexKeys, codes: Codes) -> Whole:
        """For every new row, by key, the bucket that it is added to. NOT_THERE: its key has none with room, or one that
        is written anyway."""
        emptiest = np.full(len(keys), NOT_THERE)
        with_room = np.flatnonzero(self.buckets.count < self.spec.bucket_rows)
        fullest_first = with_room[np.argsort(-self.buckets.count[with_room], kind="stable")]
        emptiest[self.buckets.code[fullest_first]] = fullest_first
        emptiest[self.buckets.code[going]] = NOT_THERE
        bucket = emptiest[codes]
        rank = np.arange(len(codes)) - np.searchsorted(codes, codes)
        room = np.append(self.spec.bucket_rows - self.buckets.count, 0)
        bucket[rank >= room[bucket]] = NOT_THERE
        return bucket

    def _added(self, fresh: Fresh, bucket: Whole) -> Buckets:
        """The directory with new rows, which are written behind those of their buckets."""
        if not len(fresh):
            return self.buckets
        records = self.layout.records(fresh.slice(slice(None)))
        offset = self.buckets.place[bucket] * self._bucket_bytes
        offset += self.buckets.count[bucket] * self.layout.dtype.itemsize
        with BucketFile.open(self._path, os.O_RDWR, self._bucket_bytes) as file:
            file.add(records, offset)
        fault_point("index file")
        return self.buckets.added(bucket, self.layout.ends(records))

    def search(self, keys: pa.Array) -> pa.Table:
        codes = self.buckets.keys.codes(keys)
        chosen = self.buckets.take(np.isin(self.buckets.code, codes[codes != NOT_THERE]))
        return self.layout.rows(self.read(chosen))

    def tables(self) -> Iterator[pa.Table]:
        """As they lie in the file."""
        at_a_time = max(1, AT_A_TIME // self._bucket_bytes)
        places = np.argsort(self.buckets.place)
        for begin in range(0, len(places), at_a_time):
            yield self.layout.rows(self.read(self.buckets.take(places[begin : begin + at_a_time])))

    def read(self, buckets: Buckets) -> Records:
        """The records of buckets, one after the other."""
        whole = np.empty(len(buckets), self.bucket)
        if len(buckets):
            with BucketFile.open(self._path, os.O_RDONLY, self._bucket_bytes) as file:
                file.read(whole, buckets.place)
        is_row = np.arange(self.spec.bucket_rows) < buckets.count[:, None]
        return opaque(whole[RECORDS])[is_row].view(self.layout.dtype)

    def write(self, buckets: npt.NDArray[np.void], place: Whole) -> None:
        """Whole buckets to their places."""
        with BucketFile.open(self._path, os.O_WRONLY | os.O_CREAT, self._bucket_bytes) as file:
            file.write(buckets, place)
        fault_point("index file")


@dataclass(frozen=True)
class _Edit:
    """One update at work: some keys at a time, so that memory holds but a part of a large sub-index."""

    sub: Bucketed
    keys: IndexKeys
    free: Free
    change: Change

    def run(self, old: Buckets, fresh: Fresh, codes: Codes) -> tuple[Buckets, int]:
        """New buckets instead of the old ones, with the fresh rows, which come by key; and how many rows went."""
        new_buckets, deleted = [], 0
        for low, high in self._groups(old, codes):
            group = old.take((low <= old.code) & (old.code < high))
            new = slice(*np.searchsorted(codes, [low, high]))
            records = self.sub.layout.records(fresh.slice(new))
            buckets, gone = self._group(group, records, codes[new])
            new_buckets.append(buckets)
            deleted += gone
        return Buckets.concat(self.keys, new_buckets), deleted

    def _groups(self, old: Buckets, codes: Codes) -> Iterator[tuple[int, int]]:
        """Ranges of keys with about AT_A_TIME bytes each."""
        rows = np.bincount(codes, minlength=len(self.keys))
        rows += np.bincount(old.code, minlength=len(self.keys)) * self.sub.spec.bucket_rows
        group = np.cumsum(rows) * self.sub.layout.dtype.itemsize // AT_A_TIME
        return pairwise([0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(self.keys)])

    def _group(self, old: Buckets, fresh: Records, fresh_codes: Codes) -> tuple[Buckets, int]:
        records, layout = self.sub.read(old), self.sub.layout
        codes = np.repeat(old.code, old.count)
        stays = layout.ends(records) > self.change.now
        if self.change.gone is not None:
            stays &= ~matching(layout.rows(records), self.change.gone)
        staying = np.flatnonzero(stays)
        all_codes = np.concatenate([codes[staying], fresh_codes])
        ends = np.concatenate([layout.ends(records)[staying], layout.ends(fresh)])
        filled = Filled.of(self.keys, all_codes, ends, self.sub.spec.bucket_rows)
        buckets = np.zeros(len(filled.code), self.sub.bucket)
        bucket, place_in_it = np.divmod(filled.target, self.sub.spec.bucket_rows)
        opaque(buckets[RECORDS])[bucket, place_in_it] = np.concatenate([opaque(records)[staying], opaque(fresh)])
        place = self.free.take(len(buckets))
        if len(buckets):
            self.sub.write(buckets, place)
        return Buckets(self.keys, filled.code, place, filled.count, filled.soonest), int(len(stays) - len(staying))
