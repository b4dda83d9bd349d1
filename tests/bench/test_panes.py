"""The cost of panes is that of li 3.3.1."""

from __future__ import annotations

from math import gcd, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.panes import (
    Costs,
    Extent,
    crossover_count,
    crossover_max,
    ratio_count,
    ratio_max,
    time_paned_count,
    time_paned_max,
    time_windowed_count,
    time_windowed_max,
)

COSTS = Costs(tuple_in_pane=2.0, pane_made=7.0, pane_in_window=3.0, tuple_in_window=5.0)

costs = st.builds(Costs, *[st.floats(0.01, 100)] * 4)


def test_the_formulas_as_the_paper_writes_them() -> None:
    t, p, g = 120, 6, 4
    extent = Extent(panes=p, tuples_per_pane=t / p, groups=g)
    assert time_paned_max(extent, COSTS) == 2 * t / p + 7 * g + 3 * p * g
    assert time_paned_count(extent, COSTS) == 2 * t / p + 7 * g + 2 * 3 * g
    assert time_windowed_max(extent, COSTS) == 5 * t
    assert time_windowed_count(extent, COSTS) == 2 * 5 * (t / p)


def test_a_slide_of_two_panes_moves_two_panes() -> None:
    """RANGE 9 minutes, SLIDE 6 minutes: the paper's example."""
    range_, slide, rate = 9, 6, 10
    pane = gcd(range_, slide)
    extent = Extent(panes=range_ // pane, tuples_per_pane=rate * pane, panes_per_slide=slide // pane)
    tuples = rate * range_
    assert extent.panes_per_slide == 2
    assert time_windowed_count(extent, COSTS) == 2 * 5 * slide * tuples / range_
    only_windows = Costs(tuple_in_pane=0, pane_made=0, pane_in_window=3.0, tuple_in_window=0)
    assert time_paned_count(extent, only_windows) == 2 * 3 * 2
    only_panes = Costs(tuple_in_pane=2.0, pane_made=7.0, pane_in_window=0, tuple_in_window=0)
    assert time_paned_max(extent, only_panes) == 2 * rate * slide + 7 * 2


@given(st.integers(1, 60), costs)
def test_at_the_crossover_both_take_as_long(panes: int, costs: Costs) -> None:
    for at, ratio in ((crossover_max(panes, costs), ratio_max), (crossover_count(costs), ratio_count)):
        if at != inf:
            assert ratio(Extent(panes, at), costs) == pytest.approx(1)
            assert ratio(Extent(panes, 2 * at), costs) < 1 < ratio(Extent(panes, at / 2), costs)


def test_panes_that_are_windows_never_pay_for_max() -> None:
    assert crossover_max(1, Costs(1, 1, 1, 1)) == inf
    assert ratio_max(Extent(panes=1, tuples_per_pane=100), Costs(1, 1, 1, 1)) > 1
