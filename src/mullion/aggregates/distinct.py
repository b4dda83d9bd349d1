"""sum(DISTINCT x) and avg(DISTINCT x): over each value once, however often it occurs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mullion.aggregates.base import Aggregate
from mullion.aggregates.mean import AvgAggregate
from mullion.aggregates.sum import SumAggregate
from mullion.aggregates.values import OverValues
from mullion.language.types import Type


@dataclass(frozen=True)
class OfEachValueOnce(OverValues):
    """Another aggregate over the values that occur."""

    plain: ClassVar[Aggregate]

    def result(self, argument: Type | None) -> Type:
        return self.plain.result(argument)


@dataclass(frozen=True)
class SumDistinct(OfEachValueOnce):
    name = "sum"
    plain = SumAggregate()


@dataclass(frozen=True)
class AvgDistinct(OfEachValueOnce):
    name = "avg"
    plain = AvgAggregate()
