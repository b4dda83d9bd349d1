"""What every order of a join costs, to compare the planner's choice with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from mullion.planner.join_order import JoinOrder, StreamStats, order_cost


def all_costs(streams: Sequence[StreamStats]) -> Mapping[JoinOrder, float]:
    """Of each of the n! orders."""
    return {order: order_cost(streams, order) for order in permutations(range(len(streams)))}
