"""How long it takes to tell pairs, from those that were told lately (ali 5: the time of a hit).

    seconds = fixed + each x pairs      by least squares, in which what is long ago counts less and less

What is fixed is what one look at the rows takes, however many pairs it finds. Without it few pairs would seem dear, and
who takes a pair for dear tells few.

>>> pace = PairPace()
>>> for pairs in (1000, 2000, 4000, 1000):
...     pace.learn(pairs, 0.001 + 2e-7 * pairs)
>>> round(pace.pairs_in(0.0015)), round(1e6 * pace.seconds(1000))
(2500, 1200)
"""

from __future__ import annotations

import numpy as np

FIRST_GUESS = 1e-7
"""Seconds for a pair, before any was told."""
REMEMBERED = 0.9
"""How much of what was learnt counts when more is."""
ALIKE = 0.1
"""Numbers of pairs that differ by less than this part of them tell nothing of what is fixed."""
FASTEST = 1e-9
"""Seconds for a pair, at the least."""


class PairPace:
    def __init__(self) -> None:
        self.fixed, self.each = 0.0, FIRST_GUESS
        self.is_known = False
        self._sums = np.zeros(5)

    def learn(self, pairs: int, seconds: float) -> None:
        self._sums = REMEMBERED * self._sums + np.array([1, pairs, seconds, pairs * pairs, pairs * seconds])
        weight, *sums = self._sums.tolist()
        mean, took, squares, products = (total / weight for total in sums)
        spread = squares - mean * mean
        if spread > (ALIKE * mean) ** 2:
            self.each = max((products - mean * took) / spread, FASTEST)
        elif not self.is_known:
            self.each = took / max(mean, 1.0)
        self.fixed = max(0.0, took - self.each * mean)
        if not self.fixed and mean:
            self.each = max(took / mean, FASTEST)
        self.is_known = True

    def seconds(self, pairs: int) -> float:
        """That so many pairs take together."""
        return self.fixed + self.each * pairs

    def pairs_in(self, seconds: float) -> float:
        """How many are told in so many seconds."""
        return max(0.0, (seconds - self.fixed) / self.each)
