"""Where the rows of a key are, when they lie in buckets of one size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.expressions.arrays import Codes, Whole
from mullion.storage.lifetime_index.keys import IndexKeys
from mullion.storage.lifetime_index.rows import numbers


@dataclass(frozen=True)
class Buckets:
    """The directory: buckets by key, a key's side by side. Figure 4.3."""

    keys: IndexKeys
    code: Codes
    """The key of every bucket."""
    place: Whole
    """Where it is in the file: its number there."""
    count: Whole
    """Rows in it."""
    soonest: Whole
    """The smallest end of them."""

    def __len__(self) -> int:
        return len(self.place)

    @staticmethod
    def none(type_: pa.DataType) -> Buckets:
        nothing = np.zeros(0, np.int64)
        return Buckets(IndexKeys.none(type_), nothing, nothing, nothing, nothing)

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
        keys, code = IndexKeys.none(column.type).extended(column)
        return Buckets(keys, code, *(numbers(table, name) for name in ("place", "count", "soonest")))

    @staticmethod
    def concat(keys: IndexKeys, parts: Sequence[Buckets]) -> Buckets:
        """All of them; their codes are those of `keys`."""
        parts = [Buckets.none(keys.values.type), *parts]
        return Buckets(
            keys,
            np.concatenate([part.code for part in parts]),
            np.concatenate([part.place for part in parts]),
            np.concatenate([part.count for part in parts]),
            np.concatenate([part.soonest for part in parts]),
        )

    def added(self, bucket: npt.NDArray[np.intp], ends: Whole) -> Buckets:
        """With a row that ends at ends[i] put into bucket[i]."""
        soonest = self.soonest.copy()
        np.minimum.at(soonest, bucket, ends)
        count = self.count + np.bincount(bucket, minlength=len(self))
        return Buckets(self.keys, self.code, self.place, count, soonest)
