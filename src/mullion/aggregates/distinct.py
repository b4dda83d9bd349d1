"""sum(DISTINCT x) and avg(DISTINCT x): over each value once, however often it occurs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mullion.aggregates.base import Aggregate
from mullion.aggregates.mean import AvgAggregate
from mullion.aggregates.sum import SumAggregate
from mullion.aggregates.values import OverValues, WindowCounts
from mullion.expressions.vector import Vector
from mullion.language.types import Type


@dataclass(frozen=True)
class OfEachValueOnce(OverValues):
    """Another aggregate over the values that occur.

    Each different value is lifted once. The fields of a window's states are the sums of those of the values in it, so
    this is for aggregates whose states are added.
    """

    plain: ClassVar[Aggregate]

    def result(self, argument: Type | None) -> Type:
        return self.plain.result(argument)

    def lower_counts(self, argument: Type, values: Sequence[Vector], counted: WindowCounts) -> Vector:
        states = []
        for partial in self.plain.partials(argument):
            lifted = partial.lift(values[0])
            sums = tuple(counted.present_sums(field) for field in partial.load(lifted))
            states.append(partial.store(sums, lifted))
        return self.plain.lower(argument, states)


@dataclass(frozen=True)
class SumDistinct(OfEachValueOnce):
    name = "sum"
    plain = SumAggregate()


@dataclass(frozen=True)
class AvgDistinct(OfEachValueOnce):
    name = "avg"
    plain = AvgAggregate()
