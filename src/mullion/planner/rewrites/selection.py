"""Selections sink to the windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mullion.algebra.column_names import conjuncts, parts_in
from mullion.algebra.nodes import Filter, Join, Node
from mullion.planner.rewrites.rule import Rule


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


PUSH_SELECTION = Rule("push_selection", "rows that nobody wants are dropped before they cost anything", push_selection)
