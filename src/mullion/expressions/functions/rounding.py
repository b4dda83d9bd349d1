"""round, bround, ceil and floor. Doubles are rounded by their shortest decimal digits, as Spark does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np

from mullion.errors import CheckError
from mullion.expressions.arrays import Array
from mullion.expressions.functions.base import Args, Function, Signature, register
from mullion.expressions.functions.casts import saturate
from mullion.expressions.functions.coercion import MAX_PRECISION, implicit
from mullion.expressions.functions.decimal_forms import rounded
from mullion.expressions.functions.numbers import EXACT, fit_decimal
from mullion.language.query import Call, Cast, Expr, Literal
from mullion.language.types import BIGINT, DOUBLE, INT, NULL, STRING, Type, decimal

EXACT_POWERS = 22
"""Powers of ten that a double holds exactly."""


def places_of(args: Args) -> int:
    """How many digits to keep after the point."""
    if len(args) == 1:
        return 0
    expr = args[1][0]
    while isinstance(expr, Cast):
        expr = expr.arg
    if not isinstance(expr, Literal) or not isinstance(expr.value, int):
        raise CheckError("the number of digits must be a whole number, written as a constant", args[1][0].place)
    return max(-400, min(400, expr.value))


def rounded_types(args: Args) -> Sequence[Type] | None:
    x = args[0][1]
    first = DOUBLE if x in (STRING, NULL) else x if x.is_numeric else None
    if first is None:
        return None
    places_of(args)
    return [first] if len(args) == 1 else [first, INT]


def rounded_result(args: Args) -> Type:
    x = args[0][1]
    if x.kind != "decimal":
        return x
    places, whole = places_of(args), x.precision - x.scale + 1
    if places < 0:
        return decimal(min(max(whole, -places + 1), MAX_PRECISION), 0)
    scale = min(x.scale, places)
    return decimal(min(whole + scale, MAX_PRECISION), scale)


def round_integers(name: str) -> Callable[[Args], Expr | None]:
    """Integers only change when digits before the point go, and may then overflow."""

    def rewrite(args: Args) -> Expr | None:
        x, type_ = args[0]
        if not type_.is_integer:
            return None
        if places_of(args) >= 0:
            return Call("positive", (x,))
        return Cast(Call(name, (Cast(x, decimal(20, 0)), args[1][0])), type_)

    return rewrite


def round_value(value: Any, places: int, mode: str, result: Type) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            return value
        digits = Decimal(str(np.float32(value)) if result.kind == "float" else repr(value))
        return float(digits.quantize(Decimal(1).scaleb(-places), rounding=mode, context=EXACT)) + 0.0
    digits = Decimal(value).quantize(Decimal(1).scaleb(-places), rounding=mode, context=EXACT)
    if result.kind == "decimal":
        return fit_decimal(digits, result)
    return int(digits)


def round_row(mode: str) -> Any:
    def row(signature: Signature, value: Any, places: int = 0) -> Any:
        return round_value(value, max(-400, min(400, places)), mode, signature.result)

    return row


def round_vector(mode: str) -> Any:
    """Scales, rounds and scales back; values so near a tie that scaling may tip them are rounded one by one."""

    def vector(signature: Signature, values: Array, places: Array | None = None) -> Any:
        keep = 0 if places is None else int(places[0])
        factor = 10.0 ** abs(keep) if abs(keep) <= EXACT_POWERS else math.nan
        wide = values.astype(np.float64)
        scaled = wide * factor if keep >= 0 else wide / factor
        nearest = np.rint(scaled)
        result = nearest / factor if keep >= 0 else nearest * factor
        away = np.abs(np.abs(scaled - np.trunc(scaled)) - 0.5)
        sure = (away > 1e-4) & (np.abs(scaled) < 2.0**40) & (result != 0)
        for i in np.flatnonzero(~sure & np.isfinite(wide)):
            result[i] = round_value(float(values[i]), keep, mode, signature.result)
        return np.where(np.isfinite(wide), result, wide)

    return vector


def rounding(name: str, mode: str) -> Function:
    return Function(
        name=name,
        least=1,
        most=2,
        coerce=rounded_types,
        result=rounded_result,
        row=round_row(mode),
        vector=round_vector(mode),
        decimals=rounded(mode),
        rewrite=round_integers(name),
    )


def bounded_types(args: Args) -> Sequence[Type] | None:
    x = args[0][1]
    if x.is_integer:
        return [BIGINT]
    return [x] if x.kind == "decimal" else [DOUBLE] if implicit(x, DOUBLE) else None


def bounded_result(args: Args) -> Type:
    x = args[0][1]
    if x.kind != "decimal":
        return BIGINT
    return x if x.scale == 0 else decimal(min(x.precision - x.scale + 1, MAX_PRECISION), 0)


def bounded(name: str, mode: str, whole: Callable[[Any], Any], aliases: tuple[str, ...] = ()) -> Function:
    """ceil and floor: doubles beyond BIGINT give its bounds and NaN gives 0, as in Spark."""

    def row(signature: Signature, value: Any) -> Any:
        if isinstance(value, Decimal):
            return fit_decimal(value, signature.result, mode)
        return int(saturate(whole(np.full(1, value, np.float64)))[0]) if isinstance(value, float) else value

    return Function(
        name=name,
        aliases=aliases,
        least=1,
        most=1,
        coerce=bounded_types,
        result=bounded_result,
        row=row,
        vector=lambda s, x: saturate(whole(x)) if x.dtype.kind == "f" else x,
        decimals=rounded(mode),
    )


register(
    rounding("round", ROUND_HALF_UP),
    rounding("bround", ROUND_HALF_EVEN),
    bounded("ceil", ROUND_CEILING, np.ceil, ("ceiling",)),
    bounded("floor", ROUND_FLOOR, np.floor),
)
