"""What queries may compute over a window. `REGISTRY` holds every aggregate by its name."""

from __future__ import annotations

from mullion.aggregates.approx_distinct import ApproxCountDistinct
from mullion.aggregates.approx_frequency import ApproxFrequency
from mullion.aggregates.approx_percentile import ApproxPercentile
from mullion.aggregates.base import Aggregate, Invertible, Partial, State
from mullion.aggregates.count import CountAggregate
from mullion.aggregates.decay import DecayedNow, DecayedSum, DecayedUntil
from mullion.aggregates.distinct import AvgDistinct, SumDistinct
from mullion.aggregates.extremes import MaxAggregate, MinAggregate
from mullion.aggregates.first_last import FirstAggregate, LastAggregate
from mullion.aggregates.frequent import Frequent
from mullion.aggregates.mean import AvgAggregate
from mullion.aggregates.spread import StddevPopAggregate, StddevSampAggregate, VarPopAggregate, VarSampAggregate
from mullion.aggregates.sum import SumAggregate
from mullion.aggregates.values import CountDistinct, Median, Mode, Percentile, TopK
from mullion.aggregates.weighted import LargestSquaredTotal, SquaredTotals, WeightedPercentile

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
        Median(),
        Percentile(),
        Mode(),
        TopK(),
        ApproxCountDistinct(),
        ApproxPercentile(),
        ApproxFrequency(),
        Frequent(),
        FirstAggregate(),
        LastAggregate(),
        DecayedSum(),
        DecayedUntil(),
        DecayedNow(),
    )
}

INTERNAL: dict[str, Aggregate] = {
    aggregate.name: aggregate for aggregate in (WeightedPercentile(), SquaredTotals(), LargestSquaredTotal())
}
"""What no query may write, but what queries are written anew with."""

DISTINCT: dict[str, Aggregate] = {
    aggregate.name: aggregate for aggregate in (CountDistinct(), SumDistinct(), AvgDistinct())
}
"""What a DISTINCT within the parentheses makes of an aggregate."""

__all__ = ["DISTINCT", "INTERNAL", "REGISTRY", "Aggregate", "Invertible", "Partial", "State"]
