"""One object for all expressions that are equal.

What a standing query keeps is passed through `shared`: a thousand queries over `price * volume` hold it once, dicts
find it by identity, and none of them keeps places or the text that these are in.
"""

from __future__ import annotations

from mullion.expressions.pool import Pool
from mullion.language.query import AggregateCall, Call, Case, Cast, Column, Exists, Expr, Literal

_SHARED: Pool[Expr] = Pool()


def shared(expr: Expr) -> Expr:
    """The object that stands for all expressions equal to this one. It has no place."""
    known = _SHARED.find(expr)
    return _SHARED.add(_without_place(expr)) if known is None else known


def _without_place(expr: Expr) -> Expr:
    match expr:
        case Call(args=args):
            return Call(expr.function, _all(args))
        case Column():
            return Column(expr.name, expr.table)
        case Literal():
            return Literal(expr.value, expr.type)
        case Cast(arg=arg):
            return Cast(_part(arg), expr.type)
        case Case(branches=branches, otherwise=otherwise):
            parts = tuple((_part(condition), _part(value)) for condition, value in branches)
            return Case(parts, None if otherwise is None else _part(otherwise))
        case AggregateCall(args=args, where=where):
            return AggregateCall(expr.function, _all(args), expr.distinct, None if where is None else _part(where))
        case Exists():
            return Exists(expr.query)


def _all(expressions: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return tuple([_part(expr) for expr in expressions])


def _part(expr: Expr) -> Expr:
    """A constant is smaller than its entry among the shared would be."""
    return _without_place(expr) if isinstance(expr, Literal) else shared(expr)
