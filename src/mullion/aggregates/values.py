"""Aggregates that need to know how often each value occurs: distinct counts, percentiles, mode and the most frequent.

They are holistic: no state of fixed size is enough (li 3.2.1). What is kept of a slice is a table of value counts, one
for each expression, and all of these aggregates of all queries over that expression are answered from it. Counts can
be subtracted, so these aggregates are pseudo-differential (li 3.2.2).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mullion.aggregates.base import HOLISTIC, Aggregate, Partial
from mullion.language.types import BIGINT, DOUBLE, Type, counted
from mullion.language.vector import Vector


@dataclass(frozen=True)
class OverValues(Aggregate):
    algebra = HOLISTIC
    from_values = True

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        return ()

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        raise AssertionError(f"{self.name} is lowered from value counts")

    @abstractmethod
    def result(self, argument: Type | None) -> Type: ...


@dataclass(frozen=True)
class CountDistinct(OverValues):
    name = "count"
    casts_text = False

    def result(self, argument: Type | None) -> Type:
        return BIGINT


@dataclass(frozen=True)
class Percentile(OverValues):
    """percentile(x, p): the value below which the share p of the values lies, interpolated as Spark does."""

    name = "percentile"
    share: float = math.nan

    def with_parameters(self, parameters: tuple[Any, ...]) -> Aggregate:
        if len(parameters) != 1:
            raise TypeError(f"takes an argument and a share between 0 and 1, not {1 + len(parameters)} arguments")
        return replace(self, share=a_share(parameters[0]))

    def result(self, argument: Type | None) -> Type:
        if argument is None or not argument.is_numeric:
            raise TypeError(f"needs a number{f', not {argument}' if argument else ''}")
        return DOUBLE


@dataclass(frozen=True)
class Median(Percentile):
    name = "median"
    share: float = 0.5

    def with_parameters(self, parameters: tuple[Any, ...]) -> Aggregate:
        return Aggregate.with_parameters(self, parameters)


@dataclass(frozen=True)
class Mode(OverValues):
    """The most frequent value; the smallest of several."""

    name = "mode"
    casts_text = False

    def result(self, argument: Type | None) -> Type:
        return orderable(argument)


@dataclass(frozen=True)
class TopK(OverValues):
    """top_k(x, k): the k most frequent values with their counts, most frequent first, of equally frequent ones the
    smaller first."""

    name = "top_k"
    casts_text = False
    most: int = 0

    def with_parameters(self, parameters: tuple[Any, ...]) -> Aggregate:
        if len(parameters) != 1:
            raise TypeError(f"takes an argument and how many values to give, not {1 + len(parameters)} arguments")
        (most,) = parameters
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise TypeError(f"gives a whole number of values greater than zero, not {most}")
        return replace(self, most=most)

    def result(self, argument: Type | None) -> Type:
        return counted(orderable(argument))


def a_share(value: Any) -> float:
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = math.nan
    if isinstance(value, bool) or not 0 <= share <= 1:
        raise TypeError(f"needs a share between 0 and 1, not {value}")
    return share


def orderable(argument: Type | None) -> Type:
    if argument is None:
        raise TypeError("needs an argument")
    if argument.kind in ("interval", "void"):
        raise TypeError(f"cannot order {argument}")
    return argument
