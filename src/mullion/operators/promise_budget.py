"""What a promising join or selection may do in a step, in the unit of its budget: rows, events that probe, or seconds.

    | began: rows are sorted, counted, put in order | told, portion by portion | what waits is put away |
    |<--------------------- the seconds of a step ---------------------------->|<----- `after` -------->|

What pairs take is learnt from those that were told lately (`pace`), and what comes after them from the last steps; how
many pairs fit is seen by the clock (ali 5: results for an input tuple = (time between two - time to insert) / time of a
hit). Where all else takes the whole budget, a part of it is still for telling in some steps: or what waits would only
grow. What a step took too long is taken off the next ones.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from math import ceil

import numpy as np

from mullion.expressions.arrays import Counts
from mullion.language.query import Budget
from mullion.operators.pace import PairPace

LEAST = 8
"""One of so many parts of a budget in time is for telling where there is no time left; and one of so many steps, where
what is not told waits."""
LEARNT = 0.5
"""The part of the newest step in the time that a pair takes."""
PORTION = 1 << 17
"""So many pairs are told between two looks at the clock."""


@dataclass(frozen=True)
class Below:
    """What promising joins, whose rows are joined, took of a budget that is that of all of these joins."""

    spent: float
    joins: int

    def left(self, whole: float) -> float:
        """The rest is left, and one part of as many as there are joins at the least.

        >>> Below(30, joins=2).left(100), Below(90, joins=2).left(100)
        (70, 50.0)
        """
        return max(whole - self.spent, whole / self.joins)


ALONE = Below(0.0, 1)


class StepBudget:
    """The budget of a step, which gets smaller as pairs are told. `most` is the number of rows that no step exceeds."""

    def __init__(
        self,
        budget: Budget,
        began: float,
        allowed: float,
        pace: PairPace,
        most: int,
        after: float = 0.0,
        below: Below = ALONE,
    ) -> None:
        """`allowed`: the seconds that AUTO has. `after`: those that a step takes after the last pair."""
        self.counts_events = budget.events is not None
        self.is_time = budget.rows is None and budget.events is None
        self.left: float = most
        self.rows = most
        if budget.rows is not None:
            self.left = min(ceil(below.left(budget.rows)), most)
        elif budget.events is not None:
            self.left = ceil(below.left(budget.events))
        self._given, self._began, self._below = self.left, began, below.spent
        self._seconds = allowed if budget.time is None else below.left(budget.time / 1e6)
        self._is_written = budget.time is not None
        self._until = began + self._seconds - after
        self._pace, self._least = pace, 0.0
        self.look()

    @property
    def spent(self) -> float:
        """By this join and those below it."""
        own = time.perf_counter() - self._began if self.is_time else self._given - self.left
        return self._below + own

    @property
    def is_spent(self) -> bool:
        return self.left < 1 or self.rows < 1

    def tell(self, least: float) -> None:
        """What is offered is known now: what is left of the time is for telling, so many pairs at the least."""
        self._least = least
        self.look()

    def part(self, *, without_look: bool = False) -> float:
        """How many pairs are told in a part of the time, with the look that finds them or without."""
        seconds = self._seconds / LEAST
        return max(1.0, self._pace.pairs_in(seconds + self._pace.fixed if without_look else seconds))

    @property
    def overrun(self) -> float:
        """The seconds that were taken beyond a time that is written."""
        return time.perf_counter() - self._began - self._seconds if self._is_written else 0.0

    def look(self) -> None:
        """See by the clock what is left."""
        if self.is_time:
            left = self._pace.pairs_in(self._until - time.perf_counter())
            self.left = min(max(left, self._least), sys.maxsize)

    def fits(self, events: int, pairs: int) -> bool:
        """Whether all of it can be told."""
        return (events if self.counts_events else pairs) <= self.left and pairs <= self.rows

    def fits_whole(self, events: int, pairs: int, pace: PairPace) -> bool:
        """Whether all of it can be told, by an operator that tells everything, whose pace this is."""
        if not self.is_time or not pace.is_known:
            return self.fits(events, pairs)
        return time.perf_counter() + pace.seconds(pairs) <= self._until and pairs <= self.rows

    def spend_whole(self, events: int, pairs: int) -> None:
        """All of it was told."""
        if not self.is_time:
            self.left -= events if self.counts_events else pairs

    def fitting(self, pairs: Counts) -> int:
        """How many of some entries in a row can be told as a whole, by their pairs."""
        most = min(self.rows, PORTION) if self.is_time else self.rows
        total = np.cumsum(pairs)
        whole = int(np.searchsorted(total, most if self.counts_events else min(most, self.left), "right"))
        if not self.counts_events:
            return whole
        events = np.cumsum(pairs > 0)
        return min(whole, int(np.searchsorted(events, self.left, "right")))

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
