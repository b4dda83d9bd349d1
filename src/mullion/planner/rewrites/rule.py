"""What a rule is, and where in a plan it may be applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mullion.algebra.nodes import Node


@dataclass(frozen=True)
class Rule:
    """A name, a reason for people, and what it makes of a node: every plan that it offers in its place."""

    name: str
    reason: str
    offers: Callable[[Node], Iterator[Node]]
    keeps_ids: bool = True
    """Whether each row stays the same row. If not, rows that come at one moment may stand in another order, and the
    rule does not apply below a node that asks for order."""


def everywhere(root: Node, rule: Rule) -> Iterator[Node]:
    """The plan with the rule applied at one place, for every place and offer; the top first."""
    yield from rule.offers(root)
    if root.asks_for_order and not rule.keeps_ids:
        return
    for i, below in enumerate(root.inputs):
        for other in everywhere(below, rule):
            yield root.with_inputs((*root.inputs[:i], other, *root.inputs[i + 1 :]))
