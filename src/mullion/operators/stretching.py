"""Which aggregates look at some of their instants alone while the periods of queries with SLIDE AT MOST are stretched.

    HAVING, items          a query with SLIDE AT MOST tells what is there at instants that were not put off;
       |                   row by row, so that nobody asks for the others
    Aggregated             so neither do these, if no other query asks

What lies deeper in a plan is remembered by what stands on it, and is computed at every instant.
"""

from __future__ import annotations

from collections.abc import Iterable

from mullion.algebra.nodes import Aggregated, Filter, Node, Project, nodes
from mullion.algebra.nodes.join_synopsis import JoinSynopsis, ProbedWindow
from mullion.operators.aggregated import AggregatedOperator
from mullion.operators.join_synopsis import JoinSynopsisOperator
from mullion.operators.network import Network

Stretchable = frozenset[Aggregated]


def stretchable(scheduled: Iterable[Node], exact: Iterable[Node]) -> Stretchable:
    """The aggregates that only plans of queries with SLIDE AT MOST ask, each at its top. Those that ask a synopsis for
    the same windows are stretched together or not at all."""
    tops, needed = set[Aggregated](), {node for plan in exact for node in nodes(plan) if isinstance(node, Aggregated)}
    for plan in scheduled:
        top = _top(plan)
        tops |= set() if top is None else {top}
        needed |= {node for node in nodes(plan) if isinstance(node, Aggregated) and node != top}
    asked = {(node.synopsis, node.probe) for node in needed if node.synopsis is not None}
    return frozenset(
        node for node in tops - needed if node.synopsis is None or (node.synopsis, node.probe) not in asked
    )


def _top(plan: Node) -> Aggregated | None:
    while isinstance(plan, Filter | Project):
        plan = plan.input
    return plan if isinstance(plan, Aggregated) and plan.slide is not None else None


def stretch_instants(network: Network, aggregates: Stretchable, stretch: int) -> None:
    """In the next steps of a network, let these look at one of so many instants, and others at each."""
    probed: dict[JoinSynopsis, dict[ProbedWindow, int]] = {}
    for own in aggregates:
        if own.synopsis is not None:
            probed.setdefault(own.synopsis, {})[own.probe] = stretch
    for node, working in network.working.items():
        if isinstance(working.operator, AggregatedOperator):
            working.operator.stretch = stretch if node in aggregates else 1
        elif isinstance(node, JoinSynopsis) and isinstance(working.operator, JoinSynopsisOperator):
            working.operator.stretch(probed.get(node, {}))
