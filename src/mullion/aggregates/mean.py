"""avg(x): a sum and a count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mullion.aggregates.base import Aggregate, Partial
from mullion.aggregates.count import Count
from mullion.aggregates.exact_sums import total_of_doubles
from mullion.aggregates.sum import SumOfDecimals, SumOfIntegers, sum_partials
from mullion.expressions.arrays import Array
from mullion.expressions.decimals import as_stored
from mullion.expressions.functions.decimal_forms import shifted
from mullion.expressions.int128 import HALF_UP, MOST_DIGITS, divide, integers_of, wide_of, widened, within
from mullion.expressions.vector import Vector
from mullion.language.types import DOUBLE, Type, decimal


class AvgAggregate(Aggregate):
    name = "avg"

    def result(self, argument: Type | None) -> Type:
        partial = sum_partials(argument)[0]
        if isinstance(partial, SumOfDecimals):
            return bounded(partial.argument.precision + 4, partial.argument.scale + 4)
        return DOUBLE

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        partials = sum_partials(argument)
        return *partials, Count(partials[0].argument)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        partial, counts = sum_partials(argument)[0], states[-1][0].values
        present = counts > 0
        divisor = counts if present.all() else np.where(present, counts, 1)
        if isinstance(partial, SumOfDecimals):
            return self._decimal(partial, partial.total(states[0]), counts)
        if isinstance(partial, SumOfIntegers):
            total = partial.as_doubles(states[0])
        else:
            total = total_of_doubles(states)
        with np.errstate(invalid="ignore"):
            return Vector(DOUBLE, total / divisor, present)

    def _decimal(self, partial: SumOfDecimals, total: Vector, counts: Array) -> Vector:
        """The sums carry four digits less than the result; those that have no room for them go one by one."""
        result = self.result(partial.argument)
        up = result.scale - total.type.scale
        short = within(total.values, MOST_DIGITS - up)
        quotients = divide(shifted(widened(total.values), up), widened(counts), HALF_UP)
        for i in np.flatnonzero(~short & total.valid & (counts > 0)):
            (whole,) = integers_of(total.values[i : i + 1])
            mean = rounded_quotient(whole * 10**up, int(counts[i]))
            short[i] = abs(mean) < 10**MOST_DIGITS
            quotients[i] = wide_of([mean])[0] if short[i] else 0
        fits = short & within(quotients, result.precision)
        return Vector(result, as_stored(quotients, result), total.valid & (counts > 0) & fits)


def rounded_quotient(whole: int, count: int) -> int:
    """Half up, away from zero.

    >>> rounded_quotient(-5, 2), rounded_quotient(7, 3)
    (-3, 2)
    """
    size = (2 * abs(whole) + count) // (2 * count)
    return size if whole >= 0 else -size


def bounded(precision: int, scale: int) -> Type:
    return decimal(min(precision, 38), min(scale, 38))
