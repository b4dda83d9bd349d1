"""The promising joins and selections of a network: they share the time of a step, and say what became of offers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mullion.algebra.nodes import Node, is_aggregates
from mullion.operators.auto_time import AutoTime
from mullion.operators.base import Operator
from mullion.operators.column_pruning import in_order
from mullion.operators.promising_join import PromisingJoinOperator
from mullion.operators.promising_selection import PromisingSelectionOperator
from mullion.operators.promising_set import PromisingSet


def promises_of(operator: Operator) -> PromisingSet | None:
    """What an operator has to tell, the most promising first; None where it has no choice."""
    return operator.promises if isinstance(operator, PromisingJoinOperator | PromisingSelectionOperator) else None


def share_time(time: AutoTime, operators: Iterable[Operator], now: int, first_times: Iterator[int]) -> None:
    """Let those with BUDGET AUTO share the time for which the events of a step came, of which these came first."""
    own = [promises for operator in operators if (promises := promises_of(operator)) is not None and promises.is_auto]
    for promises in own:
        promises.time = time
    time.begin(len(own), now, min(first_times, default=None))


def told_of(plans: Mapping[Node, Node], operators: Mapping[Node, Operator]) -> dict[Node, dict[str, Any]]:
    """What became of what the promising join or selection of a plan was offered, by the roots whose plans have one."""
    known = {node: own.facts() for node, operator in operators.items() if (own := promises_of(operator)) is not None}
    below = {root: [n for n in in_order([plan]) if n in known] for root, plan in plans.items() if known}
    return {root: {**known[own[0]], "aggregated": is_aggregates(root)} for root, own in below.items() if own}
