"""What batches showed of a stream, for the next plan."""

from __future__ import annotations

from dataclasses import dataclass

ASSUMED_RATE = 300.0
"""Events a second before anything was seen; krishnamurthy 3.2.2 measured 375 on the stock market."""

ASSUMED_SELECTIVITY = 0.3
"""The share of predicates that an event satisfies, before anything was seen; krishnamurthy 4.3.3 has 76 of 256."""


@dataclass(frozen=True)
class Observed:
    """What the last batch held: events, the event time that they span (microseconds), and groups. Of the last batch
    that was made into fragments, how many these were (k), and how many predicates an event (alpha) and a fragment
    (beta) satisfied."""

    events: int
    span: int
    groups: int = 1
    fragments: int | None = None
    alpha: float | None = None
    beta: float | None = None
    age: int = 0
    """Batches since fragments were counted."""
    source: str = "seen"
    """Where it is from, for EXPLAIN: seen in a batch, expected by statistics, or assumed."""


NOTHING_SEEN = Observed(events=int(ASSUMED_RATE * 3600), span=3_600_000_000, source="assumed")
