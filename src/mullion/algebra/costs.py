"""What flows over the edges of a plan, what an operator costs, and the estimates from which nodes compute both.

Each operator costs, a second of event time (golab 3.5.3, after Kang, Naughton, Viglas 2003):

| part | counts |
|---|---|
| processing | the rows that arrive, times the tuples that each looks at |
| state | the rows that are put into its state and taken out again, times what its structure takes |
| negatives | the same work once more for each row whose end comes as a negative tuple |

Costs only compare plans. Their unit is one access to a tuple.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Protocol

from mullion.language.query import Expr, Window
from mullion.options import Expiry

if TYPE_CHECKING:
    from mullion.algebra.nodes.base import Node
    from mullion.algebra.nodes.join import Join

SECOND = 1e6
ENDLESS = 86_400.0
"""Seconds for which a row that never leaves is taken to live: a day."""
FIFO, CALENDAR, HASH = 2.0, 3.0, 2.0
"""Accesses that putting a row into the structure and taking it out again take."""
COLUMN = 0.1
"""What a column adds to keeping a row."""


@dataclass(frozen=True)
class Flow:
    """What an edge carries: rows that start in a second, for how many seconds they live, and the share of them that
    ends earlier than promised."""

    rate: float
    life: float
    premature: float = 0.0

    @property
    def size(self) -> float:
        """Rows that are there at a moment."""
        return self.rate * self.life


@dataclass(frozen=True)
class OperatorCost:
    """Accesses a second."""

    processing: float = 0.0
    state: float = 0.0
    negatives: float = 0.0

    @property
    def total(self) -> float:
        return self.processing + self.state + self.negatives

    def __add__(self, other: OperatorCost) -> OperatorCost:
        return OperatorCost(
            self.processing + other.processing, self.state + other.state, self.negatives + other.negatives
        )


@dataclass(frozen=True)
class JoinEstimate:
    """How many combinations of rows the windows of a join hold; for each input the seconds for which its rows live, and
    the tuples that its new rows look at in a second."""

    size: float
    lives: tuple[float, ...]
    probes: tuple[float, ...]


class Estimates(Protocol):
    """What nodes compute their flows and costs from. The numbers are observed, or at first assumed."""

    expiry: Expiry

    def flow(self, node: Node) -> Flow: ...

    def passing(self, below: Node, accesses: float = 1.0) -> OperatorCost:
        """Each row is looked at so often, and once more when a negative tuple ends it."""
        ...

    def keeping(self, node: Node) -> OperatorCost:
        """The rows of a node in the state that its pattern allows."""
        ...

    def announced(self, node: Node) -> float:
        """The share of a node's rows whose end comes as a negative tuple."""
        ...

    def joined(self, join: Join) -> JoinEstimate: ...

    def rate(self, stream: str) -> float:
        """Events a second."""
        ...

    def selectivity(self, node: Node, predicate: Expr) -> float:
        """The share of a node's rows for which the predicate is true."""
        ...

    def different(self, node: Node, keys: Sequence[Expr], size: float) -> float:
        """How many different values the keys have in `size` rows of a node."""
        ...

    def meeting(self, *sides: Node) -> float:
        """How often rows of the sides meet, compared to what evenly spread values would give."""
        ...

    def ended_by(self, node: Node) -> float | None:
        """The share of results that a right side of NOT EXISTS was seen to end early."""
        ...


def total(costs: Iterable[OperatorCost]) -> OperatorCost:
    whole = OperatorCost()
    for cost in costs:
        whole += cost
    return whole


def window_flow(window: Window, rate: float) -> Flow:
    """What leaves a window into which rows come at a rate."""
    if window.rows is not None:
        return Flow(rate, min(ENDLESS, window.rows / max(rate, 1e-9)), 1.0)
    if window.now:
        return Flow(rate, 1 / SECOND)
    return Flow(rate, ENDLESS if window.range is None else window.range / SECOND)


def merged_flow(flows: Sequence[Flow]) -> Flow:
    """All rows of several edges."""
    rate = sum(flow.rate for flow in flows)
    share = [flow.rate / max(rate, 1e-9) for flow in flows]
    return Flow(
        rate,
        sum(flow.life * s for flow, s in zip(flows, share, strict=True)),
        sum(flow.premature * s for flow, s in zip(flows, share, strict=True)),
    )


def uncovered_flow(estimates: Estimates, left: Node, right: Node, values: float) -> Flow:
    """Rows of the left whose value, one of so many, the right has not. With evenly spread values, one that the right
    meets at the rate m is free with probability e^(-m T); a row is free until the right meets its value, and again when
    the right has lost it."""
    flow, other = estimates.flow(left), estimates.flow(right)
    share = estimates.meeting(left, right) / values
    free = exp(-other.size * share)
    meetings = other.rate * share * flow.life
    met = meetings / (1 + meetings)
    seen = estimates.ended_by(right)
    early = met if seen is None else seen
    return Flow(flow.rate * free * (1 + meetings), flow.life / (1 + meetings), 1 - (1 - flow.premature) * (1 - early))
