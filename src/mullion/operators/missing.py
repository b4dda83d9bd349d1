"""When rows of a relation are missing: stretches of time, in order and apart from each other.

rows that were not told      [--------)   [---)  [------)
missing                      [--------)   [-------------)         what is asked of t is complete unless it is inside
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Mask, Times


@dataclass(frozen=True)
class Missing:
    start: Times
    end: Times

    def __len__(self) -> int:
        return len(self.start)

    @staticmethod
    def of(start: Times, end: Times) -> Missing:
        """Of the lives of some rows.

        >>> Missing.of(np.array([7, 1, 3, 2]), np.array([9, 4, 5, 2]))
        Missing(start=array([1, 7]), end=array([5, 9]))
        """
        lives = start < end
        start, end = start[lives], end[lives]
        order = np.argsort(start, kind="stable")
        start, furthest = start[order], np.maximum.accumulate(end[order])
        begins = np.ones(len(start), np.bool_)
        begins[1:] = start[1:] > furthest[:-1]
        last = np.append(np.flatnonzero(begins)[1:], len(start)) - 1
        return Missing(start[begins], furthest[last] if len(start) else furthest)

    @staticmethod
    def union(parts: Iterable[Missing]) -> Missing:
        found = list(parts)
        return Missing.of(*(np.concatenate([getattr(part, name) for part in found]) for name in ("start", "end")))

    def after(self, time: int) -> Missing:
        """Without what ends by then."""
        stays = self.end > time
        return Missing(self.start[stays], self.end[stays])

    def at(self, times: Times) -> Mask:
        """At which times rows are missing.

        >>> Missing(np.array([1, 7]), np.array([5, 9])).at(np.array([0, 1, 5, 8, 9])).tolist()
        [False, True, False, True, False]
        """
        before = np.searchsorted(self.start, times, "right") - 1
        inside: Mask = before >= 0
        inside[inside] = times[inside] < self.end[before[inside]]
        return inside

    def edges(self, after: int, before: int) -> Times:
        """The times between these two at which it begins or ends."""
        edges = np.unique(np.concatenate([self.start, self.end]))
        return edges[(edges > after) & (edges < before)]

    def to_table(self) -> pa.Table:
        return pa.table({"#since": self.start, "#until": self.end})

    @staticmethod
    def from_table(table: pa.Table) -> Missing:
        return Missing(table["#since"].to_numpy(), table["#until"].to_numpy())


NOTHING = Missing(np.zeros(0, np.int64), np.zeros(0, np.int64))
