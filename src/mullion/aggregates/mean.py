"""avg(x): a sum and a count."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

import numpy as np

from mullion.aggregates.base import Aggregate, Partial
from mullion.aggregates.count import Count
from mullion.aggregates.exact_sums import total_of_doubles
from mullion.aggregates.sum import WIDE, SumOfDecimals, SumOfIntegers, sum_partials
from mullion.expressions.arrays import Array
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
        divisor = np.where(present, counts, 1)
        if isinstance(partial, SumOfDecimals):
            return self._decimal(partial, partial.total(states[0]), counts)
        if isinstance(partial, SumOfIntegers):
            total = partial.as_doubles(states[0])
        else:
            total = total_of_doubles(states)
        with np.errstate(invalid="ignore"):
            return Vector(DOUBLE, total / divisor, present)

    def _decimal(self, partial: SumOfDecimals, total: Vector, counts: Array) -> Vector:
        result = self.result(partial.argument)
        unit, limit = Decimal(1).scaleb(-result.scale), Decimal(10) ** (result.precision - result.scale)
        items = []
        for value, n in zip(total.to_list(), counts.tolist(), strict=True):
            mean = None
            if value is not None and n:
                mean = WIDE.divide(value, Decimal(n)).quantize(unit, ROUND_HALF_UP, WIDE)
            items.append(mean if mean is not None and mean.copy_abs() < limit else None)
        return Vector.of(result, items)


def bounded(precision: int, scale: int) -> Type:
    return decimal(min(precision, 38), min(scale, 38))
