"""What a query may ask of a column's values in a window, for Mullion, for Spark, and for numpy, which knows the answer.

Every measure is a class. Exact ones are compared with numpy's answers; approximate ones with what they promise, so far
that a right one is practically never called wrong.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mullion.aggregates import REGISTRY

Values = npt.NDArray[Any]
Pairs = list[tuple[Any, int]]

TOLERANCE = 1e-9
"""Relative: an interpolated percentile is a sum of two products."""
RANK_ERROR = 0.03
"""Three times what approx_percentile promises with a probability of 99 %."""
DISTINCT_ERROR = 0.1
"""Six times the standard error of approx_count_distinct."""
SHARE_ERROR = 0.1
"""By which part of the share a value may fall short that `frequent` gives."""


@dataclass(frozen=True)
class Measure(ABC):
    function: ClassVar[str]

    @property
    def is_there(self) -> bool:
        """Whether Mullion has the function."""
        return self.function in REGISTRY

    @abstractmethod
    def call(self, column: str) -> str:
        """In Mullion's SQL."""

    def spark(self, column: str, windows: str) -> str:
        """A Spark job that gives the start of every window and its answer; `windows` is what it groups by."""
        return _spark(self.call(column), windows)

    @abstractmethod
    def is_right(self, values: Values, got: Any) -> bool:
        """Whether this is an answer for these values, of which there is at least one."""


def _spark(call: str, windows: str) -> str:
    return f"SELECT unix_micros(window.start) AS start, {call} AS total FROM trades GROUP BY {windows}"


def _counts_in_spark(column: str, windows: str) -> str:
    """How often each value occurs in each window, the most frequent first, then the smaller."""
    each = f"SELECT window, {column} AS value, count(*) AS n FROM trades GROUP BY {windows}, {column}"
    listed = "array_sort(collect_list(struct(-n AS less, value)))"
    return f"SELECT window, {listed} AS listed, sum(n) AS total FROM ({each}) GROUP BY window"


def counted(values: Values) -> Pairs:
    """Each value with how often it occurs, the most frequent first, of equally frequent ones the smaller."""
    found, counts = np.unique(values, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return list(zip(found[order].tolist(), counts[order].tolist(), strict=True))


def pairs(got: Any) -> Pairs:
    """A list of values and counts as Arrow or as Spark gives it."""
    return [tuple(item.values()) if isinstance(item, dict) else tuple(item) for item in got]


@dataclass(frozen=True)
class Percentile(Measure):
    function = "percentile"
    share: float

    def call(self, column: str) -> str:
        return f"percentile({column}, {self.share})"

    def is_right(self, values: Values, got: Any) -> bool:
        return bool(np.isclose(got, np.percentile(values, 100 * self.share), rtol=TOLERANCE, atol=0))


@dataclass(frozen=True)
class Median(Measure):
    function = "median"

    def call(self, column: str) -> str:
        return f"median({column})"

    def is_right(self, values: Values, got: Any) -> bool:
        return bool(np.median(values) == got)


@dataclass(frozen=True)
class Distinct(Measure):
    function = "count"

    def call(self, column: str) -> str:
        return f"count(DISTINCT {column})"

    def is_right(self, values: Values, got: Any) -> bool:
        return len(np.unique(values)) == int(got)


@dataclass(frozen=True)
class Top(Measure):
    function = "top_k"
    most: int

    def call(self, column: str) -> str:
        return f"top_k({column}, {self.most})"

    def spark(self, column: str, windows: str) -> str:
        first = f"transform(slice(listed, 1, {self.most}), x -> struct(x.value, -x.less AS n))"
        return f"SELECT unix_micros(window.start) AS start, {first} AS total FROM ({_counts_in_spark(column, windows)})"

    def is_right(self, values: Values, got: Any) -> bool:
        return counted(values)[: self.most] == pairs(got)


@dataclass(frozen=True)
class ApproxPercentile(Measure):
    function = "approx_percentile"
    share: float

    def call(self, column: str) -> str:
        return f"approx_percentile({column}, {self.share}, 100)"

    def is_right(self, values: Values, got: Any) -> bool:
        low, high = np.mean(values < got), np.mean(values <= got)
        return bool(low - RANK_ERROR <= self.share <= high + RANK_ERROR)


@dataclass(frozen=True)
class ApproxDistinct(Measure):
    function = "approx_count_distinct"

    def call(self, column: str) -> str:
        return f"approx_count_distinct({column})"

    def spark(self, column: str, windows: str) -> str:
        return _spark(f"approx_count_distinct({column}, 0.016)", windows)

    def is_right(self, values: Values, got: Any) -> bool:
        number = len(np.unique(values))
        return bool(abs(got - number) <= DISTINCT_ERROR * number)


@dataclass(frozen=True)
class Frequent(Measure):
    """Spark has nothing of the kind, so its job counts all values."""

    function = "frequent"
    share: float

    def call(self, column: str) -> str:
        return f"frequent({column}, {self.share})"

    def spark(self, column: str, windows: str) -> str:
        found = f"transform(filter(listed, x -> -x.less >= {self.share} * total), x -> struct(x.value, -x.less AS n))"
        return f"SELECT unix_micros(window.start) AS start, {found} AS total FROM ({_counts_in_spark(column, windows)})"

    def is_right(self, values: Values, got: Any) -> bool:
        least = self.share * len(values)
        true, given = counted(values), {value for value, _ in pairs(got)}
        must = {value for value, count in true if count >= least}
        may = {value for value, count in true if count >= least * (1 - SHARE_ERROR) - 1}
        return must <= given <= may


def exact_measures(n: int) -> list[Measure]:
    """A mix of four, in turn: percentiles of different shares, distinct counts, the top 1 to 20, medians."""
    of_each = -(-n // 4)
    found: list[Measure] = []
    for i in range(of_each):
        found += [Percentile(round((i + 1) / (of_each + 1), 4)), Distinct(), Top(1 + i % 20), Median()]
    return found[:n]


FREQUENT_SHARES = (0.0004, 0.004)
"""Of the prices generated, a dozen or so of a window make up the first share and none the second."""


def approximate_measures(n: int) -> list[Measure]:
    """A mix of three, in turn."""
    of_each = -(-n // 3)
    found: list[Measure] = []
    for i in range(of_each):
        share = round((i + 1) / (of_each + 1), 4)
        found += [ApproxPercentile(share), ApproxDistinct(), Frequent(FREQUENT_SHARES[i % len(FREQUENT_SHARES)])]
    return found[:n]


def missing(measures: Sequence[Measure]) -> list[str]:
    """The functions that Mullion does not have."""
    return sorted({measure.function for measure in measures if not measure.is_there})
