"""Expressions on their way through a plan: what a column is called above a node and below it.

Join(0: orders, 1: payments)    0.id, 1.order_id
  orders                        id
  payments                      order_id
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from mullion.language.query import Call, Column, Expr, children, rewrite, walk
from mullion.language.types import DOUBLE, FLOAT, Type


@lru_cache(maxsize=1 << 14)
def names_read(expr: Expr) -> frozenset[str]:
    """The columns that an expression reads."""
    return frozenset(part.name for part in walk(expr) if isinstance(part, Column))


def names_in(*expressions: Expr) -> set[str]:
    """The columns that expressions read."""
    return {name for expr in expressions for name in names_read(expr)}


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


_COMPARED = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe", "is_null", "in"))


def tells_equals_apart(expr: Expr, types: Mapping[str, Type]) -> bool:
    """Whether it might be true for one of two equal rows only: zeros of either sign are equal, but what is computed of
    them need not be."""
    if isinstance(expr, Column):
        return types[expr.name] in (DOUBLE, FLOAT)
    compared = isinstance(expr, Call) and expr.function in _COMPARED
    return any(
        tells_equals_apart(child, types) for child in children(expr) if not (compared and isinstance(child, Column))
    )
