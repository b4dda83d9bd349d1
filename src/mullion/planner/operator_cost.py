"""What a relational plan costs in a unit of time (golab 3.5.3, after Kang, Naughton, Viglas 2003).

Each operator costs, a second of event time:

| part | counts |
|---|---|
| processing | the rows that arrive, times the tuples that each looks at |
| state | the rows that are put into its state and taken out again, times what its structure takes |
| negatives | the same work once more for each row whose end comes as a negative tuple |

How many rows flow over an edge, and for how long they live, follows from the windows upwards: with evenly spread
values a join of two windows has size_1 size_2 / max(v_1, v_2) results (5.3.1), and a value that the right side of a
negation meets at the rate m is free with probability e^(-m T).

Costs only compare plans. Their unit is one access to a tuple.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp

from mullion.algebra.nodes import (
    Aggregated,
    AntiJoin,
    Difference,
    Distinct,
    Filter,
    Join,
    JoinView,
    Node,
    Project,
    ResultWindow,
    Scan,
    TableLookup,
    Union,
    nodes,
)
from mullion.language.query import Column, Window
from mullion.planner.join_order import StreamStats, arrival_cost, choose_order, result_size
from mullion.planner.relation_stats import Stats
from mullion.planner.update_pattern import Pattern, kept_as, pattern_of

SECOND = 1e6
ENDLESS = 86_400.0
"""Seconds for which a row that never leaves is taken to live: a day."""
MOSTLY = 0.5
"""From this share of premature ends on, all ends come as negative tuples (3.5.2)."""
FIFO, CALENDAR, HASH = 2.0, 3.0, 2.0
"""Accesses that putting a row into the structure and taking it out again take."""
STATE = {Pattern.MONOTONIC: 1.0, Pattern.WEAKEST: FIFO, Pattern.WEAK: CALENDAR}
SCANS = 20.0
"""How often a list is searched for rows that have expired while a window passes: every 5 % of it, as in 3.6.1."""
COLUMN = 0.1
"""What a column adds to keeping a row."""
STRATEGIES = ("upa", "nt", "direct")


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


class CostModel:
    """Flows and costs of plans under one strategy; equal nodes are looked at once.

    Time: O(nodes), and for a join of n inputs what choosing its order takes.
    """

    def __init__(self, stats: Stats, strategy: str = "upa") -> None:
        assert strategy in STRATEGIES, strategy
        self.stats = stats
        self.strategy = strategy
        self._flows: dict[Node, Flow] = {}
        self._costs: dict[Node, OperatorCost] = {}

    def plan(self, root: Node) -> float:
        """All operators below, and keeping the result."""
        return self.together([root])

    def together(self, roots: Iterable[Node]) -> float:
        """Several plans, of which equal parts are computed once."""
        ends = dict.fromkeys(roots)
        all_nodes = dict.fromkeys(node for root in ends for node in nodes(root))
        return sum(self.operator(node).total for node in all_nodes) + sum(self._kept(root).total for root in ends)

    def flow(self, node: Node) -> Flow:
        found = self._flows.get(node)
        if found is None:
            found = self._flows[node] = self._flow(node)
        return found

    def operator(self, node: Node) -> OperatorCost:
        """Of one operator, without its inputs."""
        found = self._costs.get(node)
        if found is None:
            found = self._costs[node] = self._operator(node)
        return found

    def announced(self, node: Node) -> float:
        """The share of a node's rows whose end comes as a negative tuple."""
        flow = self.flow(node)
        if self.strategy == "nt":
            return 1.0
        if pattern_of(node) is not Pattern.STRICT:
            return 0.0
        return 1.0 if self.strategy == "upa" and flow.premature >= MOSTLY else flow.premature

    def join_inputs(self, join: Join) -> list[StreamStats]:
        """The inputs of a join as 5.3 sees them, their windows hashed by the key."""
        found = []
        for part, keys in zip(join.parts, join.keys, strict=True):
            flow = self.flow(part)
            distinct = self.stats.different(part, keys, flow.size)
            found.append(StreamStats(flow.rate, flow.life, distinct, buckets=distinct))
        return found

    def _flow(self, node: Node) -> Flow:
        match node:
            case Scan(stream=stream, window=window):
                rate = self.stats.rate(stream)
                return Flow(rate, _life(window, rate), float(window.rows is not None))
            case ResultWindow(input=below, window=window):
                rate = self.flow(below).rate
                return Flow(rate, _life(window, rate), float(window.rows is not None))
            case Filter(input=below, predicate=predicate):
                flow = self.flow(below)
                return Flow(flow.rate * self.stats.selectivity(below, predicate), flow.life, flow.premature)
            case Project(input=below) | TableLookup(input=below):
                return self.flow(below)
            case Union(parts=parts):
                return _merged([self.flow(part) for part in parts])
            case Join():
                return self._joined(node)
            case JoinView():
                return self._joined(node.meaning)
            case Distinct(input=below):
                return self._distinct(below)
            case AntiJoin(left=left, right=right):
                return self._negated(left, right, self._together(node))
            case Difference(left=left, right=right):
                return self._negated(left, right, self._together(node))
            case Aggregated(input=below, keys=keys, slide=slide):
                flow = self.flow(below)
                groups = self.stats.different(below, [key for key, _ in keys], flow.size) if keys else 1.0
                if slide is None:
                    return Flow(2 * flow.rate, groups / max(2 * flow.rate, 1e-9), 1.0)
                return Flow(groups * SECOND / slide, slide / SECOND, 0.0)
            case _:
                raise AssertionError(node.kind_name())

    def _joined(self, join: Join) -> Flow:
        inputs = self.join_inputs(join)
        size = result_size(inputs) * self.stats.meeting(*join.parts)
        rate = sum(size / max(s.length, 1e-9) for s in inputs)
        share = 1.0 if join.residual is None else self.stats.selectivity(join, join.residual)
        kept = 1.0
        for part in join.parts:
            kept *= 1 - self.flow(part).premature
        return Flow(rate * share, min(s.length for s in inputs) if rate == 0 else size / rate, 1 - kept)

    def _distinct(self, below: Node) -> Flow:
        flow = self.flow(below)
        values = self.stats.different(below, [Column(name) for name in below.types], flow.size)
        rate = min(flow.rate, values / max(flow.life, 1e-9))
        return Flow(rate, values / max(rate, 1e-9), flow.premature)

    def _together(self, node: AntiJoin | Difference) -> float:
        """The values over which both sides of a negation are spread."""
        if isinstance(node, AntiJoin):
            sides = (node.left, node.left_keys), (node.right, node.right_keys)
        else:
            columns = tuple(Column(name) for name in node.types)
            sides = (node.left, columns), (node.right, columns)
        return max(self.stats.different(side, keys, self.flow(side).size) for side, keys in sides)

    def _negated(self, left: Node, right: Node, values: float) -> Flow:
        """A left row is free until the right meets its value, and again when the right has lost it."""
        flow, other = self.flow(left), self.flow(right)
        share = self.stats.meeting(left, right) / values
        free = exp(-other.size * share)
        meetings = other.rate * share * flow.life
        met = meetings / (1 + meetings)
        seen = self.stats.ended_by(right)
        early = met if seen is None else seen
        return Flow(
            flow.rate * free * (1 + meetings), flow.life / (1 + meetings), 1 - (1 - flow.premature) * (1 - early)
        )

    def _operator(self, node: Node) -> OperatorCost:
        match node:
            case Scan():
                rate = self.flow(node).rate
                return OperatorCost(rate, FIFO * rate if self.strategy == "nt" else 0.0)
            case Filter(input=below) | JoinView(input=below):
                return self._passing(below)
            case Project(input=below, items=items):
                computed = sum(not isinstance(expr, Column) for _, expr, _ in items)
                return self._passing(below, computed * COLUMN)
            case TableLookup(input=below):
                return self._passing(below) + (self._kept(below) if node.retroactive else OperatorCost())
            case Union(parts=parts):
                return _sum(self._passing(part) for part in parts)
            case ResultWindow(input=below):
                return self._passing(below) + self._kept(node)
            case Join():
                return self._join_cost(node)
            case Distinct(input=below):
                return self._distinct_cost(node, below)
            case AntiJoin(left=left, right=right):
                return self._negation_cost(left, right, self._together(node))
            case Difference(left=left, right=right):
                both = (self._passing(left, 2), self._passing(right, 2), self._kept(left), self._kept(right))
                return _sum(both)
            case Aggregated(input=below):
                arrivals = self.flow(below).rate
                return self._passing(below) + self._kept(below) + OperatorCost(arrivals)
            case _:
                raise AssertionError(node.kind_name())

    def _passing(self, below: Node, accesses: float = 1.0) -> OperatorCost:
        """Each row is looked at once, and once more when a negative tuple ends it."""
        rate = self.flow(below).rate * accesses
        return OperatorCost(processing=rate, negatives=rate * self.announced(below))

    def _kept(self, node: Node) -> OperatorCost:
        """The rows of a node in the state that its pattern allows (3.5.2)."""
        announced = self.announced(node)
        written = self.flow(node).rate * (1 + COLUMN * len(node.columns))
        pattern = kept_as(node)
        if self.strategy == "direct" and pattern is not Pattern.MONOTONIC:
            return OperatorCost(state=written * (1 + SCANS), negatives=written * announced)
        if self.strategy == "nt" or pattern is Pattern.STRICT:
            return OperatorCost(state=HASH * written, negatives=written * announced)
        return OperatorCost(state=STATE[pattern] * written)

    def _join_cost(self, join: Join) -> OperatorCost:
        inputs = self.join_inputs(join)
        order = choose_order(inputs).order
        cost = OperatorCost(processing=self.flow(join).rate)
        for i, part in enumerate(join.parts):
            probes = arrival_cost(inputs, order, i)
            cost += OperatorCost(probes, negatives=probes * self.announced(part)) + self._kept(part)
        return cost

    def _distinct_cost(self, node: Distinct, below: Node) -> OperatorCost:
        """delta* keeps twice its results and never its input; counting keeps a number a value and hears of every end;
        the other strategies keep the input too."""
        results = self.flow(node)
        cost = self._passing(below) + OperatorCost(processing=results.rate)
        if pattern_of(below) is Pattern.STRICT:
            return cost + OperatorCost(state=HASH * results.rate)
        if self.strategy == "upa":
            return cost + OperatorCost(state=2 * CALENDAR * results.rate)
        return cost + self._kept(below)

    def _negation_cost(self, left: Node, right: Node, values: float) -> OperatorCost:
        """The left is kept, and of the right until when each value is covered, or all of it where that is not known; a
        value that the right meets or loses touches all its rows on the left."""
        own, other = self.flow(left), self.flow(right)
        touched = 2 * other.rate * exp(-other.size / values) * own.size / values
        known = self.strategy == "upa" and pattern_of(right) is not Pattern.STRICT
        covered = OperatorCost(state=HASH * min(other.rate, values / max(other.life, 1e-9)))
        kept = [self._kept(left), covered if known else self._kept(right)]
        return _sum([self._passing(left), self._passing(right, 2), *kept]) + OperatorCost(processing=touched)


def _life(window: Window, rate: float) -> float:
    """Seconds for which an event stays in a window."""
    if window.rows is not None:
        return window.rows / rate
    if window.now:
        return 1 / SECOND
    return ENDLESS if window.range is None else window.range / SECOND


def _merged(flows: list[Flow]) -> Flow:
    rate = sum(flow.rate for flow in flows)
    share = [flow.rate / max(rate, 1e-9) for flow in flows]
    return Flow(
        rate,
        sum(flow.life * s for flow, s in zip(flows, share, strict=True)),
        sum(flow.premature * s for flow, s in zip(flows, share, strict=True)),
    )


def _sum(costs: Iterable[OperatorCost]) -> OperatorCost:
    whole = OperatorCost()
    for cost in costs:
        whole += cost
    return whole


def plan_cost(root: Node, stats: Stats, strategy: str = "upa") -> float:
    """Accesses to tuples a second, of all operators of a plan and of its result."""
    return CostModel(stats, strategy).plan(root)


__all__ = ["STRATEGIES", "CostModel", "Flow", "OperatorCost", "plan_cost"]
