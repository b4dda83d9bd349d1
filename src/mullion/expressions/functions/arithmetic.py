"""+ - * and signs: integers never wrap around, decimals keep Spark's digits, dates move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from mullion.expressions.arrays import Array
from mullion.expressions.functions.base import Args, Function, Plain, Signature, first_of, register
from mullion.expressions.functions.calendar import DAY
from mullion.expressions.functions.coercion import MAX_PRECISION, literal_decimal, numeric
from mullion.expressions.functions.decimal_forms import added, multiplied, negated, without_sign
from mullion.expressions.functions.numbers import BOUNDS, EXACT, SPARK, fit_decimal, fit_integer
from mullion.language.query import Call, Cast, Expr, Literal
from mullion.language.types import BIGINT, DATE, DOUBLE, INT, INTERVAL, NULL, STRING, TIMESTAMP, Type, decimal

STAMPS = ("timestamp", "timestamp_ntz")
LONG_MIN = -(1 << 63)


def decimal_type(operator: str, a: Type, b: Type) -> Type:
    """Digits of the result; when there would be more than 38, whole digits are kept and at least 6 after the point."""
    scale = max(a.scale, b.scale)
    whole_a, whole_b = a.precision - a.scale, b.precision - b.scale
    match operator:
        case "multiply":
            scale = a.scale + b.scale
            precision = a.precision + b.precision + 1
        case "divide":
            scale = max(6, a.scale + b.precision + 1)
            precision = whole_a + b.scale + scale
        case "mod" | "pmod":
            precision = min(whole_a, whole_b) + scale
        case _:
            precision = max(whole_a, whole_b) + scale + 1
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    return decimal(MAX_PRECISION, max(MAX_PRECISION - (precision - scale), min(scale, 6)))


def number(type_: Type) -> Type | None:
    """A string in arithmetic is a double; a bare NULL may be any number."""
    if type_ == STRING:
        return DOUBLE
    return type_ if type_.is_numeric or type_ == NULL else None


def two_numbers(operator: str) -> Callable[[Args], Sequence[Type] | None]:
    def coerce(args: Args) -> Sequence[Type] | None:
        (x, of_x), (y, of_y) = args
        if of_x == of_y == INTERVAL and operator in ("add", "subtract"):
            return of_x, of_y
        if of_x.kind in STAMPS and of_y == INTERVAL and operator in ("add", "subtract"):
            return of_x, of_y
        if operator == "subtract" and (of_x == of_y == DATE or (of_x.kind in STAMPS and of_x == of_y)):
            return of_x, of_y
        if operator == "multiply" and of_x == INTERVAL and of_y.is_integer:
            return INTERVAL, BIGINT
        a, b = number(of_x), number(of_y)
        if a is None or b is None:
            return None
        if a == NULL or b == NULL:
            a = b = a if b == NULL != a else DOUBLE if a == b or operator == "divide" else b
        if operator == "div" and (a.is_fractional or b.is_fractional):
            return None
        if "decimal" in (a.kind, b.kind) and not (a.is_fractional or b.is_fractional):
            return literal_decimal(x, a), literal_decimal(y, b)
        if operator == "divide":
            return DOUBLE, DOUBLE
        if operator == "div":
            return BIGINT, BIGINT
        met = numeric(a, b)
        return met, met

    return coerce


def two_numbers_result(operator: str) -> Callable[[Args], Type]:
    def result(args: Args) -> Type:
        a, b = args[0][1], args[1][1]
        if a.kind == "decimal":
            return decimal_type(operator, a, b)
        return INTERVAL if operator == "subtract" and a == b and a.kind in ("date", *STAMPS) else a

    return result


def move_dates(operator: str) -> Callable[[Args], Expr | None]:
    """Arithmetic on dates, written out as what Spark makes of it."""

    def rewrite(args: Args) -> Expr | None:
        (x, a), (y, b) = args
        if b == INTERVAL and operator == "multiply" and a.is_integer:
            return Call(operator, (y, x))
        if a == INTERVAL and operator == "add" and b.kind in ("date", *STAMPS):
            return Call(operator, (y, x))
        if operator == "multiply":
            return None
        if operator == "add" and b == DATE and a.is_integer:
            x, a, y, b = y, b, x, a
        if a == DATE and b.is_integer and b != BIGINT:
            return Call("date_add" if operator == "add" else "date_sub", (x, y))
        if a == DATE and b == INTERVAL:
            if isinstance(y, Literal) and y.value is not None and y.value % DAY == 0:
                days = Literal(y.value // DAY, INT, place=y.place)
                return Call("date_add" if operator == "add" else "date_sub", (x, days))
            return Call(operator, (Cast(x, TIMESTAMP), y))
        if operator == "subtract" and a != b and {a.kind, b.kind} <= {"date", "timestamp"}:
            return Call(operator, (Cast(x, TIMESTAMP), Cast(y, TIMESTAMP)))
        return None

    return rewrite


def exact_row(on_integers: Callable[[Any, Any], Any], on_decimals: Callable[[Decimal, Decimal], Decimal]) -> Any:
    def row(signature: Signature, x: Any, y: Any) -> Any:
        kind = signature.result.kind
        if kind in ("float", "double"):
            return on_integers(x, y)
        if kind == "decimal":
            return fit_decimal(on_decimals(x, y), signature.result)
        if kind == "interval" and signature.args[0] == DATE:
            return fit_integer((x - y) * DAY, INTERVAL)
        return fit_integer(on_integers(x, y), signature.result)

    return row


def exact_vector(operate: Callable[[Any, Any], Any], overflow: Callable[[Array, Array, Array], Array]) -> Any:
    """Narrow integers are computed in 64 bits and compared with their bounds; 64 bits have an overflow test."""

    def vector(signature: Signature, x: Array, y: Array) -> Any:
        kind = signature.result.kind
        if kind in ("float", "double"):
            return operate(x, y)
        x, y = x.astype(np.int64, copy=False), y.astype(np.int64, copy=False)
        if kind == "interval" and signature.args[0] == DATE:
            days = x - y
            return days * DAY, np.abs(days) <= ((1 << 63) - 1) // DAY
        wide = operate(x, y)
        low, high = BOUNDS[kind]
        if _stays_below(operate, x, y, high):
            return wide, np.ones(1, np.bool_)
        if low == LONG_MIN:
            return wide, ~overflow(x, y, wide)
        return wide, (wide >= low) & (wide <= high)

    return vector


def _stays_below(operate: Callable[[Any, Any], Any], x: Array, y: Array, bound: int) -> bool:
    """Whether no value of any of these numbers can leave the bound, from their largest alone: then none is checked."""
    if not len(x) or not len(y):
        return False
    a, b = (max(abs(int(side.min())), abs(int(side.max()))) for side in (x, y))
    return bool(max(abs(operate(a, b)), abs(operate(a, -b))) <= bound)


def product_overflows(x: Array, y: Array, wide: Array) -> Array:
    """The float product tells, except within its rounding of the bound, where Python's integers decide."""
    near = np.abs(x.astype(np.float64) * y.astype(np.float64))
    over = near > 9.3e18
    doubtful = np.flatnonzero((near >= 9.2e18) & ~over)
    if len(doubtful):
        xs, ys = np.broadcast_to(x, wide.shape), np.broadcast_to(y, wide.shape)
        for i in doubtful:
            over[i] = not LONG_MIN <= int(xs[i]) * int(ys[i]) < -LONG_MIN
    return np.asarray(over)


def overflows_unless_double(signature: Signature) -> bool:
    return not signature.result.is_fractional


def exact(name: str, on_integers: Any, on_decimals: Any, overflow: Any, of_columns: Any) -> Function:
    return Function(
        name=name,
        aliases=(f"try_{name}",),
        least=2,
        most=2,
        coerce=two_numbers(name),
        result=two_numbers_result(name),
        text=f"try_{name}({{0}}, {{1}})",
        row=exact_row(on_integers, on_decimals),
        vector=exact_vector(on_integers, overflow),
        decimals=of_columns,
        fallible=overflows_unless_double,
        rewrite=move_dates(name),
    )


def one_number(args: Args) -> Sequence[Type] | None:
    type_ = DOUBLE if args[0][1] == NULL else args[0][1] if args[0][1] == INTERVAL else number(args[0][1])
    return None if type_ is None else [type_]


def negate_integers(args: Args) -> Expr | None:
    """0 - x, which is NULL where -x would wrap around; not for doubles, where 0 has two signs."""
    x, type_ = args[0]
    if isinstance(x, Literal) and x.value is not None and (type_.is_numeric or type_ == INTERVAL):
        return replace(x, value=-x.value) if x.value or type_.is_fractional else x
    if type_.is_integer or type_ == INTERVAL:
        return Call("subtract", (Literal(0, type_), x))
    return None


def itself(args: Args) -> Expr | None:
    """+x is x, as a number."""
    x, type_ = args[0]
    return x if type_.is_numeric else Cast(x, DOUBLE) if type_ == STRING else None


def absolute_integers(args: Args) -> Expr | None:
    x, type_ = args[0]
    if type_.is_integer or type_ == INTERVAL:
        return Call("abs$checked", (x, Literal(BOUNDS[type_.kind][0], type_)))
    return None


def one_type(args: Args) -> Sequence[Type] | None:
    return [args[0][1]] * 2 if args[0][1] == args[1][1] and args[0][1].kind in BOUNDS else None


def checked_abs(signature: Signature, x: Array, lowest: Array) -> Any:
    return np.abs(x), x != np.iinfo(x.dtype).min


register(
    exact("add", lambda x, y: x + y, EXACT.add, lambda x, y, r: ((x ^ r) & (y ^ r)) < 0, added(1)),
    exact("subtract", lambda x, y: x - y, EXACT.subtract, lambda x, y, r: ((x ^ y) & (x ^ r)) < 0, added(-1)),
    exact("multiply", lambda x, y: x * y, SPARK.multiply, product_overflows, multiplied),
    Function(
        name="negative",
        least=1,
        most=1,
        coerce=one_number,
        result=first_of,
        text="(- {0})",
        row=lambda s, x: EXACT.minus(x) if isinstance(x, Decimal) else -x,
        vector=Plain(np.negative),
        decimals=negated,
        rewrite=negate_integers,
    ),
    Function(
        name="positive", least=1, most=1, coerce=one_number, result=first_of, text="{0}",
        rewrite=itself,
        row=Plain(lambda x: x), vector=Plain(lambda x: x), decimals=True,
    ),
    Function(
        name="abs",
        least=1,
        most=1,
        coerce=one_number,
        result=first_of,
        row=lambda s, x: EXACT.abs(x) if isinstance(x, Decimal) else abs(x),
        vector=Plain(np.abs),
        decimals=without_sign,
        rewrite=absolute_integers,
    ),
    Function(
        name="abs$checked",
        least=2,
        most=2,
        coerce=one_type,
        result=first_of,
        text="nullif(abs({0}), {1})",
        row=lambda s, x, lowest: fit_integer(abs(x), s.result),
        vector=checked_abs,
        fallible=True,
    ),
)  # fmt: skip
