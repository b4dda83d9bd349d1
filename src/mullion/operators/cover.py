"""From which to which instant the windows of a relation hold an event: an aggregate without GROUP BY has an answer at
all of them, also where there is nothing to aggregate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mullion.operators.clock import Periodic
from mullion.operators.lives import EVER_BEFORE, FOREVER, Lives


@dataclass
class Cover:
    """The first and the last instant so far. Periodic: ranks of instants. At every change: the time of the first event
    and the time at which the last one leaves."""

    first: int = FOREVER
    last: int = EVER_BEFORE

    def widen(self, lives: Lives, clock: Periodic | None) -> None:
        """Take in rows of a window. For a periodic query, one that never leaves is counted at the first instant that
        sees it."""
        if clock is None:
            first, last = lives.start, lives.end
        else:
            first = clock.first(lives.start)
            last = np.where(lives.end < FOREVER, clock.last(lives.end), first)
        there = (first <= last) & (lives.start < lives.end)
        self.first = min(self.first, int(first[there].min(initial=FOREVER)))
        self.last = max(self.last, int(last[there].max(initial=EVER_BEFORE)))

    def to_table(self) -> pa.Table:
        return pa.table({"first": [self.first], "last": [self.last]})

    @staticmethod
    def from_table(table: pa.Table) -> Cover:
        return Cover(table.column("first")[0].as_py(), table.column("last")[0].as_py())


__all__ = ["Cover"]
