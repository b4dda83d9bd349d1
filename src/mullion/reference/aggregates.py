"""One aggregate of the values of one group, from its definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from itertools import accumulate
from typing import Any

from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.language.types import Type

EXACT = Context(prec=200)
ValuesWithCounts = list[tuple[Any, int]]


def aggregate(bound: BoundAggregate, values: Sequence[Any], instant: int | None = None) -> Any:
    """The answer over values in the order of their events, NULLs among them, perhaps as it is at an instant."""
    constants = [getattr(bound.aggregate, field.name) for field in fields(bound.aggregate)]
    if bound.function in ("first", "last"):
        (ignores_nulls,) = constants
        values = [value for value in values if value is not None or not ignores_nulls]
        return None if not values else values[0 if bound.function == "first" else -1]
    if bound.function in ("decayed_sum", "decayed_until", "decayed_now"):
        return _decayed(bound.function, [(x, t) for x, t in values if x is not None], constants[0], instant)
    known = [value for value in values if value is not None]
    if bound.distinct:
        known = [value for value, _ in counted(known)]
    match bound.function:
        case "count":
            return len(known)
        case "approx_count_distinct":
            return len(counted(known))
        case "approx_frequency":
            return sum(
                count for value, count in counted(known) if sort_key(value) == sort_key(canonical_value(constants[0]))
            )
        case "top_k":
            return most_frequent(known)[: constants[0]]
        case "frequent":
            return [(value, count) for value, count in most_frequent(known) if count >= constants[0] * len(known)]
    if not known:
        return None
    match bound.function:
        case "min":
            return counted(known)[0][0]
        case "max":
            return counted(known)[-1][0]
        case "mode":
            return most_frequent(known)[0][0]
        case "percentile" | "median":
            return _percentile(known, constants[0])
        case "weighted_percentile":
            return _weighted_percentile(known, *constants)
        case "squared_totals" | "largest_squared_total":
            totals: dict[Any, float] = {}
            for places in known:
                for owner, x in zip(places[::2], places[1::2], strict=True):
                    totals[owner] = totals.get(owner, 0.0) + x
            squares = [total**2 for total in totals.values()]
            return sum(squares) if bound.function == "squared_totals" else max(squares)
        case "approx_percentile":
            return _percentile_among(known, constants[0])
        case "sum":
            return _fitting(_sum(known), bound.result)
        case "avg":
            total = _sum(known)
            return None if _overflows(total, bound.argument_type) else _fitting(_divided(total, known), bound.result)
        case _:
            return _spread(bound.function, known)


def _decayed(function: str, known: Sequence[tuple[float, int]], half_life: int, instant: int | None) -> Any:
    if not known:
        return None
    newest = max(time for _, time in known) if instant is None else instant
    if function == "decayed_until":
        return newest
    aged = [x * 2.0 ** ((time - newest) / half_life) if math.isfinite(x) else x for x, time in known]
    return math.fsum(aged) if all(map(math.isfinite, aged)) else sum(aged)


def canonical_value(value: Any) -> Any:
    """All NaNs are one value, and so are -0.0 and 0.0."""
    if isinstance(value, tuple):
        return tuple(map(canonical_value, value))
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    return value


def sort_key(value: Any, *, nulls_low: bool = True) -> tuple[Any, ...]:
    """NaN is larger than any number; NULL is below or above everything."""
    if value is None:
        return (0 if nulls_low else 2,)
    if isinstance(value, tuple):
        return (1, *map(sort_key, value))
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    return (1, value)


def counted(values: Sequence[Any]) -> ValuesWithCounts:
    """Each value once with how often it occurs, the smallest first."""
    counts: dict[Any, int] = {}
    for value in map(canonical_value, values):
        counts[value] = counts.get(value, 0) + 1
    return sorted(counts.items(), key=lambda pair: sort_key(pair[0]))


def most_frequent(values: Sequence[Any]) -> ValuesWithCounts:
    """Of equally frequent values the smaller first."""
    return sorted(counted(values), key=lambda pair: -pair[1])


def _in_order(values: Sequence[Any]) -> list[Any]:
    return sorted(map(canonical_value, values), key=sort_key)


def _percentile(values: Sequence[Any], share: float) -> float:
    """Between the two values next to the position, as far from the lower one as the position says."""
    ordered = _in_order(values)
    position = share * (len(ordered) - 1)
    lower, higher = math.floor(position), math.ceil(position)
    if sort_key(ordered[lower]) == sort_key(ordered[higher]):
        return float(ordered[lower])
    low, high = float(ordered[lower]), float(ordered[higher])
    return low + (position - lower) * (high - low)


def _weighted_percentile(pairs: Sequence[tuple[Any, float]], share: float, interpolates: bool) -> Any:
    """As if every value were there as often as it weighs: value k takes the places from what is before it on."""
    ordered = sorted(pairs, key=lambda pair: sort_key(canonical_value(pair[0])))
    reach = list(accumulate(weight for _, weight in ordered))
    if not interpolates:
        return next((x for (x, _), end in zip(ordered, reach, strict=True) if end >= share * reach[-1]), ordered[-1][0])

    def at(place: float) -> float:
        return float(next((x for (x, _), end in zip(ordered, reach, strict=True) if end > place), ordered[-1][0]))

    position = max(0.0, share * (reach[-1] - 1))
    low, high = at(math.floor(position)), at(math.ceil(position))
    return low if sort_key(low) == sort_key(high) else low + (position - math.floor(position)) * (high - low)


def _percentile_among(values: Sequence[Any], share: float) -> Any:
    """The smallest value that at least the share of all values does not exceed."""
    ordered = _in_order(values)
    return next(value for rank, value in enumerate(ordered, 1) if rank >= share * len(ordered))


def _spread(function: str, values: Sequence[Any]) -> float | None:
    assert function in ("var_pop", "var_samp", "stddev_pop", "stddev_samp"), function
    numbers = [float(value) for value in values]
    mean = _sum(numbers) / len(numbers)
    divisor = len(numbers) - 1 if function.endswith("samp") else len(numbers)
    if not divisor:
        return None
    spread: float = _sum([(number - mean) * (number - mean) for number in numbers]) / divisor
    return math.sqrt(spread) if function.startswith("stddev") else spread


def _sum(values: Sequence[Any]) -> Any:
    """Whole numbers and decimals exactly, doubles with one rounding."""
    if isinstance(values[0], Decimal):
        return sum((Fraction(v) for v in values), Fraction(0))
    if isinstance(values[0], float) and all(map(math.isfinite, values)):
        try:
            return math.fsum(values)
        except OverflowError:
            return sum(values)
    return sum(values)


def _divided(total: Any, values: Sequence[Any]) -> Any:
    return total / len(values) if isinstance(total, float) else Fraction(total) / len(values)


def _overflows(total: Any, argument: Type | None) -> bool:
    """Whether the sum behind an average of decimals leaves its type, which makes the average NULL."""
    if argument is None or argument.kind != "decimal":
        return False
    return bool(abs(total) >= 10 ** (min(38, argument.precision + 10) - argument.scale))


def _fitting(value: Any, type_: Type) -> Any:
    """The value in the type of the answer, or None when it does not fit."""
    if type_.kind == "decimal":
        exact = EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))
        rounded = exact.quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP, EXACT)
        return rounded if rounded.copy_abs() < 10 ** (type_.precision - type_.scale) else None
    if type_.kind == "bigint":
        return value if -(2**63) <= value < 2**63 else None
    return float(value)
