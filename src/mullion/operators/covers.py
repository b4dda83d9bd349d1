"""Which windows must hold an event for an aggregate to have an answer: those below it; and which others its queries
have, for as long as these hold an event is what never leaves aggregated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mullion.algebra.nodes import Aggregated, Node, Scan, nodes
from mullion.operators.timed_rows import TimedRows


@dataclass(frozen=True)
class Covered:
    """An aggregate, and how long events stay in one window of its query; None: as the window itself says."""

    aggregated: Aggregated
    length: int | None
    is_below: bool


def lives_in(fresh: TimedRows, length: int | None) -> TimedRows:
    """The lives of events in a window that they stay in for that long."""
    return fresh if length is None else replace(fresh, end=fresh.start + length)


def covers(plans: Iterable[Node]) -> dict[Node, list[Covered]]:
    """Whom to tell of what comes into each window."""
    found: dict[Node, dict[Covered, None]] = {}
    for plan in plans:
        everywhere = dict.fromkeys(plan.windows())
        for node in nodes(plan):
            if isinstance(node, Aggregated):
                below = set(node.windows())
                for window, length in everywhere:
                    is_below = (window, length) in below
                    if is_below or isinstance(window, Scan):
                        found.setdefault(window, {})[Covered(node, length, is_below)] = None
    return {window: list(covered) for window, covered in found.items()}


__all__ = ["Covered", "covers", "lives_in"]
