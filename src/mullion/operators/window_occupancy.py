"""From which to which instant windows hold an event.

    windows of time     [----)  [--)                 [---)
    occupied            *----------------------------*           the gap lies between two that hold an event

An aggregate without GROUP BY has an answer at all instants from the first to the last, also where there is nothing to
aggregate. A query that begins and stops at certain times counts only what its instants between these see.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Aggregated, Node, Scan, nodes
from mullion.instants import EVER_BEFORE, FOREVER
from mullion.operators.ranked_instants import Periodic
from mullion.operators.timed_rows import TimedRows


@dataclass
class Occupancy:
    """The first and the last instant so far.

    Of a periodic query they are ranks of instants. At every change they are the time of the first event, and the time
    at which the last one leaves.
    """

    first: int = FOREVER
    last: int = EVER_BEFORE
    endless: bool = False
    """Whether an event never leaves: then `last` is that of all others, and at least the first instant that sees it."""

    def widen(
        self, window: TimedRows, clock: Periodic | None, *, begin: int | None = None, stop: int | None = None
    ) -> None:
        """Take in rows of a window, as far as instants from the time `begin` to the time `stop` see them."""
        start, end = window.start, window.end
        if clock is None:
            first, last = start, end
            low, high = begin, None if stop is None else stop + 1
        else:
            first = clock.first(start)
            last = np.where(end < FOREVER, clock.last(end), FOREVER)
            low = None if begin is None else clock.since(begin)
            high = None if stop is None else clock.due(stop)
        first = first if low is None else np.maximum(first, low)
        last = last if high is None else np.minimum(last, high)
        is_seen = (first < last if clock is None else first <= last) & (start < end)
        last = np.where(end < FOREVER, last, first)
        self.first = min(self.first, int(first[is_seen].min(initial=FOREVER)))
        self.last = max(self.last, int(last[is_seen].max(initial=EVER_BEFORE)))
        self.endless |= bool((end[is_seen] == FOREVER).any())

    @property
    def is_empty(self) -> bool:
        return self.first == FOREVER

    def to_table(self) -> pa.Table:
        return pa.table({"first": [self.first], "last": [self.last], "endless": [self.endless]})

    @staticmethod
    def from_table(table: pa.Table) -> Occupancy:
        return Occupancy(*(table.column(name)[0].as_py() for name in ("first", "last", "endless")))


@dataclass(frozen=True)
class OccupancyListener:
    """An aggregate that must know which events come into a window.

    It listens to the windows below it, because it has an answer only where one of them holds an event. It listens also
    to the other windows of its query: rows that never leave are aggregated for as long as one of these holds an event.
    """

    aggregated: Aggregated
    length: int | None
    """How long events stay in the window as the query has it; None: as the window itself says."""
    is_below: bool


def occupancy_listeners(plans: Iterable[Node]) -> dict[Node, list[OccupancyListener]]:
    """The listeners of each window."""
    listeners: dict[Node, dict[OccupancyListener, None]] = {}
    for plan in plans:
        windows = dict.fromkeys(plan.windows())
        for node in nodes(plan):
            if isinstance(node, Aggregated):
                below = set(node.windows())
                for window, length in windows:
                    is_below = (window, length) in below
                    if is_below or isinstance(window, Scan):
                        listeners.setdefault(window, {})[OccupancyListener(node, length, is_below)] = None
    return {window: list(of_window) for window, of_window in listeners.items()}


def with_length(fresh: TimedRows, length: int | None) -> TimedRows:
    """The same rows in a window of that length; None: as they are."""
    return fresh if length is None else replace(fresh, end=fresh.start + length)
