"""Whether an expression is known never to be negative, from what it is and from what conditions say of it.

abs(x), greatest(x, 0), x * x, 3            by themselves
x                                           where x >= 0, x > 5 or x BETWEEN 0 AND 9 holds
CASE WHEN x > 0 THEN x END                  its branches, each under its condition
"""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal

from mullion.algebra.column_names import conjuncts
from mullion.language.query import Call, Case, Cast, Expr, Literal

_OF_ANY = ("abs", "sqrt", "length")
_OF_ALL = ("add", "multiply", "divide", "least", "coalesce", "round", "floor", "ceil", "mod")


def never_negative(expr: Expr, *conditions: Expr | None) -> bool:
    """Where all of the conditions are true. NULL is no number, and so not negative."""
    return _is_known(expr, {known for when in conditions if when is not None for known in _conditions(when)})


def _conditions(condition: Expr) -> set[Expr]:
    """What is not negative where a condition is true."""
    return {known for known in map(_not_negative_by, conjuncts(condition)) if known is not None}


def _not_negative_by(condition: Expr) -> Expr | None:
    """What a comparison says of: x >= 0, 5 < x."""
    match condition:
        case Call(function="ge" | "gt", args=(expr, bound)) | Call(function="le" | "lt", args=(bound, expr)):
            return expr if _is_known(bound, ()) else None
        case Call(function="eq", args=(expr, Literal() as bound)):
            return expr if _is_known(bound, ()) else None
        case _:
            return None


def _is_known(expr: Expr, known: Collection[Expr]) -> bool:
    if expr in known:
        return True
    match expr:
        case Literal(value=value):
            is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
            return value is None or (is_number and value >= 0)
        case Cast(arg=inner):
            return _is_known(inner, known)
        case Call(function=name) if name in _OF_ANY:
            return True
        case Call(function="multiply", args=(left, right)) if left == right:
            return True
        case Call(function="greatest", args=args):
            return any(_is_known(arg, known) and not _is_null(arg) for arg in args)
        case Call(function=name, args=args) if name in _OF_ALL:
            return all(_is_known(arg, known) for arg in args)
        case Case(branches=branches, otherwise=otherwise):
            told = [(value, _conditions(when)) for when, value in branches]
            under = all(_is_known(value, {*known, *more}) for value, more in told)
            return under and (otherwise is None or _is_known(otherwise, known))
        case _:
            return False


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None
