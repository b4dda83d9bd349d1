"""What the planner knows of the streams that relations stand on: what was observed, and guesses for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from mullion.algebra.nodes import Node, Scan, scans
from mullion.language.query import Call, Expr
from mullion.language.render import render
from mullion.planner.cost import ASSUMED_RATE

ASSUMED_DISTINCT = 1000.0
"""Different values of a key in a window, before any was seen."""
ASSUMED = {"eq": 0.1, "eq_null_safe": 0.1, "ne": 0.9, "is_null": 0.1, "like": 0.25, "in": 0.3}
"""Shares of events that satisfy a predicate, before any was seen; a third for comparisons and everything else."""


@dataclass(frozen=True)
class Stats:
    """Observed or assumed. Keys and predicates are named by a stream and their text over the stream's columns.

    >>> Stats(rates={"orders": 40.0}).rate("orders"), Stats().rate("orders")
    (40.0, 300.0)
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    """Events a second."""
    distinct: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Different values of a key in the window."""
    selectivities: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """The share of events for which a predicate is true."""
    premature: Mapping[str, float] = field(default_factory=dict)
    """The share of results that a stream ends before their time, by standing on the right of NOT EXISTS."""

    overlap: Mapping[frozenset[str], float] = field(default_factory=dict)
    """How often rows of these streams meet, for once that they would if the one with fewer values had none that the
    others have not; 0 for streams of which no value is the same."""

    @property
    def observed(self) -> bool:
        return bool(self.rates)

    def rate(self, stream: str) -> float:
        return max(self.rates.get(stream, ASSUMED_RATE), 1e-9)

    def different(self, node: Node, keys: Sequence[Expr], size: float) -> float:
        """How many different values the keys have in `size` rows of a node."""
        return max(1.0, min(size, prod((self._different(node, key) for key in keys), start=1.0)))

    def _different(self, node: Node, key: Expr) -> float:
        found = node.traced(key)
        if found is None:
            return ASSUMED_DISTINCT
        return self.distinct.get((found[0].stream, render(found[1])), ASSUMED_DISTINCT)

    def selectivity(self, node: Node, predicate: Expr) -> float:
        """The share of a node's rows for which the predicate is true."""
        found = node.traced(predicate)
        if found is not None:
            seen = self.selectivities.get((found[0].stream, render(found[1])))
            if seen is not None:
                return seen
        if not isinstance(predicate, Call):
            return 1 / 3
        shares = [self.selectivity(node, arg) for arg in predicate.args] if predicate.function in _LOGIC else []
        match predicate.function:
            case "and":
                return prod(shares)
            case "or":
                return 1 - prod(1 - share for share in shares)
            case "not":
                return 1 - shares[0]
            case function:
                return ASSUMED.get(function, 1 / 3)

    def meeting(self, *sides: Node) -> float:
        """How often rows of the sides meet, compared to what evenly spread values would give."""
        return self.overlap.get(frozenset(stream for side in sides for stream in _origins(side)), 1.0)

    def ended_by(self, node: Node) -> float | None:
        """What was observed of the results that the streams below the node, a right side of NOT EXISTS, end early."""
        seen = [self.premature[scan.stream] for scan in scans(node) if scan.stream in self.premature]
        return max(seen, default=None)


def _origins(node: Node) -> set[str]:
    """The streams whose events are in a node's rows."""
    if isinstance(node, Scan):
        return {node.stream}
    return set().union(*map(_origins, node.origins))


_LOGIC = frozenset(("and", "or", "not"))

NO_STATS = Stats()

__all__ = ["ASSUMED_DISTINCT", "NO_STATS", "Stats"]
