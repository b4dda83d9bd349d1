"""CAST: which types go to which, and what becomes of a value. What does not fit becomes NULL."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from mullion.expressions.functions.calendar import DAY
from mullion.expressions.functions.coercion import DIGITS
from mullion.expressions.functions.decimal_forms import cast_decimals
from mullion.expressions.functions.formatting import format_date, format_double, format_interval, format_timestamp
from mullion.expressions.functions.numbers import BOUNDS, EXACT, fit_decimal, fit_integer
from mullion.expressions.functions.parsing import (
    parse_boolean,
    parse_date,
    parse_decimal,
    parse_double,
    parse_timestamp,
)
from mullion.language.types import Type

STAMPS = ("timestamp", "timestamp_ntz")
SECOND = 1_000_000


def castable(source: Type, target: Type) -> bool:
    a, b = source.kind, target.kind
    if a == b or a == "void" or (b == "string"):
        return True
    if a == "string":
        return b not in ("interval", "void")
    if a == "date" or a in STAMPS:
        return b in ("date", *STAMPS) or (a == "timestamp" and target.is_numeric)
    if a == "boolean":
        return target.is_numeric
    if source.is_numeric:
        return target.is_numeric or b in ("boolean", "timestamp")
    return False


def cast_may_fail(source: Type, target: Type) -> bool:
    """Whether some value of the source type does not fit the target type."""
    a, b = source.kind, target.kind
    if a == b != "decimal" or a == "void" or b in ("string", "boolean", "binary"):
        return a == "string" and b == "boolean"
    if a == "string":
        return True
    if target.is_fractional:
        return False
    if source.is_integer and target.is_integer:
        return BOUNDS[b][1] < BOUNDS[a][1]
    if b == "decimal":
        if a == "boolean":
            return target.precision - target.scale < 1
        if source.is_integer:
            return target.precision - target.scale < min(DIGITS[a], 19)
        if a == "decimal":
            return target.precision - target.scale < source.precision - source.scale + (target.scale < source.scale)
        return True
    if a == "timestamp" and b == "bigint":
        return False
    return not (a == "boolean" or (a in STAMPS and b in (*STAMPS, "date")))


def whole(value: float, target: Type) -> int | None:
    """The number without its fraction; NULL when even that is out of range."""
    if math.isnan(value) or math.isinf(value):
        return None
    low, high = BOUNDS[target.kind]
    if math.floor(value) <= float(high) and math.ceil(value) >= float(low):
        return max(low, min(high, int(value)))
    return None


def to_decimal(target: Type, source: Type) -> Callable[[Any], Decimal | None]:
    def cast(value: Any) -> Decimal | None:
        if isinstance(value, float):
            if not math.isfinite(value):
                return None
            return fit_decimal(Decimal(repr(value)), target)
        return fit_decimal(Decimal(value), target)

    if source.kind == "timestamp":
        return lambda v: fit_decimal(EXACT.divide(Decimal(v), Decimal(SECOND)), target)
    return cast


def to_timestamp(source: Type) -> Callable[[Any], int | None]:
    big = Type("bigint")

    def from_double(value: float) -> int | None:
        return whole(value * SECOND, big) if math.isfinite(value) else None

    if source.is_fractional:
        return from_double
    return lambda v: max(-(1 << 63), min((1 << 63) - 1, v * SECOND))


def to_string(source: Type) -> Callable[[Any], str | None]:
    match source.kind:
        case "boolean":
            return lambda v: "true" if v else "false"
        case "float":
            return lambda v: format_double(v, single=True)
        case "double":
            return format_double
        case "date":
            return format_date
        case "timestamp" | "timestamp_ntz":
            return format_timestamp
        case "interval":
            return format_interval
        case "binary":
            return lambda v: v.decode("utf-8", "replace")
    return str


def from_string(target: Type) -> Callable[[Any], Any]:
    match target.kind:
        case "boolean":
            return parse_boolean
        case "float" | "double":
            return parse_double
        case "decimal":
            return lambda v: parse_decimal(v, target)
        case "date":
            return parse_date
        case "timestamp":
            return parse_timestamp
        case "timestamp_ntz":
            return lambda v: parse_timestamp(v, zoned=False)
    return lambda v: v.encode()


def cast_row(source: Type, target: Type) -> Callable[[Any], Any]:
    """The meaning of the cast on one value that is not NULL."""
    a, b = source.kind, target.kind
    if source == target or a == "void":
        return lambda v: v
    if b == "string":
        return to_string(source)
    if a == "string":
        return from_string(target)
    if b == "decimal":
        return to_decimal(target, source)
    if b == "boolean":
        return lambda v: v != 0
    if b == "date":
        return lambda v: v // DAY
    if b in STAMPS and a == "date":
        return lambda v: fit_integer(v * DAY, target)
    if b in STAMPS and a in STAMPS:
        return lambda v: v
    if b == "timestamp":
        return to_timestamp(source)
    if a == "timestamp":
        if target.is_fractional:
            return lambda v: v / SECOND
        return lambda v: fit_integer(v // SECOND, target)
    if target.is_fractional:
        return float
    if source.is_fractional:
        return lambda v: whole(v, target)
    return lambda v: fit_integer(int(v), target)


CastValues = tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]


def cast_vector(values: npt.NDArray[Any], source: Type, target: Type, dtype: Any) -> CastValues | None:
    """The cast on a whole array, with where it fits (None: everywhere); None when there is no such way."""
    a, b = source.kind, target.kind
    if source == target:
        return values, None
    if "string" in (a, b) or "binary" in (a, b) or a == "void":
        return None
    if "decimal" in (a, b):
        return cast_decimals(values, source, target, dtype)
    if b == "boolean":
        return values != 0, None
    if b == "date":
        return (values // DAY).astype(dtype), None
    if b in STAMPS and a in STAMPS:
        return values, None
    if b in STAMPS:
        if a != "date":
            return None
        limit = ((1 << 63) - 1) // DAY
        return values.astype(np.int64) * DAY, np.abs(values.astype(np.int64)) <= limit
    if a == "timestamp":
        if target.is_fractional:
            return (values / SECOND).astype(dtype), None
        values, a = values // SECOND, "bigint"
    if target.is_fractional or a == "boolean":
        return values.astype(dtype), None
    low, high = BOUNDS[b]
    if a in ("float", "double"):
        double = values.astype(np.float64)
        fits = (np.floor(double) <= float(high)) & (np.ceil(double) >= float(low))
        inside = np.clip(np.where(fits, double, 0.0), float(low), float(high))
        whole_numbers = np.trunc(inside).astype(np.int64) if b != "bigint" else saturate(inside)
        return np.clip(whole_numbers, low, high).astype(dtype), fits
    if BOUNDS[a][1] <= high:
        return values.astype(dtype), None
    return values.astype(dtype), (values >= low) & (values <= high)


def saturate(double: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """float64 to int64 as Java does it: NaN is 0, and what is too large becomes the largest."""
    top = double >= 2.0**63
    inside = np.where(top | (double < -(2.0**63)) | np.isnan(double), 0.0, double).astype(np.int64)
    bounds = np.iinfo(np.int64)
    return np.where(top, bounds.max, np.where(double < -(2.0**63), bounds.min, inside))
