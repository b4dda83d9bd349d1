"""What a promising join may do in a step, in the unit of its budget: rows, events that probe, or seconds.

The seconds of a pair are learnt from those that were told lately; how many fit is seen by the clock, portion by portion
(ali 5: results for an input tuple = (time between two - time to insert) / time of a hit).
"""

from __future__ import annotations

import sys
import time

import numpy as np

from mullion.expressions.arrays import Counts
from mullion.language.query import Budget

FIRST_GUESS = 1e-7
"""Seconds for a pair, before any was told."""
LEARNT = 0.5
"""The part of the newest step in the time that a pair takes."""
PORTION = 1 << 17
"""So many pairs are told between two looks at the clock."""


class StepBudget:
    """The budget of a step, which gets smaller as pairs are told. `most` is the number of rows that no step exceeds."""

    def __init__(self, budget: Budget, began: float, allowed: float, pair_seconds: float, most: int) -> None:
        """`allowed`: the seconds that AUTO has."""
        self.counts_events = budget.events is not None
        self.is_time = budget.rows is None and budget.events is None
        self.left: float = most
        self.rows = most
        if budget.rows is not None:
            self.left = min(budget.rows, most)
        elif budget.events is not None:
            self.left = budget.events
        self._until = began + (allowed if budget.time is None else budget.time / 1e6)
        self._pair_seconds = pair_seconds
        self._look()

    @property
    def is_spent(self) -> bool:
        return self.left < 1 or self.rows < 1

    def _look(self) -> None:
        if self.is_time:
            self.left = min((self._until - time.perf_counter()) / self._pair_seconds, sys.maxsize)

    def fits(self, events: int, pairs: int) -> bool:
        """Whether all of it can be told."""
        return (events if self.counts_events else pairs) <= self.left and pairs <= self.rows

    def fitting(self, pairs: Counts, times: float = 1.0) -> int:
        """How many of some entries in a row can be told as a whole, by their pairs, with so many times the budget."""
        most = times * (min(self.rows, PORTION) if self.is_time else self.rows)
        total = np.cumsum(pairs)
        whole = int(np.searchsorted(total, most if self.counts_events else min(most, times * self.left), "right"))
        if not self.counts_events:
            return whole
        events = np.cumsum(pairs > 0)
        return min(whole, int(np.searchsorted(events, times * self.left, "right")))

    @property
    def pairs(self) -> int:
        """Of an entry that does not fit as a whole, the pairs that do."""
        return int(self.rows if self.counts_events else min(self.left, self.rows))

    def spend(self, alive: Counts) -> None:
        """Some entries had so many pairs, which were told."""
        told = int(alive.sum())
        self.rows -= told
        if self.is_time:
            self._look()
        else:
            self.left -= int(np.count_nonzero(alive)) if self.counts_events else told


__all__ = ["FIRST_GUESS", "LEARNT", "StepBudget"]
