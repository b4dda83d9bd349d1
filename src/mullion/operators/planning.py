"""Which plan each relation runs by: chosen when it enters, with those that enter together, and kept from then on.

A plan that is at work holds state, so what is learnt of the streams changes only the plans of relations that enter
later. A commit names the plan of each relation; after a restart the same plan is found again among those
that the rules lead to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mullion.algebra.nodes import Node
from mullion.algebra.relation import Relation
from mullion.errors import CheckpointError
from mullion.options import Expiry
from mullion.planner.network_plans import network_plans
from mullion.planner.operator_cost import CostModel
from mullion.planner.optimiser import Chosen, all_plans, optimise_together
from mullion.planner.promising import complete
from mullion.planner.relation_stats import Stats


def chosen_plans(relations: Sequence[Relation], stats: Stats, expiry: Expiry) -> dict[str, Node]:
    """The plans of relations that enter together, by the names of the relations."""
    chosen = optimise_together([relation.plan for relation in relations], stats, expiry)
    return {relation.name: plan.root for relation, plan in zip(relations, chosen, strict=True)}


def plans_at_work(
    relations: Sequence[Relation], at_work: Mapping[str, Node], stats: Stats, expiry: Expiry
) -> list[Chosen]:
    """The plans by which relations run, or would run if they began now, with what else was considered."""
    model = CostModel(stats, expiry)
    plans = []
    for relation, now in zip(relations, optimise_together([r.plan for r in relations], stats, expiry), strict=True):
        root = at_work.get(relation.name, now.root)
        other = Chosen(root, model.plan(root), (), ((now.root, now.cost),))
        plans.append(now if root == now.root else other)
    shared = network_plans([chosen.root for chosen in plans], expiry).plans
    return [replace(chosen, root=shared[chosen.root]) for chosen in plans]


def recorded_plan(relation: Relation, name: str) -> Node:
    """The plan that a commit names."""
    plans = (relation.plan, *all_plans(relation.plan))
    for root in (*plans, *map(complete, plans)):
        if root.name == name:
            return root
    hint = "finish it with the Mullion that made it, or start with a new checkpoint directory"
    raise CheckpointError(f"the checkpoint has query '{relation.name}' by a plan that is not known here", hint=hint)
