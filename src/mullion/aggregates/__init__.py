"""What queries may compute over a window. `REGISTRY` holds every aggregate by its name."""

from __future__ import annotations

from mullion.aggregates.base import Aggregate, Invertible, Partial, State
from mullion.aggregates.count import CountAggregate
from mullion.aggregates.extremes import MaxAggregate, MinAggregate
from mullion.aggregates.mean import AvgAggregate
from mullion.aggregates.spread import StddevPopAggregate, StddevSampAggregate, VarPopAggregate, VarSampAggregate
from mullion.aggregates.sum import SumAggregate

REGISTRY: dict[str, Aggregate] = {
    aggregate.name: aggregate
    for aggregate in (
        CountAggregate(),
        SumAggregate(),
        AvgAggregate(),
        MinAggregate(),
        MaxAggregate(),
        VarPopAggregate(),
        VarSampAggregate(),
        StddevPopAggregate(),
        StddevSampAggregate(),
    )
}

__all__ = ["REGISTRY", "Aggregate", "Invertible", "Partial", "State"]
