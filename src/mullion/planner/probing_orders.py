"""In which order each input of a join probes the others, from what was observed last: reconsidered between batches.

The results don't depend on it, only the work does (golab 5.3).
"""

from __future__ import annotations

from mullion.algebra.nodes import Join
from mullion.planner.join_order import ChosenOrder, Order, choose_order, probing_order
from mullion.planner.operator_cost import CostModel
from mullion.planner.relation_stats import NO_STATS, Stats


def global_order(join: Join, stats: Stats = NO_STATS) -> ChosenOrder:
    """The order of all inputs, chosen by the heuristic of 5.3.2 over hashed windows."""
    return choose_order(CostModel(stats).join_inputs(join))


def probing_orders(join: Join, stats: Stats = NO_STATS) -> dict[int, Order]:
    """For every input, the others in the order in which its new rows probe them."""
    order = global_order(join, stats).order
    return {i: probing_order(order, i) for i in range(len(join.parts))}


__all__ = ["global_order", "probing_orders"]
