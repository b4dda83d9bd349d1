"""Expressions on their way through a plan: what a column is called above a node and below it.

Join(0: orders, 1: payments)    0.id, 1.order_id
  orders                        id
  payments                      order_id
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mullion.algebra.nodes import (
    AntiJoin,
    Difference,
    Distinct,
    Filter,
    Join,
    JoinView,
    Node,
    Project,
    ResultWindow,
    Scan,
    TableLookup,
)
from mullion.language.query import Call, Column, Expr, rewrite, walk


def names_in(expr: Expr) -> set[str]:
    return {part.name for part in walk(expr) if isinstance(part, Column)}


def conjuncts(expr: Expr) -> Iterator[Expr]:
    """What AND holds together: the whole is true if and only if each of them is."""
    if isinstance(expr, Call) and expr.function == "and":
        for arg in expr.args:
            yield from conjuncts(arg)
    else:
        yield expr


def conjunction(parts: Sequence[Expr]) -> Expr:
    whole = parts[0]
    for part in parts[1:]:
        whole = Call("and", (whole, part))
    return whole


def parts_in(expr: Expr) -> set[int]:
    """The inputs of a join whose columns the expression reads.

    >>> parts_in(Call("lt", (Column("0.a"), Column("2.1.b"))))
    {0, 2}
    """
    return {int(name.partition(".")[0]) for name in names_in(expr)}


def inside(expr: Expr) -> Expr:
    """An expression over one input of a join, over that input's own columns."""

    def bare(part: Expr) -> Expr | None:
        return Column(part.name.partition(".")[2]) if isinstance(part, Column) else None

    return rewrite(expr, bare)


def outside(expr: Expr, part: int) -> Expr:
    """An expression over an input's columns, over those of the join."""

    def numbered(inner: Expr) -> Expr | None:
        return Column(f"{part}.{inner.name}") if isinstance(inner, Column) else None

    return rewrite(expr, numbered)


def through(project: Project, expr: Expr) -> Expr:
    """An expression over what a projection gives, over what it reads."""
    given = {name: item for name, item, _ in project.items}

    def computed(part: Expr) -> Expr | None:
        return given[part.name] if isinstance(part, Column) else None

    return rewrite(expr, computed)


def above(project: Project, expr: Expr) -> Expr | None:
    """An expression over what a projection reads, over what it gives; None if it drops a part of it."""
    names = {item: name for name, item, _ in reversed(project.items)}
    dropped = False

    def named(part: Expr) -> Expr | None:
        nonlocal dropped
        if part in names:
            return Column(names[part])
        dropped = dropped or isinstance(part, Column)
        return None

    found = rewrite(expr, named)
    return None if dropped else found


def traced(node: Node, expr: Expr) -> tuple[Scan, Expr] | None:
    """The expression over the columns of the one window that it comes from; None if it comes from elsewhere."""
    match node:
        case Scan():
            return node, expr
        case Project(input=below):
            return traced(below, through(node, expr))
        case Join(parts=parts):
            read = parts_in(expr)
            return traced(parts[read.pop()], inside(expr)) if len(read) == 1 else None
        case TableLookup(input=below):
            return traced(below, expr) if names_in(expr) <= below.types.keys() else None
        case Filter(input=below) | Distinct(input=below) | ResultWindow(input=below) | JoinView(input=below):
            return traced(below, expr)
        case AntiJoin(left=left) | Difference(left=left):
            return traced(left, expr)
        case _:
            return None


__all__ = ["above", "conjunction", "conjuncts", "inside", "names_in", "outside", "parts_in", "through", "traced"]
