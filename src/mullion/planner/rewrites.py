"""Equal plans that cost less: named rules over the algebra (golab 3.5.3).

A rule looks at one node and gives an equal one, or None where it does not apply. Equal means equal for all who can
see: the same rows with the same lifetimes, since answers tell when a row came and when it leaves.

Simplifying rules are applied wherever they fit: selections sink to the windows, NOT EXISTS keeps keys only. The others
give alternatives, of which the cheapest is taken. The novel one is update pattern simplification: operators with simple
patterns go down and strict ones up, so that fewer of them hear of negative tuples.

    the left of Figure 3.5               the right
    NOT EXISTS              strict       JOIN                  strict
    ├─ JOIN                 weak         ├─ NOT EXISTS         strict
    │  ├─ S1                weakest      │  ├─ S1              weakest
    │  └─ S2                weakest      │  └─ S3              weakest
    └─ S3                   weakest      └─ S2                 weakest

No rule moves a table that is joined through a negation: a negative tuple might find another row than the tuple that it
takes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from mullion.algebra.column_names import conjuncts, inside, names_in, outside, parts_in
from mullion.algebra.nodes import (
    Aggregated,
    AntiJoin,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    Union,
    nodes,
)
from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Column, Expr
from mullion.planner.operator_cost import CostModel
from mullion.planner.relation_stats import NO_STATS, Stats

MOST_PLANS = 64
"""Alternatives of one query that are compared at most."""


@dataclass(frozen=True)
class Rule:
    """A name, a reason for people, and what it makes of a node: every plan that it offers in its place."""

    name: str
    reason: str
    offers: Callable[[Node], Iterator[Node]]
    keeps_ids: bool = True
    """Whether each row stays the same row. If not, rows that come at one moment may stand in another order, and the
    rule is not for what somebody above puts in order."""


@dataclass(frozen=True)
class RuleUse:
    """A rule that was applied, and what the whole plan cost before and after."""

    name: str
    reason: str
    before: float
    after: float


@dataclass(frozen=True)
class Chosen:
    """The plan that was chosen, how it came about, and the dearer ones that were considered, the cheapest first."""

    root: Node
    cost: float
    applied: tuple[RuleUse, ...]
    rejected: tuple[tuple[Node, float], ...]


# Selections


def push_selection(node: Node) -> Iterator[Node]:
    """A selection below what it stands on."""
    match node:
        case Join(residual=residual) if residual is not None:
            conditions = list(conjuncts(residual))
            if any(len(parts_in(condition)) == 1 for condition in conditions):
                yield replace(node, residual=None).with_conditions(conditions)
        case Filter(input=below, predicate=predicate):
            pushed = below.filtered_below(predicate)
            if pushed is not None:
                yield pushed
        case _:
            return


# NOT EXISTS


def project_keys(node: Node) -> Iterator[Node]:
    """The right side of NOT EXISTS is asked for its keys only."""
    if isinstance(node, AntiJoin) and not _is_keys(node.right, node.right_keys):
        types = [node.right.types[k.name] if isinstance(k, Column) else None for k in node.right_keys]
        if None in types:
            return
        names = tuple(f"k{i}" for i in range(len(node.right_keys)))
        items = tuple((n, k, t) for n, k, t in zip(names, node.right_keys, types, strict=True) if t is not None)
        yield replace(node, right=Project(node.right, items), right_keys=tuple(map(Column, names)))


def _is_keys(right: Node, keys: Sequence[Expr]) -> bool:
    return {Column(name) for name in right.types} == set(keys)


def drop_idle_distinct(node: Node) -> Iterator[Node]:
    """Rows that occur once need not be told apart; whether there are rows can be told without."""
    match node:
        case Distinct(input=Distinct() as inner):
            yield inner
        case AntiJoin(right=Distinct(input=below)):
            yield replace(node, right=below)
        case AntiJoin(right=Project(input=Distinct(input=below)) as project):
            yield replace(node, right=replace(project, input=below))
        case _:
            return


# Update pattern simplification


def pull_up_negation(node: Node) -> Iterator[Node]:
    """NOT EXISTS above a join or a union, so that what is below it hears of no negative tuples."""
    match node:
        case Join(parts=parts) if not any(part.is_internal for part in parts):
            for i, part in enumerate(parts):
                negation = _as_negation(part)
                if negation is not None and not negation.left.is_internal:
                    joined = replace(node, parts=(*parts[:i], negation.left, *parts[i + 1 :]))
                    keys = tuple(_first_equal(node, outside(key, i)) for key in negation.left_keys)
                    yield AntiJoin(joined, negation.right, keys, negation.right_keys)
        case Union(parts=parts):
            tested = [part for part in parts if isinstance(part, AntiJoin)]
            if len(tested) == len(parts) and len({(n.right, n.left_keys, n.right_keys) for n in tested}) == 1:
                yield replace(tested[0], left=Union(tuple(n.left for n in tested)))
        case _:
            return


def _first_equal(join: Join, key: Expr) -> Expr:
    """The first input's key, where the join makes it equal to this one: so that equal plans are the same."""
    return next(
        (
            outside(join.keys[0][place], 0)
            for i, keys in enumerate(join.keys)
            for place, own in enumerate(keys)
            if outside(own, i) == key
        ),
        key,
    )


def _as_negation(node: Node) -> AntiJoin | None:
    """A negation, perhaps below a projection that keeps its keys."""
    if isinstance(node, Project) and isinstance(node.input, AntiJoin):
        negation = node.input
        keys = [node.above(key) for key in negation.left_keys]
        if None in keys:
            return None
        return AntiJoin(
            replace(node, input=negation.left), negation.right, tuple(k for k in keys if k), negation.right_keys
        )
    return node if isinstance(node, AntiJoin) else None


def push_down_negation(node: Node) -> Iterator[Node]:
    """NOT EXISTS below a join, on an input that has the keys that it tests: fewer rows reach the join."""
    if not isinstance(node, AntiJoin):
        return
    match node.left:
        case Join(parts=parts) as join if not any(part.is_internal for part in parts):
            for i, part in enumerate(parts):
                keys = [_key_in_part(join, key, i) for key in node.left_keys]
                if None not in keys:
                    tested = replace(node, left=part, left_keys=tuple(k for k in keys if k))
                    yield replace(join, parts=(*parts[:i], tested, *parts[i + 1 :]))
        case _:
            return


def _key_in_part(join: Join, key: Expr, part: int) -> Expr | None:
    """A key of the join's results over one input: its own, or the one that the join makes equal to it."""
    if parts_in(key) == {part}:
        return inside(key)
    for i, keys in enumerate(join.keys):
        for place, own in enumerate(keys):
            if outside(own, i) == key:
                return join.keys[part][place]
    return None


def swap_negations(node: Node) -> Iterator[Node]:
    """Two NOT EXISTS in the other order: the one that lets fewer rows through first."""
    if isinstance(node, AntiJoin) and isinstance(node.left, AntiJoin):
        yield replace(node.left, left=replace(node, left=node.left.left))


def push_distinct(node: Node) -> Iterator[Node]:
    """DISTINCT also below a join or union, where only the values of its input count and not their lifetimes: when it
    counts (over strict input), and below a periodic aggregate."""
    match node:
        case Distinct(input=below) if below.pattern is Pattern.STRICT:
            yield from (Distinct(inner) for inner in _distinct_below(below) if inner.pattern is Pattern.STRICT)
        case Aggregated(input=Distinct(input=below), slide=slide) if slide is not None and not node.asks_for_order:
            yield from (replace(node, input=Distinct(inner)) for inner in _distinct_below(below))
        case _:
            return


def _distinct_below(below: Node) -> Iterator[Node]:
    match below:
        case Union(parts=parts) if not all(isinstance(part, Distinct) for part in parts):
            yield Union(tuple(part if isinstance(part, Distinct) else Distinct(part) for part in parts))
        case Project(input=Join() as join, items=items) if not any(part.is_internal for part in join.parts):
            read = {name for _, expr, _ in items for name in names_in(expr)}
            read |= set() if join.residual is None else names_in(join.residual)
            parts = tuple(
                _narrow(part, {n.partition(".")[2] for n in read if n.startswith(f"{i}.")}, join.keys[i])
                for i, part in enumerate(join.parts)
            )
            if parts != join.parts:
                yield replace(below, input=replace(join, parts=parts))
        case _:
            return


def _narrow(part: Node, read: set[str], keys: Sequence[Expr]) -> Node:
    """The columns that are read and those of the keys, each row once."""
    if isinstance(part, Distinct):
        return part
    read = read.union(*(names_in(key) for key in keys))
    items = tuple((name, Column(name), type_) for name, type_ in part.columns if name in read)
    return Distinct(part if len(items) == len(part.columns) else Project(part, items))


PUSH_SELECTION = Rule("push_selection", "rows that nobody wants are dropped before they cost anything", push_selection)
SIMPLIFYING = (
    PUSH_SELECTION,
    Rule("drop_idle_distinct", "a row is there or not: telling duplicates apart adds nothing", drop_idle_distinct),
    Rule("project_keys", "NOT EXISTS asks for keys only, so only they are kept", project_keys),
)
ALTERNATIVES = (
    Rule(
        "pull_up_negation",
        "update pattern simplification: below the negation no operator hears of negative tuples",
        pull_up_negation,
    ),
    Rule("push_down_negation", "the negation lets few rows through, so fewer reach the join", push_down_negation),
    Rule("swap_negations", "the negation that lets fewer rows through goes first", swap_negations),
    Rule("push_distinct", "duplicates are dropped before they are multiplied", push_distinct, keeps_ids=False),
)


def optimise_together(roots: Sequence[Node], stats: Stats = NO_STATS, strategy: str = "upa") -> list[Chosen]:
    """For each query the cheapest of the equal plans that the rules lead to, where what queries share counts once.

    Pushing selections down makes one query cheaper, but leaves less that is the same. So queries that differ only in
    what they do above the same join are planned once each for itself, and once with their selections above it. What is
    cheaper in sum is taken. Costs are then each query's share.

    Requires: nothing; without observed statistics guesses are compared.
    Time: O(r n) plans are costed for r rules and n nodes while simplifying, then at most 64 alternatives a query.
    Guarantee: the same rows with the same lifetimes; never dearer than the plans after simplifying.
    """
    model = CostModel(stats, strategy)
    search = _Search(model)
    chosen = [search.best(root, SIMPLIFYING) for root in roots]
    kept_up = [search.best(root, SHARING) for root in roots]
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
    found = {root: None}
    for rules in (SIMPLIFYING, SHARING):
        simple, _ = search.simplified(root, rules)
        found |= dict.fromkeys(search.alternatives(simple, rules))
    return list(found)


SHARING = tuple(rule for rule in SIMPLIFYING if rule is not PUSH_SELECTION)
_SHARED = "{} queries over it: computed once, although over more rows"


def _core(root: Node) -> Node:
    """What stands below all that only one query does: the first node with several inputs."""
    while len(root.inputs) == 1:
        root = root.inputs[0]
    return root


@dataclass
class _Search:
    model: CostModel

    def best(self, root: Node, simplifying: Sequence[Rule]) -> Chosen:
        simple, uses = self.simplified(root, simplifying)
        plans = self.alternatives(simple, simplifying)
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

    def alternatives(self, plan: Node, simplifying: Sequence[Rule]) -> dict[Node, tuple[RuleUse, ...]]:
        """Plans that the alternatives lead to, and by which uses."""
        found: dict[Node, tuple[RuleUse, ...]] = {plan: ()}
        waiting = [plan]
        while waiting and len(found) < MOST_PLANS:
            known = waiting.pop(0)
            for rule in ALTERNATIVES:
                for offered in everywhere(known, rule):
                    other, _ = self.simplified(offered, simplifying)
                    if other not in found:
                        use = RuleUse(rule.name, rule.reason, self.model.plan(known), self.model.plan(other))
                        found[other] = (*found[known], use)
                        waiting.append(other)
        return found


def everywhere(root: Node, rule: Rule) -> Iterator[Node]:
    """The plan with the rule applied at one place, for every place and offer; the top first."""
    yield from rule.offers(root)
    if root.asks_for_order and not rule.keeps_ids:
        return
    for i, below in enumerate(root.inputs):
        for other in everywhere(below, rule):
            yield root.with_inputs((*root.inputs[:i], other, *root.inputs[i + 1 :]))


def _strict_edges(root: Node) -> int:
    return sum(node.pattern is Pattern.STRICT for node in nodes(root))


__all__ = [
    "ALTERNATIVES",
    "SIMPLIFYING",
    "Chosen",
    "Rule",
    "RuleUse",
    "all_plans",
    "everywhere",
    "optimise_together",
]
