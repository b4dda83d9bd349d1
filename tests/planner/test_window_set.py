"""What a set of windows comes to does not depend on how it was put together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.instants import EVERYTHING
from mullion.language.query import Period
from mullion.planner.window_set import NOTHING, WindowSet

LENGTHS = st.integers(1, 40) | st.just(EVERYTHING)
PERIODS = st.builds(Period, LENGTHS, LENGTHS, st.integers(0, 5))


@given(st.lists(PERIODS, max_size=8), st.lists(PERIODS, max_size=8))
def test_two_sets_become_one(some: list[Period], others: list[Period]) -> None:
    at_once = WindowSet.of([*some, *others])
    joined = WindowSet.of(some).union(WindowSet.of(others))
    one_by_one = NOTHING
    for window in [*others, *some]:
        one_by_one = one_by_one.union(WindowSet.of([window]))
    for made in (joined, one_by_one):
        assert set(made.windows) == set(at_once.windows)
        assert made.slices_a_microsecond == pytest.approx(at_once.slices_a_microsecond)
        assert made.gaps_a_microsecond == pytest.approx(at_once.gaps_a_microsecond)
        assert made.kept_share == pytest.approx(at_once.kept_share)


def test_a_window_more_that_is_cut_at_the_same_edges_changes_nothing() -> None:
    minutes = WindowSet.of([Period(60, 60)])
    assert minutes.union(WindowSet.of([Period(120, 60)])).slices_a_microsecond == minutes.slices_a_microsecond == 1 / 60
