"""Which plan each relation runs by: chosen when it enters, with those that enter together, and kept from then on.

A plan that is at work holds state, so what is learnt of the streams changes only the plans of relations that enter
later (`docs/decisions/0051-plans-of-relations-stay.md`). A commit names the plan of each relation; after a restart the
same plan is found again among those that the rules lead to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mullion.algebra.nodes import Node
from mullion.algebra.relation import Relation
from mullion.errors import CheckpointError
from mullion.options import Expiry, Options
from mullion.planner.network_plans import network_plans
from mullion.planner.operator_cost import CostModel
from mullion.planner.optimiser import CheaperNow, Chosen, all_plans, optimise_together
from mullion.planner.partitioning import relation_keys
from mullion.planner.promising import chosen_way, complete, is_promising
from mullion.planner.relation_stats import Stats


def entering_plans(
    relations: Sequence[Relation], standing: Sequence[Node], stats: Stats, options: Options, *, may_shard: bool
) -> list[Chosen]:
    """The plans of relations that enter together. `standing`: plans that are computed on the driver, whatever comes.
    `may_shard`: relations that can be split may leave it."""
    together = [relations] if options.is_shared else [[relation] for relation in relations]
    chosen = [plan for own in together for plan in _optimised(own, stats, options.expiry)]
    stays = [not (may_shard and relation_keys(relation) is not None) for relation in relations]
    for i in (i for i, plan in enumerate(chosen) if options.is_shared and is_promising(plan.root)):
        others = [plan.root for plan, is_here in zip(chosen, stays, strict=True) if is_here]
        chosen[i] = replace(chosen[i], root=chosen_way(chosen[i].root, [*standing, *others]))
    return chosen


def plans_at_work(
    relations: Sequence[Relation], at_work: Mapping[str, Node], stats: Stats, expiry: Expiry
) -> list[Chosen]:
    """The plans by which relations of one network run, with what else was considered, and what would be chosen now."""
    model = CostModel(stats, expiry)
    made_now = _optimised(relations, stats, expiry)
    roots = [at_work[relation.name] for relation in relations]
    best = [root if root == complete(now.root) else now.root for root, now in zip(roots, made_now, strict=True)]
    cost, instead_of = model.together(best), model.together(roots)
    is_cheaper = cost < instead_of * (1 - 1e-9)
    plans = []
    for root, own_best, now in zip(roots, best, made_now, strict=True):
        if root == now.root:
            plans.append(now)
            continue
        cheaper = CheaperNow(own_best, cost, instead_of, len(roots)) if is_cheaper and own_best != root else None
        plans.append(Chosen(root, model.plan(root), (), (), cheaper))
    return plans


def _optimised(relations: Sequence[Relation], stats: Stats, expiry: Expiry) -> list[Chosen]:
    in_order = {relation.plan for relation in relations if relation.asks_for_order}
    return optimise_together([relation.plan for relation in relations], stats, expiry, in_order)


def plans_of_network(plans: Sequence[Chosen], expiry: Expiry) -> tuple[Chosen, ...]:
    """The plans as a network computes them for all its relations."""
    shared = network_plans([chosen.root for chosen in plans], expiry).plans
    return tuple(replace(chosen, root=shared[chosen.root]) for chosen in plans)


def recorded_plan(relation: Relation, name: str) -> Node:
    """The plan that a commit names."""
    plans = (relation.plan, *all_plans(relation.plan))
    for root in (*plans, *map(complete, plans)):
        if root.name == name:
            return root
    hint = "finish it with the version of Mullion that made it, or start with a new checkpoint directory"
    raise CheckpointError(f"the checkpoint has query '{relation.name}' by a plan that is not known here", hint=hint)
