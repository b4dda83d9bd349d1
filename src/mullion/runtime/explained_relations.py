"""For EXPLAIN: which relations are computed together, by which plans, and what was seen of their streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mullion.algebra.nodes import Node
from mullion.algebra.relation import Relation
from mullion.operators.planning import entering_plans, plans_at_work, plans_of_network
from mullion.options import Options
from mullion.planner.explain_operators import ComputedTogether, expected_orders
from mullion.planner.join_order import JoinOrder
from mullion.planner.optimiser import Chosen
from mullion.planner.relation_stats import NO_STATS
from mullion.runtime.relation_run import RelationRun
from mullion.runtime.relation_shards import Sharding


def explained_together(
    relations: Sequence[Relation],
    run: RelationRun | None,
    options: Options,
    sharding: Sharding | None,
    only: str | None,
) -> Iterator[ComputedTogether]:
    """Relations over the same streams as their networks compute them, or would. `only`: of the network of this one."""
    stats = NO_STATS if run is None else run.stats
    plans: Mapping[str, Node] = {} if run is None else run.plans
    new = [relation for relation in relations if relation.name not in plans]
    entering = (
        entering_plans(new, (), stats, options, may_shard=sharding is not None)
        if run is None
        else run.entering_plans(new, run.plans)
    )
    chosen = _named(new, entering)
    by_name = {relation.name: relation for relation in relations}
    for names, orders in _networks(run, new, options):
        own = [by_name[name] for name in names if name in by_name]
        if not own or (only is not None and only not in names):
            continue
        at_work = [relation for relation in own if relation.name in plans]
        chosen |= _named(at_work, plans_at_work(at_work, plans, stats, options.expiry))
        together = plans_of_network([chosen[relation.name] for relation in own], options.expiry)
        if run is None or not run.next_number:
            orders = expected_orders((plan.root for plan in together), stats)
        shards = "" if run is None or run.shards is None else run.shards.text_of(own[0].name)
        yield ComputedTogether(tuple(own), together, stats, orders, shards)


def _named(relations: Sequence[Relation], plans: Sequence[Chosen]) -> dict[str, Chosen]:
    return {relation.name: plan for relation, plan in zip(relations, plans, strict=True)}


def _networks(
    run: RelationRun | None, new: Sequence[Relation], options: Options
) -> Iterator[tuple[Sequence[str], Mapping[Node, JoinOrder]]]:
    """The relations of each network, those that are about to enter with those that they would share it with."""
    entering = [relation.name for relation in new]
    networks = [] if run is None else list(run.computed_together)
    here = run is not None and bool(run.own.relations)
    if options.is_shared and here:
        names, orders = networks.pop(0)
        yield [*names, *entering], orders
    elif options.is_shared:
        yield entering, {}
    yield from networks
    if not options.is_shared:
        yield from (([name], {}) for name in entering)
