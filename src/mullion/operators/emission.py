"""From a relation back to a stream: what is emitted of rows that instants see from a first to a last one (golab 2.2.1).

    ranks of instants      1   2   3   4   5
    a row of value x       *---*---*                  istream: x at 1        dstream: x at 5
    another, of value x            *---*              not at 3: there was an x at 2; not at 4: there is one

Rows are given by arrays, their instants by ranks (see `clock`), and what is emitted as pairs of a row and a rank.

ISTREAM and DSTREAM go by value, so what counts is how many rows of a value come and leave at an instant. If more come
than leave, the surplus is emitted: the youngest that came. If more leave than come: the oldest that left.
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


class Visibility(NamedTuple):
    """From which to which rank each row is seen."""

    first: Times
    last: Times
    arrival: Index
    """Its place in the order in which rows came."""

    def take(self, index: Index) -> Visibility:
        return Visibility(*(column[index] for column in self))


class Emission(NamedTuple):
    """Rows, the instants at which they are emitted, and 1 for what is there, -1 for what is no more."""

    row: Index
    rank: Times
    sign: npt.NDArray[np.int32]

    @staticmethod
    def of(row: Index, rank: Times, sign: int = 1) -> Emission:
        return Emission(row, rank, np.full(len(row), sign, np.int32))

    def take(self, index: Index) -> Emission:
        return Emission(self.row[index], self.rank[index], self.sign[index])

    @staticmethod
    def concat(*parts: Emission) -> Emission:
        return Emission(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def turns(visible: Visibility, low: int, high: int) -> Iterator[tuple[int, int]]:
    """The instants from low to high in parts, each with not too many pairs; one instant is never parted."""
    while low <= high:
        last = _turn(visible, low, high)
        yield low, last
        low = last + 1


def _turn(visible: Visibility, low: int, high: int) -> int:
    """The last instant up to which the pairs are not too many; at least the first."""
    if _pairs(visible, low, high).sum() <= MOST_PAIRS:
        return high
    enough = low
    while enough < high:
        middle = (enough + high + 1) // 2
        if _pairs(visible, low, middle).sum() <= MOST_PAIRS:
            enough = middle
        else:
            high = middle - 1
    return enough


def _pairs(visible: Visibility, low: int, high: int) -> Times:
    """How many instants from low to high see each row."""
    pairs: Times = np.maximum(np.minimum(visible.last, high) - np.maximum(visible.first, low) + 1, 0)
    return pairs


def visible_rows(visible: Visibility, low: int, high: int) -> Emission:
    """RSTREAM: every row at every instant that sees it."""
    count = _pairs(visible, low, high)
    row = np.repeat(np.arange(len(count)), count)
    rank = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + np.maximum(visible.first, low)[row]
    return Emission.of(row, rank)


def stretches(emission: Emission) -> tuple[Index, Times, Times]:
    """Pairs as rows with the first and the last of the instants that follow one another."""
    order = np.lexsort((emission.rank, emission.row))
    row, rank = emission.row[order], emission.rank[order]
    begins = np.ones(len(row), np.bool_)
    begins[1:] = (row[1:] != row[:-1]) | (rank[1:] != rank[:-1] + 1)
    at = np.flatnonzero(begins)
    return row[at], rank[at], rank[np.append(at[1:], len(row)) - 1] if len(at) else rank


def are_inserted(visible: Visibility, low: int, high: int) -> Mask:
    """Which rows come at an instant from low to high."""
    return (visible.first <= visible.last) & (low <= visible.first) & (visible.first <= high)


def are_deleted(visible: Visibility, low: int, high: int) -> Mask:
    """Which rows are no more, for the first time, at an instant from low to high."""
    return (visible.first <= visible.last) & (low <= visible.last + 1) & (visible.last + 1 <= high)


def inserted_rows(visible: Visibility, value: Codes, low: int, high: int) -> Emission:
    """ISTREAM: by value, what is there and was not at the instant before."""
    coming, leaving = np.flatnonzero(are_inserted(visible, low, high)), np.flatnonzero(are_deleted(visible, low, high))
    there = _surplus(value, coming, visible.first[coming], leaving, visible.last[leaving] + 1, -visible.arrival[coming])
    return Emission.of(there, visible.first[there])


def deleted_rows(visible: Visibility, value: Codes, low: int, high: int) -> Emission:
    """DSTREAM: by value, what was there at the instant before and is no more."""
    coming, leaving = np.flatnonzero(are_inserted(visible, low, high)), np.flatnonzero(are_deleted(visible, low, high))
    there = _surplus(value, leaving, visible.last[leaving] + 1, coming, visible.first[coming], visible.arrival[leaving])
    return Emission.of(there, visible.last[there] + 1)


def _surplus(value: Codes, rows: Index, at: Times, others: Index, other_at: Times, turn: Index) -> Index:
    """Of the rows `mine`, those that are left when for each value and instant as many are taken away as there are
    `others`; the first by turn stay."""
    instants = np.unique(at)
    key = value[rows] * len(instants) + np.searchsorted(instants, at)
    place = np.searchsorted(instants, other_at)
    matters = place < len(instants)
    matters[matters] = instants[place[matters]] == other_at[matters]
    cancelled = np.sort(value[others[matters]] * len(instants) + place[matters])
    order = np.lexsort((turn, key))
    key = key[order]
    number = np.arange(len(key)) - np.searchsorted(key, key)
    come = np.searchsorted(key, key, "right") - np.searchsorted(key, key)
    lost = np.searchsorted(cancelled, key, "right") - np.searchsorted(cancelled, key)
    return rows[order[number < come - lost]]


def missed_rows(visible: Visibility, low: int, high: int) -> Emission:
    """RESTORE: rows whose whole life fell between two instants, at the later one (golab 3.3.4, Figure 3.4)."""
    row = np.flatnonzero((visible.first > visible.last) & (low <= visible.first) & (visible.first <= high))
    return Emission.of(row, visible.first[row])


def changed_rows(visible: Visibility, low: int, high: int, *, signed: bool) -> Emission:
    """Each row as it comes and, if `signed`, as it leaves."""
    coming = np.flatnonzero(are_inserted(visible, low, high))
    emission = Emission.of(coming, visible.first[coming])
    if not signed:
        return emission
    leaving = np.flatnonzero(are_deleted(visible, low, high))
    return Emission.concat(emission, Emission.of(leaving, visible.last[leaving] + 1, -1))
