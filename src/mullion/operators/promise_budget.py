"""What a promising join or selection may do in a step, in the unit of its budget: rows, events that probe, or seconds.

    | began: rows are sorted, counted, put in order | told, portion by portion | what waits is put away |
    |<--------------------- the seconds of a step ---------------------------->|<----- `after` -------->|

What pairs take is learnt from those that were told lately (`pace`), and what comes after them from the last steps; how
many pairs fit is seen by the clock (ali 5: results for an input tuple = (time between two - time to insert) / time of a
hit). Where all else takes the whole budget, a part of it is still for telling: or what waits would only grow.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from mullion.expressions.arrays import Counts
from mullion.language.query import Budget
from mullion.operators.pace import Pace

LEAST = 8
"""One of so many parts of a budget in time is for telling at the least."""
LEARNT = 0.5
"""The part of the newest step in the time that a pair takes."""
PORTION = 1 << 17
"""So many pairs are told between two looks at the clock."""


class StepBudget:
    """The budget of a step, which gets smaller as pairs are told. `most` is the number of rows that no step exceeds."""

    def __init__(self, budget: Budget, began: float, allowed: float, pace: Pace, most: int, after: float = 0.0) -> None:
        """`allowed`: the seconds that AUTO has. `after`: those that a step takes after the last pair."""
        self.counts_events = budget.events is not None
        self.is_time = budget.rows is None and budget.events is None
        self.left: float = most
        self.rows = most
        if budget.rows is not None:
            self.left = min(budget.rows, most)
        elif budget.events is not None:
            self.left = budget.events
        self._seconds = allowed if budget.time is None else budget.time / 1e6
        self._until = began + self._seconds - after
        self._pace, self._least = pace, 0.0
        self.look()

    @property
    def is_spent(self) -> bool:
        return self.left < 1 or self.rows < 1

    def tell(self) -> None:
        """What is offered is known now: what is left of the time is for telling."""
        self._least = self._seconds / LEAST / self._pace.each
        self.look()

    def look(self) -> None:
        """See by the clock what is left."""
        if self.is_time:
            left = self._pace.pairs_in(self._until - time.perf_counter())
            self.left = min(max(left, self._least), sys.maxsize)

    def fits(self, events: int, pairs: int) -> bool:
        """Whether all of it can be told."""
        return (events if self.counts_events else pairs) <= self.left and pairs <= self.rows

    def fits_whole(self, events: int, pairs: int, pace: Pace) -> bool:
        """Whether all of it can be told, by an operator that tells everything, whose pace this is."""
        if not self.is_time or not pace.is_known:
            return self.fits(events, pairs)
        return time.perf_counter() + pace.seconds(pairs) <= self._until and pairs <= self.rows

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
        self._least = 0.0
        if self.is_time:
            self.look()
        else:
            self.left -= int(np.count_nonzero(alive)) if self.counts_events else told
