"""From a relation back to a stream: what is told of rows that instants see from a first to a last one (golab 2.2.1).

    ranks of instants      1   2   3   4   5
    a row of value x       *---*---*                  istream: x at 1        dstream: x at 5
    another, of value x            *---*              not at 3: there was an x at 2; not at 4: there is one

Rows are given by arrays, their instants by ranks (see `clock`), and what is told as pairs of a row and a rank.

ISTREAM and DSTREAM go by value, so what counts is how many rows of a value come and leave at an instant. Only if more
come than leave, it is told of the surplus: of the youngest that came. If more leave than come: of the oldest that left.
Neither looks at any row that is just there, so the time is O(n log n) for the n rows that come or leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Codes, Index, Mask, Times

MOST_PAIRS = 1_000_000
"""Pairs of a row and an instant that are made at once."""


class Seen(NamedTuple):
    """From which to which rank each row is seen."""

    first: Times
    last: Times
    came: Index
    """Its place in the order in which rows came."""

    def take(self, index: Index) -> Seen:
        return Seen(*(column[index] for column in self))


class Told(NamedTuple):
    """Rows, the instants at which they are told, and 1 for what is there, -1 for what is no more."""

    row: Index
    rank: Times
    sign: npt.NDArray[np.int32]

    @staticmethod
    def of(row: Index, rank: Times, sign: int = 1) -> Told:
        return Told(row, rank, np.full(len(row), sign, np.int32))

    def take(self, index: Index) -> Told:
        return Told(self.row[index], self.rank[index], self.sign[index])

    @staticmethod
    def concat(*parts: Told) -> Told:
        return Told(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def turns(seen: Seen, low: int, high: int) -> Iterator[tuple[int, int]]:
    """The instants from low to high in parts, each with not too many pairs; one instant is never parted."""
    while low <= high:
        last = _turn(seen, low, high)
        yield low, last
        low = last + 1


def _turn(seen: Seen, low: int, high: int) -> int:
    """The last instant up to which the pairs are not too many; at least the first."""
    if _pairs(seen, low, high).sum() <= MOST_PAIRS:
        return high
    enough = low
    while enough < high:
        middle = (enough + high + 1) // 2
        if _pairs(seen, low, middle).sum() <= MOST_PAIRS:
            enough = middle
        else:
            high = middle - 1
    return enough


def _pairs(seen: Seen, low: int, high: int) -> Times:
    """How many instants from low to high see each row."""
    pairs: Times = np.maximum(np.minimum(seen.last, high) - np.maximum(seen.first, low) + 1, 0)
    return pairs


def whole(seen: Seen, low: int, high: int) -> Told:
    """RSTREAM: every row at every instant that sees it."""
    count = _pairs(seen, low, high)
    row = np.repeat(np.arange(len(count)), count)
    rank = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + np.maximum(seen.first, low)[row]
    return Told.of(row, rank)


def stretches(told: Told) -> tuple[Index, Times, Times]:
    """Pairs as rows with the first and the last of the instants that follow one another."""
    order = np.lexsort((told.rank, told.row))
    row, rank = told.row[order], told.rank[order]
    begins = np.ones(len(row), np.bool_)
    begins[1:] = (row[1:] != row[:-1]) | (rank[1:] != rank[:-1] + 1)
    at = np.flatnonzero(begins)
    return row[at], rank[at], rank[np.append(at[1:], len(row)) - 1] if len(at) else rank


def came(seen: Seen, low: int, high: int) -> Mask:
    """Which rows come at an instant from low to high."""
    return (seen.first <= seen.last) & (low <= seen.first) & (seen.first <= high)


def left(seen: Seen, low: int, high: int) -> Mask:
    """Which rows are no more, for the first time, at an instant from low to high."""
    return (seen.first <= seen.last) & (low <= seen.last + 1) & (seen.last + 1 <= high)


def new(seen: Seen, value: Codes, low: int, high: int) -> Told:
    """ISTREAM: by value, what is there and was not at the instant before."""
    coming, leaving = np.flatnonzero(came(seen, low, high)), np.flatnonzero(left(seen, low, high))
    there = _surplus(value, coming, seen.first[coming], leaving, seen.last[leaving] + 1, -seen.came[coming])
    return Told.of(there, seen.first[there])


def old(seen: Seen, value: Codes, low: int, high: int) -> Told:
    """DSTREAM: by value, what was there at the instant before and is no more."""
    coming, leaving = np.flatnonzero(came(seen, low, high)), np.flatnonzero(left(seen, low, high))
    there = _surplus(value, leaving, seen.last[leaving] + 1, coming, seen.first[coming], seen.came[leaving])
    return Told.of(there, seen.last[there] + 1)


def _surplus(value: Codes, mine: Index, at: Times, others: Index, other_at: Times, turn: Index) -> Index:
    """Of the rows `mine`, those that are left when for each value and instant as many are taken away as there are
    `others`; the first by turn stay."""
    instants = np.unique(at)
    key = value[mine] * len(instants) + np.searchsorted(instants, at)
    place = np.searchsorted(instants, other_at)
    matters = place < len(instants)
    matters[matters] = instants[place[matters]] == other_at[matters]
    cancelled = np.sort(value[others[matters]] * len(instants) + place[matters])
    order = np.lexsort((turn, key))
    key = key[order]
    number = np.arange(len(key)) - np.searchsorted(key, key)
    come = np.searchsorted(key, key, "right") - np.searchsorted(key, key)
    lost = np.searchsorted(cancelled, key, "right") - np.searchsorted(cancelled, key)
    return mine[order[number < come - lost]]


def missed(seen: Seen, low: int, high: int) -> Told:
    """RESTORE: rows whose whole life fell between two instants, at the later one (golab 3.3.4, Figure 3.4)."""
    row = np.flatnonzero((seen.first > seen.last) & (low <= seen.first) & (seen.first <= high))
    return Told.of(row, seen.first[row])


def changes(seen: Seen, low: int, high: int, *, signed: bool) -> Told:
    """Each row as it comes and, if `signed`, as it leaves."""
    coming = np.flatnonzero(came(seen, low, high))
    told = Told.of(coming, seen.first[coming])
    if not signed:
        return told
    leaving = np.flatnonzero(left(seen, low, high))
    return Told.concat(told, Told.of(leaving, seen.last[leaving] + 1, -1))


__all__ = ["Seen", "Told", "came", "changes", "left", "missed", "new", "old", "stretches", "turns", "whole"]
