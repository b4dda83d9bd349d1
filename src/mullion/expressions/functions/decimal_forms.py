"""What arithmetic, rounding and casts make of whole columns of decimals.

A form is given for types whose numbers stay within 38 digits on the way; the others, such as products of two decimals
of 30 digits, are computed one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP
from typing import Any

import numpy as np

from mullion.expressions import int128
from mullion.expressions.arrays import Array, Mask
from mullion.expressions.decimals import NARROW_DIGITS, as_stored, fits, is_wide
from mullion.expressions.functions.base import Signature, VectorForm
from mullion.expressions.functions.numbers import BOUNDS
from mullion.expressions.int128 import CEILING, DOWN, FLOOR, HALF_EVEN, HALF_UP, MOST_DIGITS, wide_of, widened
from mullion.language.types import Type, decimal

ROUNDINGS = {ROUND_HALF_UP: HALF_UP, ROUND_HALF_EVEN: HALF_EVEN, ROUND_CEILING: CEILING, ROUND_FLOOR: FLOOR}
SECOND_DIGITS = 6
"""A timestamp is a decimal of seconds with so many digits after the point."""


def rescaled(values: Array, scale: int, target: Type) -> tuple[Array, Mask]:
    """Numbers of a scale as decimals of the target type, rounded half up, and which of them fit it."""
    up = target.scale - scale
    if up < 0:
        rounded = divided(values, -up, HALF_UP)
        return as_stored(rounded, target), fits(rounded, target)
    room = int128.within(values, max(0, target.precision - up))
    return shifted(as_stored(values, target), up), room


def shifted(values: Array, digits: int) -> Array:
    """The numbers times 10^digits, which fit into as many bits."""
    if not digits:
        return values
    if values.dtype != int128.WIDE:
        return values * np.int64(10 ** min(digits, NARROW_DIGITS))
    return int128.multiply(values, wide_of([10 ** min(digits, MOST_DIGITS)]))


def divided(values: Array, digits: int, rounding: int) -> Array:
    """The numbers by 10^digits, rounded. Of more than 38 digits nothing is left."""
    if digits > MOST_DIGITS:
        return np.zeros(len(values), np.int64)
    if digits > NARROW_DIGITS or values.dtype == int128.WIDE:
        return int128.divide(widened(values), wide_of([10**digits]), rounding)
    power = np.int64(10**digits)
    quotient = values // power
    rest = values - quotient * power
    match rounding:
        case int128.HALF_UP:
            up = (2 * rest > power) | ((2 * rest == power) & (values >= 0))
        case int128.HALF_EVEN:
            up = (2 * rest > power) | ((2 * rest == power) & (quotient & 1 == 1))
        case int128.CEILING:
            up = rest > 0
        case int128.FLOOR:
            return quotient
        case _:
            up = (rest > 0) & (values < 0)
    return np.asarray(quotient + up)


def added(sign: int) -> Callable[[Signature], VectorForm | None]:
    """Sums, or differences for the sign -1."""

    def form(signature: Signature) -> VectorForm | None:
        (a, b), result = signature.args, signature.result
        scale = max(a.scale, b.scale)
        digits = max(a.precision - a.scale, b.precision - b.scale) + scale
        if digits > MOST_DIGITS or result.scale != scale:
            return None
        common = decimal(digits, scale)

        def narrow(x: Array, y: Array) -> Any:
            return shifted(x, scale - a.scale) + sign * shifted(y, scale - b.scale)

        def wide(x: Array, y: Array) -> Any:
            x, y = (widened(rescaled(v, t.scale, common)[0]) for v, t in ((x, a), (y, b)))
            total, held = int128.add(x, y if sign > 0 else int128.negative(y))
            return total, held & fits(total, result)

        return wide if is_wide(result) else narrow

    return form


def multiplied(signature: Signature) -> VectorForm | None:
    (a, b), result = signature.args, signature.result
    if a.precision + b.precision >= MOST_DIGITS:
        return None
    if is_wide(result):
        return lambda x, y: int128.multiply(widened(x), widened(y))
    return lambda x, y: x * y


def quotient(signature: Signature) -> VectorForm | None:
    """Spark cuts quotients to 39 digits before it rounds them. What has at most 38 loses nothing by that."""
    (a, b), result = signature.args, signature.result
    up = result.scale - a.scale + b.scale
    if not 0 <= up <= MOST_DIGITS - a.precision or a.precision + up > result.precision:
        return None

    def form(x: Array, y: Array) -> Any:
        quotients = int128.divide(shifted(widened(x), up), widened(y), HALF_UP)
        is_zero = y == np.zeros(1, y.dtype)
        return as_stored(quotients, result), ~is_zero & fits(quotients, result)

    return form


def negated(signature: Signature) -> VectorForm:
    return int128.negative if is_wide(signature.result) else np.negative


def without_sign(signature: Signature) -> VectorForm:
    return int128.absolute if is_wide(signature.result) else np.abs


def rounded(mode: str) -> Callable[[Signature], VectorForm | None]:
    """round and bround to a number of digits that is a constant, ceil and floor."""

    def form(signature: Signature) -> VectorForm | None:
        source, result = signature.args[0], signature.result

        def vector(values: Array, places: Array | None = None) -> Any:
            keep = max(-MOST_DIGITS - 1, min(source.scale, int(places[0]))) if places is not None else 0
            numbers = values
            if keep < source.scale:
                numbers = divided(values, source.scale - keep, ROUNDINGS[mode])
            back = max(0, -keep)
            room = int128.within(numbers, max(0, result.precision - back))
            return shifted(as_stored(numbers, result), back), room

        return vector

    return form


def cast_decimals(values: Array, source: Type, target: Type, dtype: Any) -> tuple[Array, Mask | None] | None:
    """A cast from or to a decimal, and where it fits (None: everywhere); None when there is no such way."""
    if source.kind == "decimal":
        return _from_decimals(values, source, target, dtype)
    if source.kind == "timestamp":
        return rescaled(values, SECOND_DIGITS, target)
    if source.is_integer or source.kind == "boolean":
        return rescaled(values.astype(np.int64, copy=False), 0, target)
    return None


def _from_decimals(values: Array, source: Type, target: Type, dtype: Any) -> tuple[Array, Mask | None] | None:
    if target.kind == "decimal":
        return rescaled(values, source.scale, target)
    if target.kind == "boolean":
        return values != np.zeros(1, values.dtype), None
    if target.is_fractional:
        return int128.to_double(values, source.scale).astype(dtype, copy=False), None
    if not target.is_integer:
        return None
    low, high = BOUNDS[target.kind]
    whole = divided(values, source.scale, DOWN)
    if whole.dtype != int128.WIDE:
        return whole.astype(dtype), (whole >= low) & (whole <= high)
    inside = ~(int128.below(whole, wide_of([low])) | int128.below(wide_of([high]), whole))
    return int128.narrowed(whole).astype(dtype), inside
