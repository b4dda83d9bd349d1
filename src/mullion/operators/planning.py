"""Which plan each relation runs by: chosen when it joins, with those that join together, and kept from then on.

A plan that is at work holds state, so what is learnt of the streams changes only the plans of those who join later, and
the order in which joins of many windows probe (golab 5.3), which holds none. A commit names the plan of each relation;
after a restart the same plan is found again among those that the rules lead to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from mullion.catalog.algebra import Join, Negation, Node, Relation, nodes
from mullion.errors import CheckpointError
from mullion.language.query import Column, Expr
from mullion.language.render import render
from mullion.operators.join import JoinOperator
from mullion.operators.naming import name_of
from mullion.operators.network import Events, Network
from mullion.planner.column_names import traced
from mullion.planner.probing_orders import probing_orders
from mullion.planner.relation_stats import Stats
from mullion.planner.rewrites import optimise_together

SECOND = 1_000_000
MORE_THAN_TWO = 3


def chosen_plans(relations: Sequence[Relation], stats: Stats, strategy: str) -> dict[str, Node]:
    """The plans of relations that join together, by the names of the relations."""
    chosen = optimise_together([relation.plan for relation in relations], stats, strategy)
    return {relation.name: plan.root for relation, plan in zip(relations, chosen, strict=True)}


def recorded_plan(relation: Relation, name: str, stats: Stats, strategy: str) -> Node:
    """The plan that a commit names."""
    (chosen,) = optimise_together([relation.plan], stats, strategy)
    shared = optimise_together([relation.plan, relation.plan], stats, strategy)[0]
    candidates = [relation.plan, chosen.root, shared.root]
    candidates += [root for some in (chosen, shared) for root, _ in some.rejected]
    for root in candidates:
        if name_of(root) == name:
            return root
    hint = "finish it with the Mullion that made it, or start with a new checkpoint directory"
    raise CheckpointError(f"the checkpoint has query '{relation.name}' by a plan that is not known here", hint=hint)


class Observing:
    """What the events of the streams show: how many a second, and how many different keys."""

    def __init__(self) -> None:
        self._events: dict[str, int] = {}
        self._since: dict[str, int] = {}
        self._until: dict[str, int] = {}
        self._distinct: dict[tuple[str, str], float] = {}

    def saw(self, arrived: Mapping[str, Events], keys: Mapping[str, set[str]]) -> None:
        """The events of a step. `keys` are the columns of each stream that are compared."""
        for stream, events in arrived.items():
            self._events[stream] = self._events.get(stream, 0) + len(events.times)
            self._since.setdefault(stream, int(events.times[0]))
            self._until[stream] = int(events.times[-1])
            for name in keys.get(stream, ()):
                at = stream, render(Column(name))
                self._distinct[at] = max(self._distinct.get(at, 0), _different(events.rows.column(name)))

    @property
    def stats(self) -> Stats:
        rates = {
            stream: events * SECOND / max(self._until[stream] - self._since[stream], SECOND)
            for stream, events in self._events.items()
        }
        return Stats(rates=rates, distinct=dict(self._distinct))


def _different(column: pa.ChunkedArray) -> int:
    return int(pc.count_distinct(column).as_py())


def compared_columns(roots: Sequence[Node]) -> dict[str, set[str]]:
    """The columns of streams that joins and negations compare."""
    found: dict[str, set[str]] = {}
    for node, key in _keys(roots):
        origin = traced(node, key)
        if origin is not None and isinstance(origin[1], Column):
            found.setdefault(origin[0].stream, set()).add(origin[1].name)
    return found


def _keys(roots: Sequence[Node]) -> Iterator[tuple[Node, Expr]]:
    for node in dict.fromkeys(node for root in roots for node in nodes(root)):
        if isinstance(node, Join):
            yield from ((part, key) for part, keys in zip(node.parts, node.keys, strict=True) for key in keys)
        elif isinstance(node, Negation):
            yield from ((node.left, key) for key in node.left_keys)
            yield from ((node.right, key) for key in node.right_keys)


def reorder_probing(network: Network, stats: Stats) -> None:
    """Let joins of three and more windows probe in the order that is cheapest by what was seen."""
    for node, working in network.working.items():
        if isinstance(node, Join) and len(node.parts) >= MORE_THAN_TWO:
            assert isinstance(working.operator, JoinOperator)
            working.operator.orders = dict(probing_orders(node, stats))


__all__ = ["Observing", "chosen_plans", "compared_columns", "recorded_plan", "reorder_probing"]
