"""The promising joins and selections of a network: they share the time of a step, and say what became of offers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mullion.algebra.nodes import Node, is_aggregates
from mullion.errors import CheckpointError
from mullion.operators.auto_time import AutoTime
from mullion.operators.base import Operator, Parts
from mullion.operators.column_pruning import nodes_in_order
from mullion.operators.offering import OfferingOperator
from mullion.operators.promising_join import PromisingJoinOperator
from mullion.operators.promising_selection import PromisingSelectionOperator
from mullion.operators.promising_set import PromisingSet


def promises_of(operator: Operator) -> PromisingSet | None:
    """What an operator has to tell, the most promising first; None where it has no choice."""
    return operator.promises if isinstance(operator, PromisingJoinOperator | PromisingSelectionOperator) else None


def with_promises(operators: Iterable[Operator]) -> list[Operator]:
    """The operators that have something to choose from."""
    return [operator for operator in operators if promises_of(operator) is not None]


def promising_sets(operators: Iterable[Operator]) -> list[PromisingSet]:
    """Those that some operators have."""
    return [promises for operator in operators if (promises := promises_of(operator)) is not None]


def begin_at(before: int, operators: Iterable[Operator]) -> bool:
    """Let the first step offer what ends after a time; returns whether any of these has a choice."""
    operators = list(operators)
    own: list[PromisingSet | OfferingOperator] = [*promising_sets(operators)]
    for offered in (*own, *(operator for operator in operators if isinstance(operator, OfferingOperator))):
        offered.before = before
    return bool(own)


def refuse_own_rows(state: Mapping[str, Parts]) -> None:
    """A state of before promising joins shared the rows of their inputs: each has numbered its own."""
    if any(name.startswith("promising-") and "0.rows" in parts for name, parts in state.items()):
        hint = "finish it with the version of Mullion that made it, or start with a new checkpoint directory"
        message = "the checkpoint has joins WITH PREFERENCE that keep rows of their own, as an earlier version did"
        raise CheckpointError(message, hint=hint)


def share_time(time: AutoTime, operators: Iterable[Operator], now: int, first_times: Iterator[int]) -> None:
    """Let those with BUDGET AUTO share the time for which the events of a step came, of which these came first."""
    own = [promises for promises in promising_sets(operators) if promises.is_auto]
    for promises in own:
        promises.time = time
    time.begin(len(own), now, min(first_times, default=None))


def promising_facts(plans: Mapping[Node, Node], operators: Mapping[Node, Operator]) -> dict[Node, dict[str, Any]]:
    """What became of what the promising joins or selection of a plan were offered, by the roots that have any."""
    known = {node: own for node, operator in operators.items() if (own := promises_of(operator)) is not None}
    sets = {root: [known[n] for n in nodes_in_order([plan]) if n in known] for root, plan in plans.items() if known}
    return {root: {**_together(own), "aggregated": is_aggregates(root)} for root, own in sets.items() if own}


def _together(stack: Sequence[PromisingSet]) -> dict[str, Any]:
    """The facts of the upmost join of a query, to which those below hand what they tell. What they did not is missing
    in it: each row counts for one offer, however many it would have been."""
    *lower, upper = stack
    tally, facts = replace(upper.tally), upper.facts()
    for below in (own.tally for own in lower):
        tally.offered += below.waiting + below.expired + below.shed
        for name in ("waiting", "expired", "shed", "shed_by_memory", "rows_shed", "bytes"):
            setattr(tally, name, getattr(tally, name) + getattr(below, name))
    if facts.get("last_step"):
        facts["last_step"]["seconds"] += sum(own.last.seconds for own in lower if own.last is not None)
    return {**facts, **tally.facts()}
