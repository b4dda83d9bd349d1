"""What the ways to partials cost, from what earlier batches showed.

An event costs what `mullion bench windows` showed on 2 cores with 1.14 million trades of an hour: about 0.25 us by the
native way and 0.6 us by the kernel, most of it to move the row to Python. What a partial costs is an estimate; it
decides only where partials are nearly as many as events.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

NATIVE_EVENT, NATIVE_PARTIAL = 0.25, 1.2
KERNEL_EVENT, KERNEL_PARTIAL = 0.6, 0.4

MOST_NATIVE_PREDICATES = 16
"""Spark's generated code grows with every predicate, and past a limit it is interpreted (design decision 2)."""

ASSUMED_RATE = 300.0
"""Events a second before anything was seen; krishnamurthy 3.2.2 measured 375 on the stock market."""


@dataclass(frozen=True)
class Observed:
    """What the last batch held: events, the event time that they span (microseconds), groups and fragments."""

    events: int
    span: int
    lanes: int = 1

    @property
    def rate(self) -> float:
        """Events a microsecond of event time."""
        return self.events / self.span if self.span > 0 else inf


NOTHING_SEEN = Observed(events=int(ASSUMED_RATE * 3600), span=3_600_000_000)


def native_cost(seen: Observed, step: int) -> float:
    """Microseconds by the native way: a partial for every step that holds an event, and group, at most one an event."""
    partials = min(seen.events, (seen.span / step + 1) * seen.lanes)
    return seen.events * NATIVE_EVENT + partials * NATIVE_PARTIAL


def kernel_cost(seen: Observed, slices: int) -> float:
    """Microseconds by the kernel: a partial for every slice that holds an event, and group."""
    return seen.events * KERNEL_EVENT + min(seen.events, slices * seen.lanes) * KERNEL_PARTIAL


def least_rate_to_share(windows: list[tuple[int, int]], slices: int, span: int) -> float:
    """Events a second above which sharing slices takes fewer operations (krishnamurthy 3.2.2, inequality 1)."""
    if len(windows) < 2:
        return inf
    second = 1_000_000
    edges = slices / (span / second)
    overlap = sum(r / s for r, s in windows)
    own = 2 * sum((r / second) / (s / second) ** 2 for r, s in windows)
    return max(0.0, (edges * overlap - own) / (len(windows) - 1))
