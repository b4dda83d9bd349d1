"""Between which bounds whole numbers of a batch lie: steps that cannot leave their type need not be looked at.

    delay in -60 .. 1,400, distance in 20 .. 5,000        the extremes of two columns, each looked at once
    delay * 2 in -120 .. 2,800                            far from the bounds of BIGINT, so it never overflows
    delay * 2 > distance - 300                            is delay * 2 - distance > -300, and so for any constant

All conditions that compare the same two expressions, each with a constant of its own, then share one difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mullion.expressions.functions.numbers import BOUNDS
from mullion.kernels.columns import BatchColumns
from mullion.language.query import Call, Cast, Column, Expr, Literal
from mullion.language.types import Type

STEPS: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
}
COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")
NEVER_FAIL = (*COMPARED, "and", "or", "not", "in", "is_null")
FAR = 1 << 62


class Extent(NamedTuple):
    """Every value is at least `low` and at most `high`."""

    low: int
    high: int
    type: Type


def extent_of(expr: Expr, columns: BatchColumns) -> Extent | None:
    """Where the values of an expression lie; None where that is not known, or where a step may leave its type."""
    match expr:
        case Literal(value=int(value), type=type_) if type_.is_integer:
            return Extent(value, value, type_)
        case Column(name=name):
            return _of_column(name, columns)
        case Cast(arg=arg, type=type_):
            below = extent_of(arg, columns)
            return None if below is None else _fitting(below.low, below.high, type_)
        case Call(function=name, args=(x, y)) if name in STEPS:
            a, b = extent_of(x, columns), extent_of(y, columns)
            if a is None or b is None or a.type != b.type:
                return None
            corners = [STEPS[name](i, j) for i in a[:2] for j in b[:2]]
            return _fitting(min(corners), max(corners), a.type)
    return None


def _of_column(name: str, columns: BatchColumns) -> Extent | None:
    type_ = columns.type_of(name)
    if type_ is None or not type_.is_integer:
        return None
    extremes = columns.extremes(name)
    return None if extremes is None else Extent(*extremes, type_)


def _fitting(low: int, high: int, type_: Type) -> Extent | None:
    least, most = BOUNDS[type_.kind] if type_.is_integer else (0, -1)
    return Extent(low, high, type_) if least <= low and high <= most else None


def never_fails(expr: Expr, columns: BatchColumns) -> bool:
    """Whether no value of this batch is bad for the expression."""
    match expr:
        case Column() | Literal():
            return True
        case Call(function=name, args=args) if name in NEVER_FAIL:
            return all(never_fails(arg, columns) for arg in args)
    return extent_of(expr, columns) is not None


class RangeCondition(NamedTuple):
    """A condition that holds where the expression lies in low .. high, or where it does not."""

    expr: Expr
    low: int
    high: int
    inside: bool


def as_difference(condition: Expr, columns: BatchColumns) -> RangeCondition | None:
    """A comparison of two expressions as one of their difference with a constant; None where it is no such thing, or
    where this batch has values for which it might not be the same."""
    match condition:
        case Call(function=op, args=(x, y)) if op in COMPARED and extent_of(x, columns) and extent_of(y, columns):
            (left, more), (right, most) = _without_constant(x), _without_constant(y)
            difference, constant = Call("subtract", (left, right)), most - more
            if extent_of(difference, columns) is None or abs(constant) >= FAR:
                return None
            low = constant + (op == "gt") if op in ("gt", "ge", "eq", "ne") else -FAR * 2
            high = constant - (op == "lt") if op in ("lt", "le", "eq", "ne") else FAR * 2 - 1
            return RangeCondition(difference, low, high, inside=op != "ne")
    return None


def _without_constant(expr: Expr) -> tuple[Expr, int]:
    """The expression without a constant that is added to it or subtracted from it, and this constant."""
    match expr:
        case Call(function="add", args=(x, Literal(value=int(value)))):
            return x, value
        case Call(function="add", args=(Literal(value=int(value)), x)):
            return x, value
        case Call(function="subtract", args=(x, Literal(value=int(value)))):
            return x, -value
    return expr, 0
