"""Bounds of the number types, and decimals as Spark computes them."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_DOWN, ROUND_HALF_UP, Context, Decimal

from mullion.language.types import Type

BOUNDS = {
    kind: (-(1 << bits - 1), (1 << bits - 1) - 1)
    for kind, bits in {
        "tinyint": 8, "smallint": 16, "int": 32, "bigint": 64,
        "date": 32, "timestamp": 64, "timestamp_ntz": 64, "interval": 64,
    }.items()
}  # fmt: skip

EXACT = Context(prec=400, rounding=ROUND_HALF_UP, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
SPARK = Context(prec=39, rounding=ROUND_DOWN, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
"""Spark cuts products and quotients to 39 digits before it rounds them to the type of the result."""


def fit_integer(value: int, type_: Type) -> int | None:
    low, high = BOUNDS[type_.kind]
    return value if low <= value <= high else None


def fit_decimal(value: Decimal, type_: Type, rounding: str = ROUND_HALF_UP) -> Decimal | None:
    """The value with the type's digits after the point, or None when it has too many before."""
    if not value.is_finite():
        return None
    if value and value.adjusted() > 40:
        return None
    rounded = value.quantize(Decimal(1).scaleb(-type_.scale), rounding=rounding, context=EXACT)
    if rounded and rounded.adjusted() + 1 + type_.scale > type_.precision:
        return None
    return rounded if rounded else abs(rounded)
