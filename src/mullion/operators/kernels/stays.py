"""What operators emit whose rows may come and go while their input rows are there.

input row     |--------------------|
stays         |-----|      |-------|        each stay is a row of the result, with a start and an end of its own
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Array, Unsigned
from mullion.loops import loop


class Stays(NamedTuple):
    """Stays that start: of which row, from when until when."""

    row: Array
    start: Array
    end: Array

    @staticmethod
    def room(most: int) -> Stays:
        return Stays(*(np.empty(most, np.int64) for _ in range(3)))

    def first(self, count: int) -> Stays:
        return Stays(*(column[:count] for column in self))


class EarlyEnds(NamedTuple):
    """Stays that were emitted earlier and end before they promised: of which row, since when, and when they end."""

    row: Array
    start: Array
    at: Array

    @staticmethod
    def room(most: int) -> EarlyEnds:
        return EarlyEnds(*(np.empty(most, np.int64) for _ in range(3)))

    def first(self, count: int) -> EarlyEnds:
        return EarlyEnds(*(column[:count] for column in self))


@loop
def add_stay(stays: Stays, count: int, row: int, start: int, end: int) -> int:
    """One more stay after so many; returns how many there are then."""
    at = Unsigned(count)
    stays.row[at], stays.start[at], stays.end[at] = row, start, end
    return count + 1


@loop
def add_early_end(early_ends: EarlyEnds, count: int, row: int, start: int, end: int) -> int:
    """One more early end after so many; returns how many there are then."""
    at = Unsigned(count)
    early_ends.row[at], early_ends.start[at], early_ends.at[at] = row, start, end
    return count + 1
