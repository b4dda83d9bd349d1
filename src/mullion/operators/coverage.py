"""When there is any row of a key, and when there is none, for inputs whose rows end as they promise.

Of each key only the end of its coverage is kept: a row that ends earlier than another that is there changes nothing.
It is to negation what delta* is to DISTINCT (golab 3.5.2).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mullion.expressions.arrays import Codes, Mask, Times, grown
from mullion.instants import NEVER
from mullion.operators.kernels.expiry_heap import Agenda
from mullion.operators.kernels.negation import coverage
from mullion.operators.multiplicities import Crossings
from mullion.operators.timed_rows import Retractions, TimedRows, in_time_order


class Coverage:
    """Ends of coverage by code, and an agenda of them."""

    kept_in: ClassVar[str] = "end of each key, heap of ends"
    """The structure, in words for people."""

    def __init__(self) -> None:
        self.until = np.empty(0, np.int64)
        self._agenda = Agenda()

    def __len__(self) -> int:
        """How many keys are covered."""
        return self._agenda.size

    def advance(self, lives: TimedRows, codes: Codes, retracted: Retractions, now: int) -> Crossings:
        assert not len(retracted), "rows of an input that is not strict end as they promise"
        start, end = lives.start, lives.end
        order = in_time_order(start, lives.ids)
        if order is not None:
            codes, start, end = codes[order], start[order], end[order]
        if len(codes):
            self.until = grown(self.until, int(codes.max()) + 1, NEVER)
        agenda = self._agenda
        agenda.reserve(len(codes))
        most = 2 * len(codes) + agenda.size
        code, time, on = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.bool_)
        found, agenda.size = coverage(
            codes, start, end, now, self.until, agenda.ends, agenda.items, agenda.size, code, time, on
        )
        return Crossings(code[:found], time[:found], on[:found], np.empty((found, 0), np.int64))

    def covered(self, codes: Codes) -> Mask:
        """Which codes are covered now."""
        found: Mask = self.ends(codes) > NEVER
        return found

    def ends(self, codes: Codes) -> Times:
        self.until = grown(self.until, int(codes.max(initial=-1)) + 1, NEVER)
        return self.until[codes]

    def restore(self, codes: Codes, until: Times) -> None:
        covered = until > NEVER
        self.until = grown(self.until, int(codes.max(initial=-1)) + 1, NEVER)
        self.until[codes] = until
        self._agenda.add(until[covered], codes[covered])


__all__ = ["Coverage"]
