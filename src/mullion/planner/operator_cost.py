"""What a relational plan costs in a unit of time, from statistics (golab 3.5.3). Each kind of node knows what it costs;
here stands what the kinds ask for.

How many rows flow over an edge, and for how long they live, follows from the windows upwards: with evenly spread
values a join of two windows has size_1 size_2 / max(v_1, v_2) results (5.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mullion.algebra.costs import CALENDAR, COLUMN, FIFO, HASH, Flow, JoinEstimate, OperatorCost
from mullion.algebra.nodes import Join, Node, nodes
from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Expr
from mullion.options import Expiry
from mullion.planner.join_order import StreamStats, arrival_cost, choose_order, result_size
from mullion.planner.relation_stats import Stats, streams_of

MOSTLY = 0.5
"""From this share of premature ends on, all ends come as negative tuples (3.5.2)."""
STATE = {Pattern.MONOTONIC: 1.0, Pattern.WEAKEST: FIFO, Pattern.WEAK: CALENDAR}
SCANS = 20.0
"""How often a list is searched for rows that have expired while a window passes: every 5 % of it, as in 3.6.1."""


class CostModel:
    """Flows and costs of plans under one way of expiry; equal nodes are looked at once.

    Time: O(nodes), and for a join of n inputs what choosing its order takes.
    """

    def __init__(self, stats: Stats, expiry: str = Expiry.PATTERN_AWARE) -> None:
        self.stats = stats
        self.expiry = Expiry(expiry)
        self._flows: dict[Node, Flow] = {}
        self._costs: dict[Node, OperatorCost] = {}
        self._joined: dict[Join, JoinEstimate] = {}
        self.sources: dict[str, set[bool]] = {}
        """For what was asked, whether it was observed: {True}, assumed: {False}, or both."""

    def plan(self, root: Node) -> float:
        """All operators below, and keeping the result."""
        return self.together([root])

    def together(self, roots: Iterable[Node]) -> float:
        """Several plans, of which equal parts are computed once."""
        ends = dict.fromkeys(roots)
        all_nodes = dict.fromkeys(node for root in ends for node in nodes(root))
        return sum(self.operator(node).total for node in all_nodes) + sum(self.keeping(root).total for root in ends)

    def flow(self, node: Node) -> Flow:
        flow = self._flows.get(node)
        if flow is None:
            flow = self._flows[node] = node.flow(self)
        return flow

    def operator(self, node: Node) -> OperatorCost:
        """Of one operator, without its inputs."""
        cost = self._costs.get(node)
        if cost is None:
            cost = self._costs[node] = node.cost(self)
        return cost

    def announced(self, node: Node) -> float:
        """The share of a node's rows whose end comes as a negative tuple."""
        flow = self.flow(node)
        if self.expiry is Expiry.NEGATIVE_TUPLES:
            return 1.0
        if node.pattern is not Pattern.STRICT:
            return 0.0
        return 1.0 if self.expiry is Expiry.PATTERN_AWARE and flow.premature >= MOSTLY else flow.premature

    def join_inputs(self, join: Join) -> list[StreamStats]:
        """The inputs of a join as 5.3 sees them, their windows hashed by the key."""
        inputs = []
        for part, keys in zip(join.parts, join.keys, strict=True):
            flow = self.flow(part)
            distinct = self.different(part, keys, flow.size)
            inputs.append(StreamStats(flow.rate, flow.life, distinct, buckets=distinct))
        return inputs

    # What kinds of nodes ask (`algebra.costs.Estimates`)

    def rate(self, stream: str) -> float:
        self._note("rates", stream in self.stats.rates)
        return self.stats.rate(stream)

    def selectivity(self, node: Node, predicate: Expr) -> float:
        self._note("selectivities", self.stats.known_selectivity(node, predicate) is not None)
        return self.stats.selectivity(node, predicate)

    def different(self, node: Node, keys: Sequence[Expr], size: float) -> float:
        for key in keys:
            self._note("keys", self.stats.known_different(node, key) is not None)
        return self.stats.different(node, keys, size)

    def meeting(self, *sides: Node) -> float:
        self._note("overlaps", streams_of(*sides) in self.stats.overlap)
        return self.stats.meeting(*sides)

    def ended_by(self, node: Node) -> float | None:
        share = self.stats.ended_by(node)
        self._note("early ends", share is not None)
        return share

    def _note(self, what: str, is_observed: bool) -> None:
        self.sources.setdefault(what, set()).add(is_observed)

    def joined(self, join: Join) -> JoinEstimate:
        estimate = self._joined.get(join)
        if estimate is None:
            inputs = self.join_inputs(join)
            order = choose_order(inputs).order
            probes = tuple(arrival_cost(inputs, order, i) for i in range(len(inputs)))
            lives = tuple(stats.length for stats in inputs)
            estimate = self._joined[join] = JoinEstimate(result_size(inputs), lives, probes)
        return estimate

    def passing(self, below: Node, accesses: float = 1.0) -> OperatorCost:
        rate = self.flow(below).rate * accesses
        return OperatorCost(processing=rate, negatives=rate * self.announced(below))

    def keeping(self, node: Node) -> OperatorCost:
        """By what the pattern allows (3.5.2)."""
        announced = self.announced(node)
        written = self.flow(node).rate * (1 + COLUMN * len(node.columns))
        pattern = node.kept_as
        if self.expiry is Expiry.SCAN and pattern is not Pattern.MONOTONIC:
            return OperatorCost(state=written * (1 + SCANS), negatives=written * announced)
        if self.expiry is Expiry.NEGATIVE_TUPLES or pattern is Pattern.STRICT:
            return OperatorCost(state=HASH * written, negatives=written * announced)
        return OperatorCost(state=STATE[pattern] * written)
