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
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import HOLISTIC, Aggregate, Partial
from mullion.aggregates.extremes import Smallest
from mullion.aggregates.integer_states import always
from mullion.expressions.arrays import Counts, Whole
from mullion.expressions.vector import Vector, constant, dtype_of
from mullion.language.types import BIGINT, DOUBLE, Type
from mullion.language.types import counted as list_of_counted


class WindowCounts(Protocol):
    """How often each value occurs in each of some windows. Values are known by their codes: their rank among all."""

    @property
    def total(self) -> Counts:
        """How many values, each as often as it occurs."""
        ...

    @property
    def distinct(self) -> Counts:
        """How many different values."""
        ...

    def ranked(self, rank: Counts) -> Counts:
        """The codes of the values at these ranks, from 0 on; one window a column. Any code from `total` on."""
        ...

    @property
    def in_order(self) -> tuple[Counts, Counts, Counts]:
        """Offsets of windows, codes and counts: all that occur, the smallest first."""
        ...

    def top(self, k: int) -> tuple[Counts, Counts, Counts]:
        """Offsets of windows, codes and counts: the most frequent first, then the smaller."""
        ...

    def present_sums(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum of the numbers of those codes that are present."""
        ...


def has_order(types: Sequence[Type]) -> bool:
    """Whether values are numbers, times or truth values, which are whole numbers in their order."""
    if len(types) != 1 or types[0].kind in ("interval", "void"):
        return False
    return Smallest(types[0]).stands_alone


def values_of_numbers(numbers: Whole, types: Sequence[Type]) -> tuple[Vector, ...]:
    """The values that are these numbers in their order; NULLs where they have no order, and are only told apart."""
    if not has_order(types):
        return tuple(constant(type_, None, len(numbers)) for type_ in types)
    stored = Smallest(types[0]).store((numbers,), ())[0]
    return (Vector(stored.type, stored.values, np.ones(len(numbers), np.bool_)),)


@dataclass(frozen=True)
class OverValues(Aggregate):
    algebra = HOLISTIC
    from_values = True

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        return ()

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        raise AssertionError(f"{self.name} is lowered from value counts")

    @abstractmethod
    def lower_counts(self, argument: Type, values: Sequence[Vector], counted: WindowCounts) -> Vector:
        """The answer of each window; `values` holds the different values in the order of their codes: a vector for each
        column that the aggregate counts."""


@dataclass(frozen=True)
class CountDistinct(OverValues):
    name = "count"
    casts_text = False

    def result(self, argument: Type | None) -> Type:
        return BIGINT

    def lower_counts(self, argument: Type, values: Sequence[Vector], counted: WindowCounts) -> Vector:
        return always(counted.distinct, BIGINT)


@dataclass(frozen=True)
class Percentile(OverValues):
    """percentile(x, p): the value below which the share p of the values lies, interpolated as Spark does.

    The share falls at place p (n - 1) of n values in order. Between two different values lies the answer, as far from
    the lower one as the place says.
    """

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

    def lower_counts(self, argument: Type, values: Sequence[Vector], counted: WindowCounts) -> Vector:
        present = counted.total > 0
        if not present.any():
            return constant(DOUBLE, None, len(present))
        position = self.share * (counted.total - 1)
        lower, higher = np.floor(position), np.ceil(position)
        low, high = counted.ranked(np.stack([lower, higher]).astype(np.int64).clip(0))
        numbers = values[0].to_doubles()
        with np.errstate(invalid="ignore", over="ignore"):
            between = numbers[low] + (position - lower) * (numbers[high] - numbers[low])
        return Vector(DOUBLE, np.where((lower == higher) | (low == high), numbers[low], between), present)


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

    def lower_counts(self, argument: Type, values: Sequence[Vector], counted: WindowCounts) -> Vector:
        offsets, codes, _ = counted.top(1)
        present = np.diff(offsets) > 0
        modes: npt.NDArray[Any] = np.zeros(len(present), dtype_of(argument))
        modes[present] = values[0].values[codes]
        return Vector(argument, modes, present)


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
        return list_of_counted(orderable(argument))

    def lower_counts(self, argument: Type, values: Sequence[Vector], counted: WindowCounts) -> Vector:
        offsets, codes, counts = counted.top(self.most)
        pairs = list(zip(values[0].take(codes).to_list(), counts.tolist(), strict=True))
        bounds = offsets.tolist()
        lists: npt.NDArray[Any] = np.empty(len(bounds) - 1, np.object_)
        for i, (low, high) in enumerate(pairwise(bounds)):
            lists[i] = pairs[low:high]
        return always(lists, self.result(argument))


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
