"""Which rows go into which buckets, and where buckets go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mullion.expressions.arrays import Codes, Whole
from mullion.storage.lifetime_index.keys import IndexKeys
from mullion.storage.lifetime_index.sub_index import order_by_key_and_end


class Free:
    """Places of a file that no version uses, ascending; beyond its end there are always more."""

    def __init__(self, busy: Whole) -> None:
        self._end = int(busy.max(initial=-1)) + 1
        self._free = np.setdiff1d(np.arange(self._end), busy)

    def take(self, count: int) -> Whole:
        taken, self._free = self._free[:count], self._free[count:]
        more = count - len(taken)
        self._end += more
        return np.concatenate([taken, np.arange(self._end - more, self._end)])


@dataclass(frozen=True)
class Filled:
    """Rows put into buckets: by key and end, each bucket of a key but the last being full."""

    target: Whole
    """Where every row goes: bucket * rows of a bucket + place in it."""
    code: Codes
    count: Whole
    soonest: Whole

    @staticmethod
    def of(keys: IndexKeys, codes: Codes, ends: Whole, size: int) -> Filled:
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
        return Filled(target, sorted_codes[starts], count, ends[order][starts])
