"""The promising joins of a network: they share the time of a step, and what they told is counted for each plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce

from mullion.algebra.nodes import Node
from mullion.operators.auto_time import AutoTime
from mullion.operators.base import Operator
from mullion.operators.column_pruning import in_order
from mullion.operators.promise_tally import PromiseTally
from mullion.operators.promising_join import PromisingJoinOperator


def share_time(time: AutoTime, operators: Iterable[Operator], now: int, first_times: Iterator[int]) -> None:
    """Let joins with BUDGET AUTO share the time for which the events of a step came, of which these came first."""
    joins = [own for own in operators if isinstance(own, PromisingJoinOperator) and own.is_auto]
    for join in joins:
        join.time = time
    time.begin(len(joins), now, min(first_times, default=None))


def tallies(plans: Mapping[Node, Node], operators: Mapping[Node, Operator]) -> dict[Node, PromiseTally]:
    """What became of the pairs that promising joins were offered, by the roots whose plans hold some."""
    counted = {node: own.tally for node, own in operators.items() if isinstance(own, PromisingJoinOperator)}
    below = {root: [n for n in in_order([plan]) if n in counted] for root, plan in plans.items() if counted}
    return {root: reduce(PromiseTally.plus, [counted[n] for n in own]) for root, own in below.items() if own}


__all__ = ["share_time", "tallies"]
