"""The cheapest of the equal plans that the rewrite rules lead to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mullion.algebra.nodes import Node, Scan, nodes
from mullion.algebra.update_pattern import Pattern
from mullion.options import Expiry
from mullion.planner.operator_cost import CostModel
from mullion.planner.relation_stats import NO_STATS, Stats
from mullion.planner.rewrites import ALTERNATIVES, SHARING, SIMPLIFYING
from mullion.planner.rewrites.rule import Rule, everywhere

MOST_PLANS = 64
"""Alternatives of one query that are compared at most."""
_SHARED = "{} queries over it: computed once, although over more rows"


@dataclass(frozen=True)
class RuleUse:
    """A rule that was applied, and what the whole plan cost before and after."""

    name: str
    reason: str
    before: float
    after: float


@dataclass(frozen=True)
class CheaperNow:
    """Another plan that would be chosen now, and what all queries that are computed together would cost by plans that
    are made now, and cost by those at work."""

    root: Node
    cost: float
    instead_of: float
    queries: int


@dataclass(frozen=True)
class Chosen:
    """The plan that was chosen, how it came about, and the dearer ones that were considered, the cheapest first."""

    root: Node
    cost: float
    applied: tuple[RuleUse, ...]
    rejected: tuple[tuple[Node, float], ...]
    cheaper_now: CheaperNow | None = None
    """Of a plan at work, which stays since it holds state."""


def optimise_together(
    roots: Sequence[Node],
    stats: Stats = NO_STATS,
    expiry: Expiry = Expiry.PATTERN_AWARE,
    in_order: Collection[Node] = (),
) -> list[Chosen]:
    """For each query the cheapest of the equal plans that the rules lead to, where what queries share counts once.

    Pushing selections down makes one query cheaper, but leaves less that is the same. So queries that differ only in
    what they do above the same join are planned once each for itself, and once with their selections above it. What is
    cheaper in sum is taken. Costs are then each query's share. `in_order`: roots of which somebody sees the order of
    rows that come at one moment; they are left to rules that keep it.

    Requires: nothing; without observed statistics guesses are compared.
    Time: O(r n) plans are costed for r rules and n nodes while simplifying, then at most 64 alternatives a query.
    Guarantee: the same rows with the same lifetimes; never dearer than the plans after simplifying.
    """
    model = CostModel(stats, expiry)
    search = _Search(model)
    chosen = [search.best(root, SIMPLIFYING, in_order=root in in_order) for root in roots]
    kept_up = [search.best(root, SHARING, in_order=root in in_order) for root in roots]
    groups: dict[Node, list[int]] = {}
    for i, plan in enumerate(kept_up):
        groups.setdefault(_core(plan.root), []).append(i)
    for core, places in groups.items():
        apart = model.together(chosen[i].root for i in places)
        together = model.together(kept_up[i].root for i in places)
        if together < apart and len(places) > 1 and not isinstance(core, Scan):
            use = RuleUse("share_below_selections", _SHARED.format(len(places)), apart, together)
            for i in places:
                if chosen[i].root != kept_up[i].root:
                    rejected = (chosen[i].root, apart / len(places))
                    chosen[i] = Chosen(kept_up[i].root, together / len(places), (*kept_up[i].applied, use), (rejected,))
    return chosen


def all_plans(root: Node) -> list[Node]:
    """Every plan that `optimise_together` may choose, whatever the statistics: to find one again."""
    search = _Search(CostModel(NO_STATS))
    plans = {root: None}
    for rules in (SIMPLIFYING, SHARING):
        simple, _ = search.simplified(root, rules)
        plans |= dict.fromkeys(search.alternatives(simple, rules))
    return list(plans)


def _core(root: Node) -> Node:
    """What stands below all that only one query does: the first node with several inputs."""
    while len(root.inputs) == 1:
        root = root.inputs[0]
    return root


@dataclass
class _Search:
    model: CostModel

    def best(self, root: Node, simplifying: Sequence[Rule], *, in_order: bool) -> Chosen:
        simple, uses = self.simplified(root, simplifying)
        plans = self.alternatives(simple, simplifying, in_order=in_order)
        costs = {plan: self.model.plan(plan) for plan in plans}
        first = min(plans, key=lambda plan: (costs[plan], _strict_edges(plan)))
        dearer = [(plan, cost) for plan, cost in costs.items() if cost > costs[first] * (1 + 1e-9)]
        return Chosen(first, costs[first], (*uses, *plans[first]), tuple(sorted(dearer, key=lambda p: p[1])))

    def simplified(self, root: Node, rules: Sequence[Rule]) -> tuple[Node, tuple[RuleUse, ...]]:
        """All rules applied until none fits; one use is noted for each rule."""
        uses: dict[str, RuleUse] = {}
        plan = root
        changed = True
        while changed:
            changed = False
            for rule in rules:
                while (better := next(everywhere(plan, rule), None)) is not None:
                    before = uses[rule.name].before if rule.name in uses else self.model.plan(plan)
                    uses[rule.name] = RuleUse(rule.name, rule.reason, before, self.model.plan(better))
                    plan, changed = better, True
        return plan, tuple(uses.values())

    def alternatives(
        self, plan: Node, simplifying: Sequence[Rule], *, in_order: bool = False
    ) -> dict[Node, tuple[RuleUse, ...]]:
        """Plans that the alternatives lead to, and by which uses."""
        plans: dict[Node, tuple[RuleUse, ...]] = {plan: ()}
        waiting = [plan]
        while waiting and len(plans) < MOST_PLANS:
            known = waiting.pop(0)
            for rule in (rule for rule in ALTERNATIVES if rule.keeps_ids or not in_order):
                for offered in everywhere(known, rule):
                    other, _ = self.simplified(offered, simplifying)
                    if other not in plans:
                        use = RuleUse(rule.name, rule.reason, self.model.plan(known), self.model.plan(other))
                        plans[other] = (*plans[known], use)
                        waiting.append(other)
        return plans


def _strict_edges(root: Node) -> int:
    return sum(node.pattern is Pattern.STRICT for node in nodes(root))
