"""What queries over one stream cost in slices, and what they would cost by operators, in the unit in which plans of
operators are compared (`algebra.costs`): one access to a tuple.

| | slices | operators |
|---|---|---|
| an event | is looked at once, and once for each expression that predicates compare | for each window and predicate |
| one that is selected | is added to partials | comes, is kept with its columns, and leaves, in each window |
| a partial | is kept, and leaves | |
| an answer | is made | is made and kept |

A partial holds one event at least, so slices cost more only where nearly every event is a partial of its own and the
query is alone. Slices run those too (decision 53).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from mullion.algebra.costs import COLUMN, FIFO
from mullion.algebra.nodes import Node
from mullion.language.dialect import SECOND
from mullion.language.query import TIME_AXIS
from mullion.language.render import render
from mullion.options import Expiry
from mullion.planner.kernel_cost import cells, expected_fragments, expected_groups, satisfied
from mullion.planner.observed import Observed
from mullion.planner.operator_cost import CostModel
from mullion.planner.physical import why_only_slices, why_slices
from mullion.planner.plan import FRAGMENTS, Grouping, Plan, Reason
from mullion.planner.relation_stats import Stats
from mullion.planner.slices import slices_of

RULE = "choose_slices"
ALONE = "operators would take less here, but share none of it with queries that come"


class WayCosts(NamedTuple):
    """Accesses in a second of event time."""

    slices: float
    operators: float


def way_costs(plan: Plan, seen: Observed, roots: Sequence[Node], expiry: Expiry = Expiry.PATTERN_AWARE) -> WayCosts:
    """Of all queries of a plan over time together. `roots` are their relations."""
    seconds = max(seen.span, 1) / SECOND
    rate = seen.events / seconds
    keys = {(plan.stream.name, render(g.keys[0])): expected_groups(g, seen) for g in plan.groupings if len(g.keys) == 1}
    model = CostModel(Stats({plan.stream.name: rate}, keys), expiry)
    answers = sum(model.flow(root).rate for root in dict.fromkeys(roots))
    slices = slices_of(plan.windows, 0, max(seen.span, 1), plan.slicing)
    groupings = zip(plan.groupings, plan.methods, strict=True)
    made = sum(_of_grouping(grouping, method, seen, slices) for grouping, method in groupings)
    return WayCosts(rate + made / seconds + answers, model.together(roots))


def _of_grouping(grouping: Grouping, method: str, seen: Observed, slices: int) -> float:
    """Events that are compared and added, and partials that come and go."""
    bits, groups = len(grouping.bits), expected_groups(grouping, seen)
    if method == FRAGMENTS:
        added = float(seen.events)
        partials = cells(seen.events, slices, expected_fragments(grouping, seen) * groups)
        given = partials * satisfied(bits, seen)
    else:
        added = seen.events * (satisfied(bits, seen) + len(grouping.slots) - bits)
        partials, given = min(added, float(grouping.progressions.most(0, seen.span) * groups)), 0.0
    width = 1 + COLUMN * (len(grouping.keys) + len(grouping.states))
    return seen.events * len(grouping.index.attributes) + added + given + FIFO * partials * width


def compared(plan: Plan, seen: Observed, roots: Sequence[Node], expiry: Expiry = Expiry.PATTERN_AWARE) -> Plan:
    """The plan, whose reason for slices tells what both ways cost, or why operators would answer otherwise."""
    if plan.axis != TIME_AXIS:
        return plan
    others = [why for query in plan.queries if (why := why_only_slices(query)) is not None]
    if others:
        which = "them" if len(others) == len(plan.queries) else f"{len(others):,} of them"
        return _because(plan, f"operators cannot answer {which}: {others[0]}")
    costs = way_costs(plan, seen, roots, expiry)
    slices, operators = (f"{cost:,.0f}" if cost >= 100 else f"{cost:.3g}" for cost in costs)
    queries = f" for all {len(roots):,} queries" if len(roots) > 2 else " for both queries" * (len(roots) == 2)
    alone = f"; {ALONE}" if costs.operators < costs.slices else ""
    return _because(plan, f"{slices} accesses a second{queries}, {operators} by operators{alone}")


def _because(plan: Plan, text: str) -> Plan:
    reason = Reason.of(RULE, f"{why_slices(plan.axis)}; {text}")
    return replace(plan, reasons=tuple(reason if before.rule == RULE else before for before in plan.reasons))
