"""Figure 3: loops that agree, steps that are those of the formulas, and a fit that finds what was put in."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import pane_loops
from benchmarks.pane_grid import COUNT, KINDS, MAX, Cell, Kind, Measured, fit, measure
from benchmarks.pane_loops import Steps
from benchmarks.panes import Costs, Extent

NONE = Steps(0, 0, 0, 0)
COSTS = Costs(tuple_in_pane=1.0, pane_made=4.0, pane_in_window=2.0, tuple_in_window=3.0)


def cells(kind: Kind, costs: Costs) -> list[Cell]:
    extents = [Extent(panes=p, tuples_per_pane=t) for t in (1, 2, 10) for p in (1, 3, 8)]
    return [Cell(e, 1, kind.paned_time(e, costs), kind.windowed_time(e, costs), NONE, NONE) for e in extents]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_fit_finds_the_costs_that_times_were_made_of(kind: Kind) -> None:
    found = Measured(kind, cells(kind, COSTS), fit(kind, cells(kind, COSTS)))
    assert [found.predicted(cell) for cell in found.cells] == pytest.approx([cell.ratio for cell in found.cells])
    assert found.right == found.decided


def test_a_wrong_side_is_seen() -> None:
    found = Measured(MAX, cells(MAX, COSTS), Costs(100.0, 100.0, 100.0, 0.001))
    assert len(found.right) < len(found.decided)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_all_ways_answer_alike_and_every_cell_is_measured(kind: Kind) -> None:
    found = measure(kind, tuples=600, repeat=1, tuples_per_pane=(1, 3, 20), panes_per_window=(1, 2, 7))
    assert len(found.cells) == 9
    assert found.table(lambda cell: cell.extent.tuples).tolist() == [[1, 3, 20], [2, 6, 40], [7, 21, 140]]
    assert all(cell.paned > 0 and cell.windowed > 0 for cell in found.cells)
    assert len(found.to_dict()["cells"]) == 9


def test_the_steps_are_those_of_the_formulas() -> None:
    found = measure(MAX, tuples=600, repeat=1, tuples_per_pane=(20,), panes_per_window=(5,))
    (cell,) = found.cells
    assert cell.windows == 26
    assert cell.windowed_steps == Steps(0, 0, 0, 26 * 100)
    assert cell.paned_steps == Steps(600, 30, 26 * 5, 0)
    (count,) = measure(COUNT, tuples=600, repeat=1, tuples_per_pane=(20,), panes_per_window=(5,)).cells
    assert count.windowed_steps.tuples_in_windows == 600 + 25 * 20
    assert count.paned_steps == Steps(600, 30, 30 + 25, 0)


def test_empty_panes_are_not_made() -> None:
    times, values = np.array([0, 1, 50, 99], np.int64), np.array([3.0, 9.0, 4.0, 5.0])
    windows = pane_loops.windows_in(times, 10, 2)
    for paned, windowed, data in (
        (pane_loops.paned_max, pane_loops.windowed_max, values),
        (pane_loops.paned_count, pane_loops.windowed_count, np.ones(4, np.int64)),
    ):
        one, other = np.zeros(windows), np.zeros(windows)
        steps = paned(times, data, 10, 2, one)
        windowed(times, data, 10, 2, other)
        assert steps.panes_made == 3
        assert one.tolist() == other.tolist()
