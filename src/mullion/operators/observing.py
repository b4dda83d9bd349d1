"""What a network at work shows of its streams, and the orders of its joins, chosen anew from that between steps.

| shown | by |
|---|---|
| rates | the events that come |
| different keys | the windows of joins |
| selectivities | filters, and the residuals of joins |
| overlaps | the share of combinations that meet in a join; the share of new rows that NOT EXISTS finds free |
| early ends | the share of results that the right of NOT EXISTS ends |

    step --> see(events) --> reorder(network) --> step

Results do not depend on the order in which a join probes its inputs (golab 5.3), so it may change at any step, and need
not survive a restart. All other choices are tied to state: they are made when a query enters, from what is shown then.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from mullion.algebra.nodes import Join, Node
from mullion.operators.join import JoinOperator
from mullion.operators.network import Network, StepEvents
from mullion.operators.observations import Observations
from mullion.planner.join_order import JoinOrder, choose_order
from mullion.planner.operator_cost import CostModel
from mullion.planner.relation_stats import Stats, streams_of

REMEMBERED = 0.8
"""How much of the rate so far counts a step later."""
EVERY = 8
"""Orders are reconsidered at every so many steps."""
SECOND = 1_000_000
K = TypeVar("K", bound=Hashable)


@dataclass
class Observing:
    """Statistics that follow the streams."""

    rates: dict[str, float] = field(default_factory=dict)
    """Events a second."""
    steps: int = 0
    _last: dict[str, int] = field(default_factory=dict)

    @property
    def reconsiders(self) -> bool:
        """Whether statistics are looked at in this step: it takes a pass over the keys of windows."""
        return (self.steps - 1) % EVERY == 0

    def see(self, events: Mapping[str, StepEvents]) -> None:
        """The events of a step: how many came since the last event of the step before."""
        self.steps += 1
        for stream, seen in events.items():
            if len(seen.times):
                self._see(stream, int(seen.times[0]), int(seen.times[-1]), len(seen.times))

    def _see(self, stream: str, first: int, last: int, count: int) -> None:
        span = last - self._last.get(stream, first)
        self._last[stream] = last
        if span > 0:
            rate = count * SECOND / span
            known = self.rates.get(stream, rate)
            self.rates[stream] = REMEMBERED * known + (1 - REMEMBERED) * rate

    def stats(self, network: Network) -> Stats:
        """All that the operators of a network show of their streams."""
        observed = Observations()
        for working in network.working.values():
            working.operator.show(observed)
        stats = Stats(dict(self.rates), observed.distinct, _known(observed.shares), _known(observed.premature))
        model = CostModel(stats)
        overlap = {streams_of(*node.inputs): node.overlap(model, share) for node, share in observed.meetings}
        return replace(stats, overlap=_known(overlap))

    def reorder(self, network: Network) -> None:
        """Let every join of more than two inputs probe them in the order that now seems best."""
        joins = [
            (node, working.operator)
            for node, working in network.working.items()
            if isinstance(node, Join) and len(node.parts) > 2
        ]
        if not joins or not self.reconsiders:
            return
        costs = CostModel(self.stats(network))
        for node, operator in joins:
            assert isinstance(operator, JoinOperator)
            operator.order = choose_order(costs.join_inputs(node)).order


def orders_at_work(network: Network) -> dict[Node, JoinOrder]:
    """Of the joins for which an order was chosen, the one in which they probe their inputs now."""
    operators = ((node, working.operator) for node, working in network.working.items())
    return {node: own.order for node, own in operators if isinstance(own, JoinOperator) and own.order}


def _known(found: Mapping[K, float | None]) -> dict[K, float]:
    return {name: share for name, share in found.items() if share is not None}
