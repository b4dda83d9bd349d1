"""EXISTS and NOT EXISTS, correlated by equality (golab 2.2.2).

    ... WHERE NOT EXISTS (SELECT 1 FROM payments [RANGE 10 min] p WHERE p.order = o.order AND p.amount > 0)

    AntiJoin(o, Filter(amount > 0) over Scan(payments), on order = order)

EXISTS joins with the distinct keys of the sub-query, so every row stays as often as it was there, and takes the left's
columns out of the join.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mullion.algebra.nodes import AntiJoin, Distinct, Join, Node, Project
from mullion.binding.equijoins import equal_keys
from mullion.binding.layouts import Layout
from mullion.binding.scope import OUTER, Scope
from mullion.binding.selecting import is_aggregating
from mullion.binding.sources import Read
from mullion.binding.windows import Clock
from mullion.errors import CheckError, NotSupported
from mullion.expressions.shared import shared
from mullion.expressions.typing import type_of
from mullion.language.query import Column, Exists, Expr, Query, rewrite

ReadQuery = Callable[[Query, Clock, Scope], Read]


def existing(layout: Layout, exists: Exists, negated: bool, clock: Clock, reading: ReadQuery) -> Layout:
    """The rows of the layout for which the sub-query finds a row, or, negated, none."""
    _refuse(exists)
    inner = reading(exists.query, clock, layout.scope)
    _check_items(exists.query, inner.layout.scope)
    left_keys, right_keys = _keys(layout, inner, exists)
    right = inner.layout.node
    if negated:
        return replace(layout, node=AntiJoin(layout.node, right, left_keys, right_keys))
    return replace(layout, node=_semi_join(layout.node, right, left_keys, right_keys))


def _semi_join(left: Node, right: Node, left_keys: tuple[Expr, ...], right_keys: tuple[Expr, ...]) -> Node:
    keys = tuple((f"c{i}", key, type_of(key, right.types)) for i, key in enumerate(right_keys))
    distinct = Distinct(Project(right, keys))
    joined = Join((left, distinct), (left_keys, tuple(shared(Column(name)) for name, _, _ in keys)))
    return Project(joined, tuple((name, shared(Column(f"0.{name}")), type_) for name, type_ in left.columns))


def _keys(layout: Layout, inside: Read, exists: Exists) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    if not inside.correlated:
        message = "no equality correlates this EXISTS with the outer query"
        raise CheckError(message, exists.place, hint="add an equality to its WHERE, such as inner.k = outer.k")
    pairs = []
    for outer, inner in inside.correlated:
        outer_key, inner_key = layout.placed(_from_outside(outer)), inside.layout.placed(inner)
        layout.typed(_from_outside(outer)), inside.layout.typed(inner)
        pair = equal_keys(outer_key, layout.node.types, inner_key, inside.layout.node.types, outer.place)
        if pair is None:
            raise NotSupported("this condition of EXISTS", outer.place, hint="compare columns, not constants")
        if pair not in pairs:
            pairs.append(pair)
    return tuple(outer_key for outer_key, _ in pairs), tuple(inner_key for _, inner_key in pairs)


def _from_outside(expr: Expr) -> Expr:
    """A column of the query around, as that query itself settles it."""

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Column) and node.table is not None:
            return Column(node.name, node.table.replace(OUTER, "#"), place=node.place)
        return None

    return rewrite(expr, change)


def _check_items(query: Query, scope: Scope) -> None:
    """What is selected does not matter, but must be there."""
    for item in query.items:
        if not isinstance(item.expr, Column) or item.expr.name != "*":
            scope.qualified(item.expr, range(len(scope.sources)))


def _refuse(exists: Exists) -> None:
    query = exists.query
    if is_aggregating(query):
        hint = "group in FROM: EXISTS (SELECT 1 FROM (SELECT k, count(*) AS n FROM ... GROUP BY k) c WHERE c.k = ...)"
        raise NotSupported("an aggregate directly in EXISTS", query.place, hint=hint)
    for there, what in [
        (bool(query.union), "UNION ALL"),
        (bool(query.excepted), "EXCEPT ALL"),
        (query.limit is not None, "LIMIT"),
        (query.output is not None, "an output stream"),
        (query.preference is not None, "WITH PREFERENCE"),
    ]:
        if there:
            raise NotSupported(f"{what} directly in EXISTS", query.place, hint="write it in a sub-query in FROM")
