"""UNION ALL and EXCEPT ALL: columns by position, under the names of the first part, in a type that holds all parts'."""

from __future__ import annotations

from collections.abc import Sequence

from mullion.algebra.bound_aggregate import WINDOW_COLUMNS
from mullion.algebra.nodes import Difference, Node, Project, Union
from mullion.binding.layouts import typed
from mullion.binding.selecting import Selected
from mullion.errors import CheckError
from mullion.expressions.functions.coercion import common
from mullion.expressions.shared import shared
from mullion.expressions.typing import cast
from mullion.language.query import Column, Expr, Query, rewrite
from mullion.language.types import Type


def combined_parts(query: Query, head: Selected, united: Sequence[Selected], excepted: Sequence[Selected]) -> Selected:
    """The parts together, and ORDER BY over the names of the first."""
    parts = [head, *united, *excepted]
    written = [query, *query.union, *query.excepted]
    width = len(head.names)
    for part, text in zip(parts, written, strict=True):
        if len(part.names) != width:
            message = f"this part has {len(part.names)} columns, and the first part has {width}"
            raise CheckError(message, text.place, hint="give all parts as many columns")
    types = [_common(query, parts, at) for at in range(width)]
    nodes = [_as_types(part.node, types) for part in parts]
    whole: Node = Union(tuple(nodes[: len(united) + 1])) if united else nodes[0]
    for node in nodes[len(united) + 1 :]:
        whole = Difference(whole, node)
    return Selected(whole, head.names, _order_by(query, head, whole))


def _common(query: Query, parts: Sequence[Selected], at: int) -> Type:
    types = [part.node.columns[at][1] for part in parts]
    common_type = common(types)
    if common_type is None:
        named = ", ".join(map(str, types))
        message = f"column '{parts[0].names[at]}' has no type common to all parts ({named})"
        raise CheckError(message, query.place, hint="CAST it")
    return common_type


def _as_types(node: Node, types: Sequence[Type]) -> Node:
    if [type_ for _, type_ in node.columns] == list(types):
        return node
    below = node.input if isinstance(node, Project) else node
    items = node.items if isinstance(node, Project) else [(name, Column(name), t) for name, t in node.columns]
    as_target = [
        (name, shared(cast(expr, source, target, None)), target)
        for (name, expr, source), target in zip(items, types, strict=True)
    ]
    return Project(below, tuple(as_target))


def _order_by(query: Query, head: Selected, whole: Node) -> tuple[tuple[Expr, bool, bool], ...]:
    by_name = {name.lower(): f"c{i}" for i, name in enumerate(head.names)}

    def change(node: Expr) -> Expr | None:
        if not isinstance(node, Column):
            return None
        column = by_name.get(node.name.lower()) if node.table is None else None
        if column is None:
            message = f"the parts' answer has no column '{node.name}'"
            raise CheckError(message, node.place, hint=f"order by one of {', '.join(head.names)}")
        return Column(column, place=node.place)

    order_by = []
    for term in query.order_by:
        if isinstance(term.expr, Column) and term.expr.name.lower() in WINDOW_COLUMNS:
            continue
        expr, _ = typed(rewrite(term.expr, change), whole.types)
        order_by.append((expr, term.descending, term.nulls_first))
    return tuple(order_by)
