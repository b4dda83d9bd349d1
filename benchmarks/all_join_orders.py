"""What every order of a join costs, to compare the planner's choice with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from mullion.planner.join_order import Order, StreamStats, order_cost


def all_costs(streams: Sequence[StreamStats]) -> Mapping[Order, float]:
    """Of each of the n! orders."""
    return {order: order_cost(streams, order) for order in permutations(range(len(streams)))}
