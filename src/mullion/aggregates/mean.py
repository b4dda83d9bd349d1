"""avg(x): a sum and a count."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

import numpy as np

from mullion.aggregates.base import Aggregate, Array, Partial
from mullion.aggregates.count import Count
from mullion.aggregates.sum import WIDE, SumOfDecimals, SumOfIntegers, sum_partial
from mullion.language.types import DOUBLE, Type, decimal
from mullion.language.vector import Vector


class AvgAggregate(Aggregate):
    name = "avg"

    def result(self, argument: Type | None) -> Type:
        partial = sum_partial(argument)
        if isinstance(partial, SumOfDecimals):
            return bounded(partial.argument.precision + 4, partial.argument.scale + 4)
        return DOUBLE

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        partial = sum_partial(argument)
        return partial, Count(partial.argument)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        partial, counts = sum_partial(argument), states[1][0].values
        present = counts > 0
        divisor = np.where(present, counts, 1)
        if isinstance(partial, SumOfDecimals):
            return self._decimal(partial, states[0][0], counts)
        if isinstance(partial, SumOfIntegers):
            fields = [s.values.astype(np.float64) for s in states[0]]
            total = fields[0] * 2.0**32 + fields[1] if len(fields) == 2 else fields[0]
        else:
            total = states[0][0].values
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
            items.append(mean if mean is not None and abs(mean) < limit else None)
        return Vector.of(result, items)


def bounded(precision: int, scale: int) -> Type:
    return decimal(min(precision, 38), min(scale, 38))
