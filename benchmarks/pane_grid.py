"""Li's Figure 3, measured: panes against tuples by how many tuples a pane and how many panes a window has.

The constants of the cost formulas are fitted to the measured times, and tell where panes begin to pay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from benchmarks import pane_loops, panes
from benchmarks.pane_loops import Steps
from benchmarks.panes import Costs, Extent
from mullion.errors import MullionError
from mullion.expressions.arrays import Array, Times

TUPLES = (1, 2, 5, 10, 20, 50, 100)
"""In a pane."""
PANES = (1, 2, 5, 10, 20, 50)
"""In a window."""
PAPER = Extent(panes=5, tuples_per_pane=20)
PAPER_RATIO = 0.3
"""What the paper reads from its figure there (li 4)."""
UNDECIDED = 0.1
"""Where times differ by less, nobody can say which is faster."""

APART = 1000
"""Microseconds between tuples."""

Loop = Callable[[Times, Array, int, int, Array], Steps]
Formula = Callable[[Extent, Costs], float]


@dataclass(frozen=True)
class Kind:
    """An aggregate, with panes and without: what runs, and what it should cost."""

    name: str
    values: Callable[[int], Array]
    paned: Loop
    windowed: Loop
    paned_time: Formula
    windowed_time: Formula
    of_panes: Callable[[Array], Array]
    """The right answer for the tuples or panes along the last axis."""

    def predicted(self, extent: Extent, costs: Costs) -> float:
        return self.paned_time(extent, costs) / self.windowed_time(extent, costs)


def _prices(size: int) -> Array:
    return np.random.default_rng(3).lognormal(3.0, 1.0, size)


def _ones(size: int) -> Array:
    return np.ones(size, np.int64)


MAX = Kind(
    "max",
    _prices,
    pane_loops.paned_max,
    pane_loops.windowed_max,
    panes.time_paned_max,
    panes.time_windowed_max,
    lambda values: np.max(values, axis=-1),
)
COUNT = Kind(
    "count",
    _ones,
    pane_loops.paned_count,
    pane_loops.windowed_count,
    panes.time_paned_count,
    panes.time_windowed_count,
    lambda values: np.sum(values, axis=-1),
)
KINDS = (MAX, COUNT)


@dataclass(frozen=True)
class Cell:
    """Seconds for a window and steps of all windows, with panes and without."""

    extent: Extent
    windows: int
    paned: float
    windowed: float
    paned_steps: Steps
    windowed_steps: Steps

    @property
    def ratio(self) -> float:
        return self.paned / self.windowed

    @property
    def steps_ratio(self) -> float:
        return sum(self.paned_steps) / sum(self.windowed_steps)

    @property
    def is_decided(self) -> bool:
        return abs(self.ratio - 1) > UNDECIDED


@dataclass(frozen=True)
class Measured:
    """All cells of an aggregate, and what the fitted formulas say of them."""

    kind: Kind
    cells: list[Cell]
    costs: Costs

    def predicted(self, cell: Cell) -> float:
        return self.kind.predicted(cell.extent, self.costs)

    @property
    def decided(self) -> list[Cell]:
        """Cells in which one way is clearly faster."""
        return [cell for cell in self.cells if cell.is_decided]

    @property
    def right(self) -> list[Cell]:
        """Decided cells that lie on the predicted side of the crossover."""
        return [cell for cell in self.decided if (cell.ratio < 1) == (self.predicted(cell) < 1)]

    def at(self, extent: Extent) -> Cell | None:
        return next((cell for cell in self.cells if cell.extent == extent), None)

    def table(self, of: Callable[[Cell], float]) -> npt.NDArray[np.float64]:
        """A figure of every cell: panes per window down, tuples per pane across."""
        across, down = self.tuples_per_pane, self.panes_per_window
        found = {cell.extent: of(cell) for cell in self.cells}
        return np.array([[found[Extent(panes=p, tuples_per_pane=t)] for t in across] for p in down])

    @property
    def tuples_per_pane(self) -> list[float]:
        return sorted({cell.extent.tuples_per_pane for cell in self.cells})

    @property
    def panes_per_window(self) -> list[float]:
        return sorted({cell.extent.panes for cell in self.cells})

    def to_dict(self) -> dict[str, Any]:
        return {
            "nanoseconds": {name: cost * 1e9 for name, cost in asdict(self.costs).items()},
            "cells": [
                {
                    "tuples_per_pane": cell.extent.tuples_per_pane,
                    "panes_per_window": cell.extent.panes,
                    "windows": cell.windows,
                    "paned_nanoseconds": cell.paned * 1e9,
                    "windowed_nanoseconds": cell.windowed * 1e9,
                    "ratio": cell.ratio,
                    "predicted": self.predicted(cell),
                    "paned_steps": cell.paned_steps._asdict(),
                    "windowed_steps": cell.windowed_steps._asdict(),
                }
                for cell in self.cells
            ],
        }


def measure(
    kind: Kind,
    *,
    tuples: int,
    repeat: int,
    tuples_per_pane: Sequence[int] = TUPLES,
    panes_per_window: Sequence[int] = PANES,
) -> Measured:
    """All cells over about so many tuples, each the best of `repeat` runs, the two ways in turn."""
    extents = [Extent(panes=p, tuples_per_pane=t) for t in tuples_per_pane for p in panes_per_window]
    cells = [_cell(kind, extent, tuples, repeat) for extent in extents]
    return Measured(kind, cells, fit(kind, cells))


def _cell(kind: Kind, extent: Extent, tuples: int, repeat: int) -> Cell:
    each, panes_each = int(extent.tuples_per_pane), int(extent.panes)
    size = max(tuples // each, panes_each) * each
    times, values, pane = np.arange(size, dtype=np.int64) * APART, kind.values(size), each * APART
    windows = pane_loops.windows_in(times, pane, panes_each)
    ways = {loop: np.zeros(windows, values.dtype) for loop in (kind.paned, kind.windowed)}
    best = dict.fromkeys(ways, np.inf)
    steps: dict[Loop, Steps] = {}
    for number in range(repeat + 1):
        for loop, out in ways.items():
            began = time.perf_counter()
            steps[loop] = loop(times, values, pane, panes_each, out)
            if number:
                best[loop] = min(best[loop], time.perf_counter() - began)
    right = kind.of_panes(sliding_window_view(kind.of_panes(values.reshape(-1, each)), panes_each))
    for loop, out in ways.items():
        if not np.array_equal(out, right):
            raise MullionError(f"{loop.__name__} is wrong with {extent}")
    of = {loop: seconds / windows for loop, seconds in best.items()}
    return Cell(extent, windows, of[kind.paned], of[kind.windowed], steps[kind.paned], steps[kind.windowed])


def fit(kind: Kind, cells: Sequence[Cell]) -> Costs:
    """The constants whose times differ least from the measured ones, relatively, in the sum of squares.

    A count's b and c always occur as b + 2 c where windows slide by one pane; of all such pairs the smallest is given.

    >>> from benchmarks.pane_loops import Steps
    >>> none = Steps(0, 0, 0, 0)
    >>> extents = [Extent(panes=p, tuples_per_pane=t) for t in (1, 10) for p in (1, 5)]
    >>> true = Costs(1.0, 4.0, 2.0, 3.0)
    >>> cells = [Cell(e, 1, MAX.paned_time(e, true), MAX.windowed_time(e, true), none, none) for e in extents]
    >>> found = fit(MAX, cells)
    >>> round(found.pane_made, 6), round(found.tuple_in_window, 6)
    (4.0, 3.0)
    """
    units = [Costs(*row) for row in np.eye(4)]
    with_panes = np.array([[kind.paned_time(c.extent, unit) / c.paned for unit in units[:3]] for c in cells])
    without = np.array([[kind.windowed_time(c.extent, units[3]) / c.windowed] for c in cells])
    ones = np.ones(len(cells))
    a, b, c = np.linalg.lstsq(with_panes, ones, rcond=None)[0].tolist()
    (tuple_in_window,) = np.linalg.lstsq(without, ones, rcond=None)[0].tolist()
    return Costs(a, b, c, tuple_in_window)
