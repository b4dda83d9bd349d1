"""Aggregates over values that stand for several: what is known of a sample whose events were kept with different
probabilities. No query writes them; `binding.shed_streams` does.

They are computed from how often each pair of a value and a number beside it occurs, as all holistic aggregates are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import Aggregate
from mullion.aggregates.values import OverValues, Percentile, WindowCounts, a_share, orderable
from mullion.expressions.arrays import Index, Real
from mullion.expressions.vector import Vector, constant
from mullion.language.types import DOUBLE, Type


class _Pairs(NamedTuple):
    """The different pairs in each window in their order, those of window i between offsets i and i + 1."""

    offsets: Index
    codes: Index
    counts: Index

    @property
    def window(self) -> Index:
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


@dataclass(frozen=True)
class WeightedPercentile(OverValues):
    """weighted_percentile(x, w, p): percentile(x, p) if every event were there w times, w not only a whole number.

        x           3       5               9
        w           2       4               1           W = 7
        place       0  1  2  3  4  5  6                 p (W - 1) = 3 for the median, which is 5

    With `interpolates` it is between two values as percentile is, otherwise the smallest that the share p of all does
    not exceed, as of approx_percentile.

    Requires: weights above 0.
    Time: O(v) a window for v different pairs of value and weight.
    Guarantee: of weights that are all 1, what percentile gives.
    """

    name = "weighted_percentile"
    columns = 2
    share: float = math.nan
    interpolates: bool = True

    def with_parameters(self, parameters: tuple[Any, ...]) -> Aggregate:
        share, interpolates = parameters
        return replace(self, share=a_share(share), interpolates=bool(interpolates))

    def result(self, argument: Type | None) -> Type:
        if not self.interpolates:
            return orderable(argument)
        if argument is None or not argument.is_numeric:
            raise TypeError(f"needs a number{f', not {argument}' if argument else ''}")
        return DOUBLE

    def lower_counts(self, argument: Type, values: Sequence[Vector], counted: WindowCounts) -> Vector:
        weights = values[1].values
        if (weights == 1.0).all():
            return self._of_whole_events(argument, values[0], counted)
        pairs = _Pairs(*counted.in_order)
        codes, counts = pairs.codes, pairs.counts
        reach = np.concatenate([[0.0], np.cumsum(counts * weights[codes])])
        first, last = pairs.offsets[:-1], pairs.offsets[1:] - 1
        present, before = last >= first, reach[first]
        total = reach[last + 1] - before

        def at(place: Real, side: Any) -> Index:
            found = np.searchsorted(reach[1:], before + place, side).clip(first, np.maximum(first, last))
            return codes[np.where(present, found, 0)] if len(codes) else np.zeros(len(first), np.intp)

        if not self.interpolates:
            return _where(values[0].take(at(self.share * total, "left")), present)
        position = np.maximum(self.share * (total - 1), 0.0)
        lower, higher = np.floor(position), np.ceil(position)
        numbers = values[0].to_doubles()
        low, high = (numbers[at(place, "right")] for place in (lower, higher))
        with np.errstate(invalid="ignore", over="ignore"):
            between = low + (position - lower) * (high - low)
        return Vector(DOUBLE, np.where((lower == higher) | (low == high), low, between), present)

    def _of_whole_events(self, argument: Type, values: Vector, counted: WindowCounts) -> Vector:
        """While nothing is shed: ranks are known without a list of all values."""
        if self.interpolates:
            return Percentile(share=self.share).lower_counts(argument, [values], counted)
        present = counted.total > 0
        if not present.any():
            return constant(argument, None, len(present))
        rank = np.ceil(self.share * counted.total).astype(np.int64) - 1
        return _where(values.take(counted.ranked(rank.clip(0))), present)


@dataclass(frozen=True)
class SquaredTotals(OverValues):
    """squared_totals(id, x, id, x, ...): the sum over ids of the square of each one's sum of x.

    An event that is in many rows of a join is kept or lost with all of them: this is what it adds to the variance. It
    may stand in several places of a row: each of them gives an id and an x.

        id    1   1   2
        x     3   4   5         (3 + 4)^2 + 5^2 = 74
    """

    name = "squared_totals"
    columns = 256

    def result(self, argument: Type | None) -> Type:
        return DOUBLE

    def lower_counts(self, argument: Type, values: Sequence[Vector], counted: WindowCounts) -> Vector:
        pairs = _Pairs(*counted.in_order)
        known, owner = np.unique(np.concatenate([ids.values for ids in values[::2]]), return_inverse=True)
        owners, places = max(1, len(known)), owner.reshape(len(values) // 2, -1)
        owned = np.concatenate([pairs.window * owners + own[pairs.codes] for own in places])
        amounts = np.concatenate([pairs.counts * x.values[pairs.codes] for x in values[1::2]])
        own, which = np.unique(owned, return_inverse=True)
        totals = np.bincount(which, amounts, len(own))
        found = self._combined(own // owners, totals.astype(np.float64) ** 2, len(pairs.offsets) - 1)
        return Vector(DOUBLE, found, np.diff(pairs.offsets) > 0)

    def _combined(self, window: Index, squares: Real, windows: int) -> Real:
        """Of the squares that are in each of so many windows."""
        return np.bincount(window, squares, windows).astype(np.float64)


class LargestSquaredTotal(SquaredTotals):
    """largest_squared_total(id, x, id, x, ...): the largest of the squares that `squared_totals` adds.

    id    1   1   2
    x     3   4   5         (3 + 4)^2 = 49
    """

    name = "largest_squared_total"

    def _combined(self, window: Index, squares: Real, windows: int) -> Real:
        largest = np.zeros(windows)
        np.maximum.at(largest, window, squares)
        return largest


def _where(found: Vector, present: npt.NDArray[np.bool_]) -> Vector:
    return Vector(found.type, found.values, found.valid & present)
