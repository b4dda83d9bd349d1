"""When rows of a relation are missing: stretches of time, in order and apart from each other.

rows that were not told      [--------)   [---)  [------)
missing                      [--------)   [-------------)         what is asked of t is complete unless it is inside

A stretch is about rows of one key, by its code, or about any rows. Those of a key are apart from each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Codes, Mask, Times

ANY = int(np.iinfo(np.int64).min)
"""In the place of a code: rows of any key."""


@dataclass(frozen=True)
class Missing:
    """In the order of keys, and of a key in that of time."""

    start: Times
    end: Times
    key: Codes = field(repr=False)

    def __len__(self) -> int:
        return len(self.start)

    @staticmethod
    def of(start: Times, end: Times, key: Codes | None = None) -> Missing:
        """Of the lives of some rows, perhaps with their keys.

        >>> Missing.of(np.array([7, 1, 3, 2]), np.array([9, 4, 5, 2]))
        Missing(start=array([1, 7]), end=array([5, 9]))
        >>> Missing.of(np.array([7, 1, 3, 2]), np.array([9, 4, 5, 2]), np.array([8, 8, 9, 8]))
        Missing(start=array([1, 7, 3]), end=array([4, 9, 5]))
        """
        key = np.full(len(start), ANY) if key is None else key
        lives = np.flatnonzero(start < end)
        order = lives[np.lexsort((start[lives], key[lives]))]
        start, end, key = start[order], end[order], key[order]
        others = np.ones(len(order), np.bool_)
        others[1:] = key[1:] != key[:-1]
        ends, rank = np.unique(end, return_inverse=True)
        offset = np.cumsum(others) * len(ends)
        furthest = ends[np.maximum.accumulate(rank + offset) - offset] if len(order) else end
        begins = others
        begins[1:] |= start[1:] > furthest[:-1]
        last = np.append(np.flatnonzero(begins)[1:], len(start)) - 1
        return Missing(start[begins], furthest[last] if len(start) else furthest, key[begins])

    @staticmethod
    def between(since: int, until: int) -> Missing:
        """Of any rows, from one time until another."""
        return Missing(np.array([since]), np.array([until]), np.array([ANY]))

    @staticmethod
    def union(parts: Iterable[Missing]) -> Missing:
        found = list(parts)
        return Missing.of(
            *(np.concatenate([getattr(part, name) for part in found]) for name in ("start", "end", "key"))
        )

    def after(self, time: int) -> Missing:
        """Without what ends by then."""
        stays = self.end > time
        return Missing(self.start[stays], self.end[stays], self.key[stays])

    @cached_property
    def overall(self) -> Missing:
        """The same of rows of any key."""
        return self if (self.key == ANY).all() else Missing.of(self.start, self.end)

    def at(self, times: Times, keys: Codes | None = None) -> Mask:
        """At which times rows are missing: any rows, or for each time those of a key.

        >>> missing = Missing.of(np.array([1, 7, 3]), np.array([5, 9, 6]), np.array([ANY, 4, 8]))
        >>> missing.at(np.array([0, 1, 5, 8, 9])).tolist()
        [False, True, True, True, False]
        >>> missing.at(np.array([0, 1, 5, 8, 5]), np.array([4, 4, 4, 4, 8])).tolist()
        [False, True, False, True, True]
        """
        if keys is None:
            return self.overall._of(np.full(len(times), ANY), times)
        return self._of(np.full(len(times), ANY), times) | self._of(keys, times)

    def _of(self, keys: Codes, times: Times) -> Mask:
        """At which of these times rows are missing by a stretch of such a key."""
        if not len(self):
            return np.zeros(len(times), np.bool_)
        known, group = np.unique(self.key, return_inverse=True)
        starts, rank = np.unique(self.start, return_inverse=True)
        asked = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        place = asked * (len(starts) + 1) + np.searchsorted(starts, times, "right") - 1
        at = np.maximum(np.searchsorted(group * (len(starts) + 1) + rank, place, "right") - 1, 0)
        found: Mask = (self.key[at] == keys) & (self.start[at] <= times) & (times < self.end[at])
        return found

    def edges(self, after: int, before: int) -> Times:
        """The times between these two at which it begins or ends, for any key."""
        edges = np.unique(np.concatenate([self.start, self.end]))
        return edges[(edges > after) & (edges < before)]

    def to_table(self) -> pa.Table:
        return pa.table({"#since": self.start, "#until": self.end, "#key": self.key})

    @staticmethod
    def from_table(table: pa.Table) -> Missing:
        """Checkpoints of before have no keys."""
        start, end = (table[name].to_numpy() for name in ("#since", "#until"))
        return Missing(
            start, end, table["#key"].to_numpy() if "#key" in table.column_names else np.full(len(start), ANY)
        )


NOTHING = Missing.of(np.zeros(0, np.int64), np.zeros(0, np.int64))
