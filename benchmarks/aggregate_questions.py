"""Queries that differ in what they compute over a column's values, and queries over the last events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.measures import Measure, approximate_measures, exact_measures
from benchmarks.workloads import Window, range_slide, workload_a


@dataclass(frozen=True)
class ValueQuestion:
    """What is asked of a column's values in a window."""

    window: Window
    measure: Measure
    column: str

    def text(self) -> str:
        return f"SELECT {self.measure.call(self.column)} AS total FROM trades [{range_slide(self.window)}]"


@dataclass(frozen=True)
class RowWindow:
    """The last `rows` events, after every `slide`-th one."""

    rows: int
    slide: int

    def text(self) -> str:
        return f"SELECT sum(price * volume) AS total FROM trades [ROWS {self.rows} SLIDE {self.slide}]"


def row_windows(n: int, *, seed: int = 1) -> list[RowWindow]:
    """10,000 to 100,000 events every 1,000 to 10,000, uniformly and all different."""
    rng = np.random.default_rng([seed, 3])
    found: dict[RowWindow, None] = {}
    while len(found) < n:
        rows, slide = rng.integers(10_000, 100_000, endpoint=True), rng.integers(1_000, 10_000, endpoint=True)
        found[RowWindow(int(rows), int(slide))] = None
    return list(found)


def exact(n: int) -> list[ValueQuestion]:
    """Percentiles, distinct counts, top lists and medians of volumes, which have fewer than 2,000 values."""
    return [ValueQuestion(w, m, "volume") for w, m in zip(workload_a(n), exact_measures(n), strict=True)]


def approximate(n: int) -> list[ValueQuestion]:
    """Percentiles, distinct counts and frequent values of prices, which have many values."""
    return [ValueQuestion(w, m, "price") for w, m in zip(workload_a(n), approximate_measures(n), strict=True)]
