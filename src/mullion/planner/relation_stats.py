"""What the planner knows of the streams that relations stand on: what was observed, and guesses for the rest."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeVar

from mullion.algebra.nodes import Node, Scan, scans
from mullion.language.query import Call, Expr
from mullion.language.render import render
from mullion.planner.observed import ASSUMED_RATE

ASSUMED_DISTINCT = 1000.0
"""Different values of a key in a window, before any was seen."""
ASSUMED = {"eq": 0.1, "eq_null_safe": 0.1, "ne": 0.9, "is_null": 0.1, "like": 0.25, "in": 0.3}
"""Shares of events that satisfy a predicate, before any was seen; a third for comparisons and everything else."""


K = TypeVar("K", bound=Hashable)


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
    """The share of rows for which a predicate is true; over several streams, under all their names."""
    premature: Mapping[str, float] = field(default_factory=dict)
    """The share of results that a stream ends before their time, by standing on the right of NOT EXISTS."""

    overlap: Mapping[frozenset[str], float] = field(default_factory=dict)
    """How often rows of these streams meet, for once that they would if the one with fewer values had none that the
    others have not; 0 for streams of which no value is the same."""

    def together(self, other: Stats) -> Stats:
        """What is known of all their streams. Where both know something, what the other knows; of keys, those of the
        window that has more."""
        keys = {**self.distinct, **other.distinct}
        return Stats(
            {**self.rates, **other.rates},
            {key: max(number, self.distinct.get(key, number)) for key, number in keys.items()},
            {**self.selectivities, **other.selectivities},
            {**self.premature, **other.premature},
            {**self.overlap, **other.overlap},
        )

    @staticmethod
    def of_shards(shards: Sequence[Stats]) -> Stats:
        """What is known of streams that are split by the keys of joins: each key is in one shard, and shares are those
        of all, by how many events each takes.

        >>> shards = [Stats({"a": 30.0}, {("a", "k"): 4}, {("a", "v > 1"): 0.1}), Stats({"a": 10.0}, {("a", "k"): 3})]
        >>> Stats.of_shards([*shards, Stats({"a": 10.0}, {}, {("a", "v > 1"): 0.5})])
        ... # doctest: +NORMALIZE_WHITESPACE
        Stats(rates={'a': 50.0}, distinct={('a', 'k'): 7}, selectivities={('a', 'v > 1'): 0.2}, premature={},
              overlap={})
        """
        weights = [sum(own.rates.values()) for own in shards]
        return Stats(
            _sums([own.rates for own in shards]),
            _sums([own.distinct for own in shards]),
            _means([own.selectivities for own in shards], weights),
            _means([own.premature for own in shards], weights),
            _means([own.overlap for own in shards], weights),
        )

    def rate(self, stream: str) -> float:
        return max(self.rates.get(stream, ASSUMED_RATE), 1e-9)

    def different(self, node: Node, keys: Sequence[Expr], size: float) -> float:
        """How many different values the keys have in `size` rows of a node."""
        known = (self.known_different(node, key) for key in keys)
        return max(1.0, min(size, prod((ASSUMED_DISTINCT if n is None else n for n in known), start=1.0)))

    def known_different(self, node: Node, key: Expr) -> float | None:
        """How many different values of a key were observed."""
        origin = node.traced(key)
        return None if origin is None else self.distinct.get((origin[0].stream, render(origin[1])))

    def selectivity(self, node: Node, predicate: Expr) -> float:
        """The share of a node's rows for which the predicate is true."""
        known = self.known_selectivity(node, predicate)
        if known is not None:
            return known
        shares = [self.selectivity(node, arg) for arg in _logical(predicate)]
        return _combined(predicate, shares) if shares else _assumed(predicate)

    def known_selectivity(self, node: Node, predicate: Expr) -> float | None:
        """What was observed of the predicate, or of all parts of which AND, OR and NOT make it."""
        seen = self.selectivities.get(predicate_name(node, predicate))
        if seen is not None:
            return seen
        parts = [self.known_selectivity(node, arg) for arg in _logical(predicate)]
        known = [part for part in parts if part is not None]
        return _combined(predicate, known) if parts and len(known) == len(parts) else None

    def meeting(self, *sides: Node) -> float:
        """How often rows of the sides meet, compared to what evenly spread values would give."""
        return self.overlap.get(streams_of(*sides), 1.0)

    def ended_by(self, node: Node) -> float | None:
        """What was observed of the results that the streams below the node, a right side of NOT EXISTS, end early."""
        seen = [self.premature[scan.stream] for scan in scans(node) if scan.stream in self.premature]
        return max(seen, default=None)


def _sums(known: Sequence[Mapping[K, float]]) -> dict[K, float]:
    return {name: sum(own.get(name, 0) for own in known) for own in known for name in own}


def _means(known: Sequence[Mapping[K, float]], weights: Sequence[float]) -> dict[K, float]:
    """The mean of what is known under each name."""
    means = {}
    for name in dict.fromkeys(name for own in known for name in own):
        pairs = [(own[name], max(weight, 1e-9)) for own, weight in zip(known, weights, strict=True) if name in own]
        means[name] = sum(share * weight for share, weight in pairs) / sum(weight for _, weight in pairs)
    return means


def predicate_name(node: Node, predicate: Expr) -> tuple[str, str]:
    """Under what the selectivity of a predicate over a node is known."""
    origin = node.traced(predicate)
    if origin is not None:
        return origin[0].stream, render(origin[1])
    return " ".join(sorted(streams_of(node))), render(predicate)


def streams_of(*sides: Node) -> frozenset[str]:
    """The streams whose events are in the rows of some nodes."""
    streams: set[str] = set()
    for node in sides:
        streams |= {node.stream} if isinstance(node, Scan) else streams_of(*node.origins)
    return frozenset(streams)


def _logical(predicate: Expr) -> tuple[Expr, ...]:
    """What AND, OR or NOT holds together."""
    return predicate.args if isinstance(predicate, Call) and predicate.function in _LOGIC else ()


def _combined(predicate: Expr, shares: Sequence[float]) -> float:
    assert isinstance(predicate, Call)
    match predicate.function:
        case "and":
            return prod(shares)
        case "or":
            return 1 - prod(1 - share for share in shares)
        case _:
            return 1 - shares[0]


def _assumed(predicate: Expr) -> float:
    return ASSUMED.get(predicate.function, 1 / 3) if isinstance(predicate, Call) else 1 / 3


_LOGIC = frozenset(("and", "or", "not"))

NO_STATS = Stats()
