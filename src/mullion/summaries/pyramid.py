"""An index over neighbouring zones: upper cells hold the sum of those below (ali 3.4).

        [a b c d e]                a key that the top surely does not hold is in no zone;
  [a b c d]       [e]              a search goes down only where it may be
[a] [b] [c] [d]   [e]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Codes, Counts, Index
from mullion.summaries.base import Summary

FAN = 4
"""So many neighbours have an upper cell together."""


class ZoneHits(NamedTuple):
    """The keys that may be in a zone, by their places among those that were asked, and how often each came there."""

    zone: int
    keys: Index
    counts: Counts


class Pyramid:
    """Summaries of neighbouring zones, with their sums above them.

    Requires: summaries that are not changed any more.
    Time: O(z) additions to build with z zones; a key that is in k of them is looked up in O(k log z) cells, all keys
    together; O(log z) additions for the sum of any neighbours.
    Space: less than z / 3 + 1 summaries besides those of the zones.
    Guarantee: no zone is left out that holds a key: only what is surely absent is passed over.
    """

    def __init__(self, zones: Sequence[Summary]) -> None:
        self._levels = [list(zones)]
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            self._levels.append([_sum(below[at : at + FAN]) for at in range(0, len(below), FAN)])

    def find(self, codes: Codes) -> Iterator[ZoneHits]:
        """The zones that each key may be in, the oldest first."""
        if self._levels[0]:
            yield from self._find(len(self._levels) - 1, 0, codes, np.arange(len(codes)))

    def _find(self, level: int, at: int, codes: Codes, keys: Index) -> Iterator[ZoneHits]:
        cell = self._levels[level][at]
        keys = keys[cell.may_hold(codes[keys])]
        if not len(keys):
            return
        if level == 0:
            yield ZoneHits(at, keys, cell.estimate(codes[keys]))
            return
        for below in range(at * FAN, min((at + 1) * FAN, len(self._levels[level - 1]))):
            yield from self._find(level - 1, below, codes, keys)

    def total(self, low: int, high: int) -> Summary | None:
        """The sum of zones low, low + 1, .., high - 1, from the fewest cells; None where there are none."""
        cells = list(self._covering(low, high))
        return _sum(cells) if cells else None

    def _covering(self, low: int, high: int) -> Iterator[Summary]:
        for level, cells in enumerate(self._levels):
            is_top = level == len(self._levels) - 1
            while low < high and (is_top or low % FAN):
                yield cells[low]
                low += 1
            while low < high and high % FAN and high < len(cells):
                high -= 1
                yield cells[high]
            if low >= high:
                return
            low, high = low // FAN, -(-high // FAN)


def _sum(summaries: Sequence[Summary]) -> Summary:
    if len(summaries) == 1:
        return summaries[0]
    total = summaries[0].copy()
    for summary in summaries[1:]:
        total.add(summary)
    return total
