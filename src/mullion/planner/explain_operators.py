"""EXPLAIN of operators: every edge with its update pattern, every operator with its state, and why.

query unpaid: RSTREAM every 1 min, strict, upa
  strict ── NOT EXISTS id = k0  (left: array or hash by key; right: end of each key, heap of ends)
            ├─ weakest ── orders [RANGE 10 min]
            └─ weakest ── PROJECT order_id AS k0
                          └─ weakest ── payments [RANGE 10 min]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mullion.algebra.nodes import Join, Node, Promising, nodes
from mullion.algebra.relation import Relation
from mullion.language.render import duration_text, render_window
from mullion.lazy import cached_property
from mullion.options import Expiry
from mullion.planner.drawing import Box
from mullion.planner.explain_promising import bounded_reasons, promising_reasons
from mullion.planner.explained import Explained, branched
from mullion.planner.join_order import JoinOrder, choose_order
from mullion.planner.operator_cost import CostModel
from mullion.planner.optimiser import Chosen
from mullion.planner.physical import why_operators
from mullion.planner.promising import is_promising
from mullion.planner.relation_stats import NO_STATS, Stats

VIEW = "another query computes all of the join anyway: this one looks at it and is complete, whatever its budget"
WHOLE = "with negative tuples a join is told as a whole, whatever the budget: to take a row back, one must know of it"


class States(Protocol):
    """What operators keep, which they say themselves."""

    def of(self, node: Node) -> dict[str, str]: ...
    def hears_negatives(self, node: Node) -> bool: ...


@dataclass(frozen=True)
class ComputedTogether:
    """Queries that one network computes, or would compute: what several of them need is computed once."""

    relations: tuple[Relation, ...]
    chosen: tuple[Chosen, ...]
    stats: Stats = NO_STATS
    orders: Mapping[Node, JoinOrder] = field(default_factory=dict)
    """In which order joins of many inputs probe them. Nothing of those that have none yet, or one in each shard."""
    shards: str = ""
    """Into how many shards their events are split, and by which keys; nothing where they run on the driver."""

    @cached_property
    def shared(self) -> Counter[Node]:
        """How many queries need what a node is computed by (`_computed_by`)."""
        return Counter(node for chosen in self.chosen for node in dict.fromkeys(_computing(chosen.root)))


def expected_orders(roots: Iterable[Node], stats: Stats) -> dict[Node, JoinOrder]:
    """In which order the joins of plans that are not at work yet would probe their inputs."""
    model = CostModel(stats)
    joins = (node for root in roots for node in nodes(root) if isinstance(node, Join) and len(node.parts) > 2)
    return {join: choose_order(model.join_inputs(join)).order for join in joins}


@dataclass(frozen=True)
class OperatorPlans:
    """The plans of queries that operators run."""

    together: tuple[ComputedTogether, ...] = ()
    states: States | None = None
    expiry: Expiry = Expiry.PATTERN_AWARE
    promising: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What became of the pairs of promising joins, by query."""
    evicted: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """How many rows joins evicted from windows to keep within MEMORY, by query."""

    def explained(self, pasts: Mapping[str, str], only: str | None = None) -> list[ExplainedOperators]:
        """Of all queries, or of one."""
        numbers: dict[tuple[int, Node], int] = {}
        return [
            ExplainedOperators(self, at, relation, chosen, pasts, numbers)
            for at, own in enumerate(self.together)
            for relation, chosen in zip(own.relations, own.chosen, strict=True)
            if only in (None, relation.name)
        ]

    def sources(self, root: Node, stats: Stats) -> dict[str, list[str]]:
        """Which numbers the cost of a plan stands on, by whether they were observed."""
        model = CostModel(stats, self.expiry)
        model.plan(root)
        kinds = {"observed": {True}, "partly observed": {True, False}, "assumed": {False}}
        return {how: [what for what, seen in model.sources.items() if seen == wanted] for how, wanted in kinds.items()}

    def state_of(self, node: Node) -> dict[str, str]:
        assert self.states is not None
        return self.states.of(node)

    def hears_negatives(self, node: Node) -> bool:
        return self.states is not None and self.states.hears_negatives(node)


NO_OPERATORS = OperatorPlans()


@dataclass(frozen=True)
class ExplainedOperators(Explained):
    """`at`: the number of those that it is computed with. `numbers`: those of nodes that were told of with a query
    before and are shared."""

    plans: OperatorPlans
    at: int
    relation: Relation
    chosen: Chosen
    pasts: Mapping[str, str]
    numbers: dict[tuple[int, Node], int] = field(repr=False)

    @property
    def names(self) -> list[str]:
        return [self.relation.name]

    @property
    def _together(self) -> ComputedTogether:
        return self.plans.together[self.at]

    @property
    def _why(self) -> list[dict[str, Any]]:
        why = why_operators(self.relation)
        model, tally = CostModel(self._together.stats, self.plans.expiry), self.plans.promising.get(self.relation.name)
        promising = promising_reasons(self.chosen.root, model, tally)
        is_view = self.relation.prefers and not is_promising(self.chosen.root)
        whole = WHOLE if self.plans.expiry is Expiry.NEGATIVE_TUPLES else VIEW
        views = [{"rule": "exact_join", "text": whole}] if is_view else []
        memory = bounded_reasons(self.chosen.root, self.plans.evicted.get(self.relation.name, ()))
        shards = self._together.shards
        chosen = [] if why is None else [{"rule": "choose_operators", "text": why}]
        chosen += [{"rule": "split_by_key", "text": shards}] if shards else []
        return [*chosen, *promising, *memory, *views]

    def lines(self) -> list[str]:
        return list(self._lines())

    def _lines(self) -> Iterator[str]:
        relation, chosen = self.relation, self.chosen
        yield f"query {relation.name}: {_output_text(relation)}, {chosen.root.pattern.label}, {self.plans.expiry}"
        yield from (f"  {line}" for line in self._tree(chosen.root))
        yield from (f"  {why['rule']}: {why['text']}" for why in self._why)
        sources = self.plans.sources(chosen.root, self._together.stats)
        known = "; ".join(f"{how} {', '.join(what)}" for how, what in sources.items() if what)
        yield f"  costs {chosen.cost:,.0f} accesses a second, from {known}"
        rules = [
            f"{use.name}: {use.reason} ({use.before:,.0f} before, {use.after:,.0f} after)" for use in chosen.applied
        ]
        yield from branched("  ", rules)
        if relation.name in self.pasts:
            yield f"  {'backfill' if relation.backfill else 'its first window'}: {self.pasts[relation.name]}"
        if (now := chosen.cheaper_now) is not None:
            whose = (
                "a plan made now"
                if now.queries == 1
                else f"plans made now of the {now.queries} queries that are computed together"
            )
            stays = "it stays, since it holds state; one that is created anew would be"
            yield f"  {whose} would cost {now.cost:,.0f} instead of {now.instead_of:,.0f}; {stays}:"
            yield from (f"    {line}" for line in self._tree(now.root, number=False))
        if chosen.rejected:
            root, cost = chosen.rejected[0]
            others = len(chosen.rejected) - 1
            more = f"; {others} more {'was' if others == 1 else 'were'} dearer" if others else ""
            yield f"  rejected, since it costs {cost:,.0f} instead of {chosen.cost:,.0f}{more}:"
            yield from (f"    {line}" for line in self._tree(root, number=False))

    def _tree(self, node: Node, by: Node | None = None, *, number: bool = True, above: int = 1) -> Iterator[str]:
        """What several queries share is written with the first of them, and has a number. `by`: what computes the node,
        if not itself. `above`: how many queries share what stands above the node."""
        label, by = f"{node.pattern.label} ── ", by or node
        queries = self._together.shared[by] if number else 0
        if (self.at, by) in self.numbers and number:
            yield f"{label}#{self.numbers[self.at, by]} {node.explained}, as above"
            return
        text = node.explained + self._details(node)
        if queries > above:
            self.numbers[self.at, by] = len(self.numbers) + 1
            text = f"#{len(self.numbers)} {text}  shared by {queries} queries"
        yield label + text
        margin = " " * len(label)
        for i, below in enumerate(node.inputs):
            last = i == len(node.inputs) - 1
            computing = _computed_by(node, below)
            first, *rest = self._tree(below, computing, number=number, above=max(above, queries))
            yield f"{margin}{'└─' if last else '├─'} {first}"
            yield from (f"{margin}{'  ' if last else '│ '} {line}" for line in rest)

    def _details(self, node: Node) -> str:
        """What the operator keeps, and what is particular about it."""
        details = [f"{what}: {how}" for what, how in self.plans.state_of(node).items()]
        if order := self._together.orders.get(node):
            details.append("probed in the order " + ", ".join(map(str, order)))
        if isinstance(node, Join) and node.is_internal:
            details.append("its results stay")
        if self.plans.hears_negatives(node):
            details.append("negative tuples")
        return f"  ({'; '.join(details)})" if details else ""

    def facts(self) -> dict[str, Any]:
        relation, chosen = self.relation, self.chosen
        past = self.pasts.get(relation.name)
        rules = [
            {"rule": use.name, "text": use.reason, "before": round(use.before, 3), "after": round(use.after, 3)}
            for use in chosen.applied
        ]
        query = {
            "name": relation.name,
            "output": relation.output,
            "restore": relation.restore,
            "slide": None if relation.slide is None else duration_text(relation.slide),
            **({"at_most": True} if relation.at_most else {}),
        } | ({} if past is None else {"backfill" if relation.backfill else "first_window": past})
        return {
            **self._node(chosen.root),
            "cost": round(chosen.cost, 3),
            "statistics": self.plans.sources(chosen.root, self._together.stats),
            "queries": [query],
            "reasons": [*self._why, *rules],
            "cheaper_now": self._cheaper_now(),
            "rejected": [{"cost": round(cost, 3), **self._node(root)} for root, cost in chosen.rejected],
        }

    def _cheaper_now(self) -> dict[str, Any] | None:
        if (now := self.chosen.cheaper_now) is None:
            return None
        costs = {"cost": round(now.cost, 3), "instead_of": round(now.instead_of, 3), "queries": now.queries}
        return {**costs, **self._node(now.root)}

    def _node(self, node: Node, by: Node | None = None) -> dict[str, Any]:
        order = list(self._together.orders.get(node, ()))
        return {
            "operator": node.kind_name(),
            "text": node.explained,
            "pattern": node.pattern.label,
            "state": self.plans.state_of(node),
            "negative_tuples": self.plans.hears_negatives(node),
            "shared_by": self._together.shared.get(by or node, 0),
            **({"probing_order": order} if order else {}),
            "inputs": [self._node(below, _computed_by(node, below)) for below in node.inputs],
        }

    def box(self) -> Box:
        why = (f"{why['rule']}: {why['text']}" for why in self._why)
        head = (f"query {self.relation.name}", _output_text(self.relation), *why)
        return Box(head, children=(self._box(self.chosen.root),))

    def _box(self, node: Node, by: Node | None = None) -> Box:
        structure = tuple(f"{what}: {how}" for what, how in self.plans.state_of(node).items())
        queries = self._together.shared[by or node]
        shared = (f"shared by {queries} queries",) if queries > 1 else ()
        below = tuple(self._box(below, _computed_by(node, below)) for below in node.inputs)
        return Box((node.explained, *structure, *shared), node.pattern.label, below)


def _computing(root: Node) -> Iterator[Node]:
    """What computes the nodes of a plan."""
    yield root
    for node in nodes(root):
        yield from (_computed_by(node, below) for below in node.inputs)


def _computed_by(node: Node, below: Node) -> Node:
    """What computes an input of a node. A promising join has an operator of its own for the join, which those of its
    shape share, and exact joins do not (decision 49)."""
    if isinstance(node, Promising) and isinstance(below, Join):
        (offering,) = node.operator_inputs
        return offering
    return below


def _output_text(relation: Relation) -> str:
    """What the query tells of its result, and when."""
    text = "changes" if relation.output == "changes" else relation.output.upper()
    if relation.output_window is not None:
        text += f" {render_window(relation.output_window, quoted=False)}"
    when = "at every change" if relation.slide is None else f"every {duration_text(relation.slide)}"
    when += ", more seldom while the run is behind" if relation.at_most else ""
    return f"{text}{' RESTORE' if relation.restore else ''} {when}"
