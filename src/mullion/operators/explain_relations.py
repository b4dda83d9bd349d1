"""EXPLAIN of relational plans: every edge with its update pattern, every operator with its state, and why.

query unpaid: RSTREAM every 1 min, strict, upa
  strict ── NOT EXISTS id = k0  (left: array or hash by key; right: end of each key, heap of ends)
            ├─ weakest ── orders [RANGE 10 min]
            └─ weakest ── PROJECT order_id AS k0
                          └─ weakest ── payments [RANGE 10 min]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mullion.algebra.nodes import Join, Node, nodes
from mullion.algebra.relation import Relation
from mullion.language.render import duration_text, render_window
from mullion.operators.structures import Structures
from mullion.options import Expiry
from mullion.planner.drawing import Box, svg
from mullion.planner.join_order import choose_order
from mullion.planner.operator_cost import CostModel
from mullion.planner.optimiser import Chosen, RuleUse, optimise_together
from mullion.planner.physical import why_operators
from mullion.planner.relation_stats import NO_STATS, Stats

MOST_SHOWN = 20
"""Queries that are drawn; the others are only counted."""


@dataclass(frozen=True)
class RelationExplanation:
    """Relational plans as a value: `text` for people, `to_dict()` for programs."""

    relations: tuple[Relation, ...]
    chosen: tuple[Chosen, ...]
    stats: Stats = NO_STATS
    expiry: Expiry = Expiry.PATTERN_AWARE
    observed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        if not self.relations:
            return "no queries over relations"
        drawing = _Drawing(self)
        blocks = [
            "\n".join(drawing.query(relation, chosen))
            for relation, chosen in list(zip(self.relations, self.chosen, strict=True))[:MOST_SHOWN]
        ]
        if len(self.relations) > MOST_SHOWN:
            blocks.append(f"... and {len(self.relations) - MOST_SHOWN} more queries over relations")
        blocks += [f"seen so far in {name}: {_counts_text(counts)}" for name, counts in self.observed.items()]
        return "\n\n".join(blocks)

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        shared = self.shared
        plans = []
        for relation, chosen in zip(self.relations, self.chosen, strict=True):
            plans.append(
                {
                    "name": relation.name,
                    "output": relation.output,
                    "restore": relation.restore,
                    "slide": None if relation.slide is None else duration_text(relation.slide),
                    "pattern": chosen.root.pattern.label,
                    "cost": round(chosen.cost, 3),
                    "why_operators": why_operators(relation),
                    "statistics": self.sources(chosen.root),
                    "plan": self._node(chosen.root, shared),
                    "rules": [_use(use) for use in chosen.applied],
                    "rejected": [
                        {"cost": round(cost, 3), "plan": self._node(root, shared)} for root, cost in chosen.rejected
                    ],
                }
            )
        return {"strategy": self.expiry, "relations": plans, "observed": dict(self.observed)}

    def to_svg(self) -> str:
        return svg(self.boxes())

    def boxes(self) -> list[Box]:
        """One tree for each query that is drawn."""
        shown = list(zip(self.relations, self.chosen, strict=True))[:MOST_SHOWN]
        shared = self.shared
        return [
            Box(
                (f"query {relation.name}", output_text(relation), *_why(relation)),
                children=(self._box(chosen.root, shared),),
            )
            for relation, chosen in shown
        ]

    def _box(self, node: Node, shared: Mapping[Node, int]) -> Box:
        structure = tuple(f"{what}: {how}" for what, how in self.structures.of(node).items())
        queries = (f"shared by {shared[node]} queries",) if shared[node] > 1 else ()
        below = tuple(self._box(below, shared) for below in node.inputs)
        return Box((node.explained, *structure, *queries), node.pattern.label, below)

    @cached_property
    def structures(self) -> Structures:
        return Structures(self.expiry)

    def sources(self, root: Node) -> dict[str, list[str]]:
        """Which numbers the cost of a plan stands on, by whether they were observed."""
        model = CostModel(self.stats, self.expiry)
        model.plan(root)
        kinds = {"observed": {True}, "partly observed": {True, False}, "assumed": {False}}
        return {how: [what for what, seen in model.sources.items() if seen == wanted] for how, wanted in kinds.items()}

    @property
    def shared(self) -> Counter[Node]:
        """How many queries need a node."""
        return Counter(node for chosen in self.chosen for node in dict.fromkeys(nodes(chosen.root)))

    def _node(self, node: Node, shared: Mapping[Node, int]) -> dict[str, Any]:
        explained: dict[str, Any] = {
            "operator": node.kind_name(),
            "text": node.explained,
            "pattern": node.pattern.label,
            "state": self.structures.of(node),
            "negative_tuples": self.structures.hears_negatives(node),
            "queries": shared.get(node, 0),
        }
        if isinstance(node, Join) and len(node.parts) > 2:
            explained["probing_order"] = list(choose_order(CostModel(self.stats).join_inputs(node)).order)
        explained["inputs"] = [self._node(below, shared) for below in node.inputs]
        return explained


class _Drawing:
    """Trees of boxes. What several queries share is drawn with the first of them, and has a number."""

    def __init__(self, explanation: RelationExplanation) -> None:
        self.explanation = explanation
        self.shared = explanation.shared
        self.numbers: dict[Node, int] = {}

    def query(self, relation: Relation, chosen: Chosen) -> Iterator[str]:
        yield f"query {relation.name}: {output_text(relation)}, {chosen.root.pattern.label}, {self.explanation.expiry}"
        yield from (f"  {line}" for line in self.tree(chosen.root))
        yield from (f"  {why}" for why in _why(relation))
        sources = self.explanation.sources(chosen.root)
        known = "; ".join(f"{how} {', '.join(what)}" for how, what in sources.items() if what)
        yield f"  costs {chosen.cost:,.0f} accesses a second, from {known}"
        for i, use in enumerate(chosen.applied):
            branch = "└─" if i == len(chosen.applied) - 1 else "├─"
            yield f"  {branch} {use.name}: {use.reason} ({use.before:,.0f} before, {use.after:,.0f} after)"
        if chosen.rejected:
            root, cost = chosen.rejected[0]
            others = len(chosen.rejected) - 1
            more = f"; {others} more {'was' if others == 1 else 'were'} dearer" if others else ""
            yield f"  rejected, since it costs {cost:,.0f} instead of {chosen.cost:,.0f}{more}:"
            yield from (f"    {line}" for line in self.tree(root, number=False))

    def tree(self, node: Node, *, number: bool = True, above: int = 1) -> Iterator[str]:
        """`above`: how many queries share what stands above the node."""
        label = f"{node.pattern.label} ── "
        queries = self.shared[node] if number else 0
        if node in self.numbers and number:
            yield f"{label}#{self.numbers[node]} {node.explained}, as above"
            return
        text = node.explained + self.details(node)
        if queries > above:
            self.numbers[node] = len(self.numbers) + 1
            text = f"#{self.numbers[node]} {text}  shared by {queries} queries"
        yield label + text
        margin = " " * len(label)
        for i, below in enumerate(node.inputs):
            last = i == len(node.inputs) - 1
            first, *rest = self.tree(below, number=number, above=max(above, queries))
            yield f"{margin}{'└─' if last else '├─'} {first}"
            yield from (f"{margin}{'  ' if last else '│ '} {line}" for line in rest)

    def details(self, node: Node) -> str:
        """What the operator keeps, and what is particular about it."""
        details = [f"{what}: {how}" for what, how in self.explanation.structures.of(node).items()]
        if isinstance(node, Join) and len(node.parts) > 2:
            order = choose_order(CostModel(self.explanation.stats).join_inputs(node)).order
            details.append("probed in the order " + ", ".join(map(str, order)))
        if isinstance(node, Join) and node.is_internal:
            details.append("its results stay")
        if self.explanation.structures.hears_negatives(node):
            details.append("negative tuples")
        return f"  ({'; '.join(details)})" if details else ""


def _why(relation: Relation) -> tuple[str, ...]:
    why = why_operators(relation)
    return () if why is None else (f"choose_operators: {why}",)


def output_text(relation: Relation) -> str:
    """What the query tells of its result, and when."""
    text = "changes" if relation.output == "changes" else relation.output.upper()
    if relation.output_window is not None:
        text += f" {render_window(relation.output_window, quoted=False)}"
    when = "at every change" if relation.slide is None else f"every {duration_text(relation.slide)}"
    return f"{text}{' RESTORE' if relation.restore else ''} {when}"


def _use(use: RuleUse) -> dict[str, Any]:
    return {"rule": use.name, "reason": use.reason, "before": round(use.before, 3), "after": round(use.after, 3)}


def _counts_text(counts: Any) -> str:
    if not isinstance(counts, Mapping):
        return str(counts)
    return ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in counts.items() if isinstance(value, int))


def explain_relations(
    relations: Sequence[Relation],
    stats: Stats = NO_STATS,
    expiry: Expiry = Expiry.PATTERN_AWARE,
    observed: Mapping[str, Any] | None = None,
    chosen: Sequence[Chosen] | None = None,
) -> RelationExplanation:
    """The plans of queries over relations, with their reasons. `chosen`: the plans that are at work; without them they
    are chosen from the statistics as they would be now."""
    plans = optimise_together([r.root for r in relations], stats, expiry) if chosen is None else chosen
    return RelationExplanation(tuple(relations), tuple(plans), stats, expiry, observed or {})


__all__ = ["RelationExplanation", "explain_relations", "output_text"]
