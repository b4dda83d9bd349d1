"""From which to which instant some windows hold an event: an aggregate without GROUP BY has an answer at all of them,
also where there is nothing to aggregate.

    windows of time     [----)  [--)                 [---)
    covered             *----------------------------*           the gap lies between two that hold an event

A query that begins and stops at certain times counts only what its instants between these see.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mullion.instants import EVER_BEFORE, FOREVER
from mullion.operators.clock import Periodic
from mullion.operators.timed_rows import TimedRows


@dataclass
class Cover:
    """The first and the last instant so far. Periodic: ranks of instants. At every change: the time of the first event
    and the time at which the last one leaves."""

    first: int = FOREVER
    last: int = EVER_BEFORE
    endless: bool = False
    """Whether an event never leaves: then `last` is that of all others, and at least the first instant that sees it."""

    def widen(
        self, lives: TimedRows, clock: Periodic | None, *, begin: int | None = None, stop: int | None = None
    ) -> None:
        """Take in rows of a window, as far as instants from the time `begin` to the time `stop` see them."""
        if clock is None:
            first, last = lives.start, lives.end
            low, high = begin, None if stop is None else stop + 1
        else:
            first = clock.first(lives.start)
            last = np.where(lives.end < FOREVER, clock.last(lives.end), FOREVER)
            low = None if begin is None else clock.since(begin)
            high = None if stop is None else clock.due(stop)
        first = first if low is None else np.maximum(first, low)
        last = last if high is None else np.minimum(last, high)
        there = (first < last if clock is None else first <= last) & (lives.start < lives.end)
        last = np.where(lives.end < FOREVER, last, first)
        self.first = min(self.first, int(first[there].min(initial=FOREVER)))
        self.last = max(self.last, int(last[there].max(initial=EVER_BEFORE)))
        self.endless |= bool((lives.end[there] == FOREVER).any())

    @property
    def is_empty(self) -> bool:
        return self.first == FOREVER

    def to_table(self) -> pa.Table:
        return pa.table({"first": [self.first], "last": [self.last], "endless": [self.endless]})

    @staticmethod
    def from_table(table: pa.Table) -> Cover:
        return Cover(*(table.column(name)[0].as_py() for name in ("first", "last", "endless")))


__all__ = ["Cover"]
