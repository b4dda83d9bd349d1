"""Where streams are cut: worked examples of the papers, then all ways to find edges against each other."""

from __future__ import annotations

import time
from itertools import accumulate, pairwise
from math import lcm
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.instants import EVERYTHING
from mullion.language.query import Period
from mullion.planner import slices
from mullion.planner.slices import (
    Progressions,
    common_grid,
    edges_before,
    edges_between,
    first_edges,
    most_edges,
    paired,
    paned_slices,
    residues,
    slices_of,
    window_table,
)
from mullion.slices import kernels
from mullion.slices.kernels.slicing import Cut, slice_starts

SECOND = 1_000_000

periods = st.builds(Period, st.integers(1, 40), st.integers(1, 30), st.integers(-35, 35))


def brute_edges(windows: list[Period], low: int, high: int) -> set[int]:
    """The edges in (low, high], by asking every instant whether a window starts or ends there."""
    return {
        t
        for t in range(low + 1, high + 1)
        for w in windows
        if (t - w.offset) % w.slide == 0 or (t + w.range - w.offset) % w.slide == 0
    }


def compose(*vectors: tuple[int, ...]) -> tuple[int, ...]:
    """One period of the common sliced window of several, explicitly (krishnamurthy 3.2.1)."""
    period = lcm(*(sum(v) for v in vectors))
    edges = {edge for v in vectors for edge in accumulate(v * (period // sum(v)))}
    return tuple(b - a for a, b in pairwise([0, *sorted(edges)]))


def test_the_window_of_the_paper() -> None:
    """krishnamurthy, figure 3: W[18,15]."""
    assert paned_slices(Period(18, 15)) == 5
    assert paned_slices(Period(10**15 + 1, 10**15)) == 10**15, "counted, not made"
    assert paired(Period(18, 15)) == (12, 3)


def test_the_composition_of_the_paper() -> None:
    """krishnamurthy 3.2.1: U(12,3) and V(6,3) have the common period 45."""
    both = compose((12, 3), (6, 3))
    assert both == (6, 3, 3, 3, 3, 6, 3, 3, 3, 3, 6, 3)
    assert (sum(both), len(both)) == (45, 12)


def test_a_window_that_is_a_multiple_of_its_slide_has_one_slice() -> None:
    assert paired(Period(30, 15)) == (15,) and paned_slices(Period(30, 15)) == 1
    assert paired(Period(15, 15)) == (15,)


def test_a_hopping_window_has_a_slice_and_a_gap() -> None:
    assert paired(Period(4, 15)) == (11, 4)


def test_edges_by_hand() -> None:
    assert edges_between([Period(18, 15)], 0, 30).tolist() == [0, 12, 15, 27, 30]
    assert edges_between([Period(18, 15)], 1, 30).tolist() == [0, 12, 15, 27, 30]
    assert edges_between([Period(18, 15, 2)], 0, 30).tolist() == [-1, 2, 14, 17, 29]
    assert edges_between([Period(18, 15)], -16, -1).tolist() == [-18, -15, -3]
    assert edges_between([], 0, 30).tolist() == []


@given(st.lists(periods, min_size=1, max_size=3))
def test_composed_edges_are_the_union_of_all_edges(windows: list[Period]) -> None:
    windows = [w._replace(offset=0) for w in windows]
    at, edges = 0, set()
    for slice_ in compose(*(paired(w) for w in windows)):
        at += slice_
        edges.add(at)
    period = lcm(*(w.slide for w in windows))
    assert at == period
    assert edges == brute_edges(windows, 0, period)


@given(st.lists(periods, min_size=1, max_size=5), st.integers(-100, 100), st.integers(0, 150))
def test_edges_between_are_all_edges_and_the_one_before(windows: list[Period], low: int, length: int) -> None:
    edges = edges_between(windows, low, low + length).tolist()
    assert edges[0] <= low
    assert set(edges[1:]) == brute_edges(windows, low, low + length)
    assert not brute_edges(windows, edges[0], low)
    assert edges[0] in brute_edges(windows, edges[0] - 1, low)


@given(
    st.lists(periods, min_size=1, max_size=5),
    st.integers(-100, 100),
    st.integers(0, 400),
    st.sampled_from((1, 7)),
)
def test_edges_that_are_ticked_off_are_those_that_are_sorted(
    windows: list[Period], low: int, length: int, unit: int
) -> None:
    windows = [Period(*(unit * part for part in window)) for window in windows]
    sorted_ = edges_between(windows, low, low + length).tolist()
    with patch.object(slices, "MANY_EDGES", 0):
        assert edges_between(windows, low, low + length).tolist() == sorted_


@given(
    st.lists(periods, min_size=1, max_size=5),
    st.integers(-100, 100),
    st.integers(0, 150),
    st.lists(st.integers(-150, 300), max_size=9),
)
def test_edges_before_instants_are_those_that_are_smaller(
    windows: list[Period], low: int, length: int, instants: list[int]
) -> None:
    edges = edges_between(windows, low, low + length)
    for asked in (0, 1_000):
        before = edges_before(edges, windows, "paired", asked)(np.array(instants, np.int64))
        assert before.tolist() == [int((edges < instant).sum()) for instant in instants]


@given(st.lists(periods, min_size=1, max_size=5), st.integers(-100, 100), st.integers(0, 150))
def test_paned_edges_hold_all_paired_edges(windows: list[Period], low: int, length: int) -> None:
    panes = edges_between(windows, low, low + length, slicing="paned").tolist()
    pairs = edges_between(windows, low, low + length).tolist()
    assert set(pairs[1:]) <= set(panes) and pairs[0] <= panes[0] <= low
    assert slices_of(windows, low, low + length, "paired") <= slices_of(windows, low, low + length, "paned")


@given(periods)
def test_paired_never_has_more_slices_than_paned(window: Period) -> None:
    assert sum(paired(window)) == window.slide
    assert len(paired(window)) <= min(2, paned_slices(window))


@given(
    st.lists(periods, min_size=1, max_size=5),
    st.lists(st.integers(-10_000, 10_000), min_size=1, max_size=20),
    st.sampled_from(("paired", "paned")),
)
def test_events_fall_into_the_slice_that_starts_last_before_them(
    windows: list[Period], times: list[int], slicing: str
) -> None:
    found = slice_starts(np.array(times, np.int64), windows, slicing=slicing).tolist()
    assert found == [int(edges_between(windows, t, t, slicing=slicing)[0]) for t in times]


@given(st.lists(periods, min_size=1, max_size=5), st.integers(-100, 100))
def test_all_edges_lie_on_the_common_grid(windows: list[Period], low: int) -> None:
    step, origin = common_grid(windows)
    for slicing in ("paired", "paned"):
        edges = edges_between(windows, low, low + 100, slicing=slicing)
        assert not ((edges - origin) % step).any()


@given(st.lists(periods, max_size=4), st.integers(0, 12))
def test_the_first_edges_are_the_next_after_0(windows: list[Period], most: int) -> None:
    wanted = sorted(brute_edges(windows, 0, 30 * most)) if windows else []
    assert first_edges(windows, most) == wanted[:most]


def test_an_hour_of_256_windows_takes_milliseconds() -> None:
    windows = [Period((600 + 37 * i % 301) * SECOND, (300 + 53 * i % 301) * SECOND) for i in range(256)]
    edges_between(windows, 0, 3600 * SECOND)
    began = time.perf_counter()
    edges = edges_between(windows, 0, 3600 * SECOND)
    assert time.perf_counter() - began < 0.1
    assert set(edges[1:].tolist()) == {
        t for first, step in residues(windows) for t in range(first, 3600 * SECOND + 1, step) if t > 0
    }


def test_very_many_slices_are_estimated_and_not_listed() -> None:
    windows = [Period(18, 15), Period(12, 9)]
    hour = 3600 * SECOND
    exact = hour // 45 * 12
    assert abs(slices_of(windows, 0, hour, "paired") - exact) < exact / 100
    assert slices_of(windows, 0, 45 * slices.MOST_COUNTED // 12, "paired") > 0
    assert slices_of(windows, 0, 45, "paired") == 12
    assert slices_of(windows, 5, 5, "paired") == 0


@pytest.mark.parametrize("edge", [0, 10**9], ids=["by edges", "event by event"])
@given(st.lists(periods, min_size=1, max_size=40), st.lists(st.integers(-200, 200), min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_slices_are_the_same_however_they_are_found(edge: int, windows: list[Period], times: list[int]) -> None:
    """Many windows over few events, where laying out edges pays, and few over many, where it does not."""
    ordered, progressions = np.sort(np.array(times, np.int64)), residues(windows)
    wanted = [max(t - (t - first) % step for first, step in progressions.tolist()) for t in ordered.tolist()]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kernels.slicing, "EDGE", edge)
        patched.setattr(kernels.slicing, "FEW_EDGES", 0)
        cut = Cut.at(ordered, progressions)
        assert cut.of_events().tolist() == wanted
        assert slice_starts(np.array(times, np.int64), windows)[np.argsort(times, kind="stable")].tolist() == wanted
    assert (np.diff(cut.starts) > 0).all() and (cut.lengths > 0).all()


@given(st.lists(st.lists(periods, max_size=4), max_size=8))
@settings(max_examples=100, deadline=None)
def test_edges_of_slots_are_those_of_each(slots: list[list[Period]]) -> None:
    slot = np.repeat(np.arange(len(slots)), [len(own) for own in slots])
    made = Progressions.of(window_table([window for own in slots for window in own]), slot)
    for number, own in enumerate(slots):
        found = made.rows[made.slot == number]
        assert np.array_equal(found, residues(own) if own else found[:0])
    assert len(made.slot) == len(made.rows) and (np.diff(made.slot) >= 0).all()


@given(st.lists(st.lists(periods, min_size=1, max_size=4), min_size=1, max_size=8), st.integers(1, 300))
@settings(max_examples=100, deadline=None)
def test_slices_of_slots_are_those_of_each(slots: list[list[Period]], span: int) -> None:
    slot = np.repeat(np.arange(len(slots)), [len(own) for own in slots])
    windows = window_table([window for own in slots for window in own])
    found = Progressions.of(windows, slot).slices(span, len(slots))
    wanted = np.array([slices_of(own, 0, span, "paired") for own in slots])
    assert (np.abs(found - wanted) <= np.array([1 + len(residues(own)) for own in slots])).all()


def test_slices_of_very_many_edges_are_counted_over_a_part_of_the_span() -> None:
    windows = window_table([Period(2, 2), Period(3, 3), Period(5, 5), Period(30, 30)])
    found = Progressions.of(windows, np.array([0, 0, 0, 1])).slices(3_000_000, 2)
    assert found.tolist() == pytest.approx([3_000_000 * (1 - 1 / 2 * 2 / 3 * 4 / 5), 100_000], rel=0.01)


def test_edges_of_all_time_are_more_than_64_bits_count() -> None:
    windows = [Period(step, step, offset) for step in (2, 3, 4, 5) for offset in range(step)]
    assert most_edges([*windows, Period(1, 1)], -EVERYTHING, EVERYTHING) > 4 * EVERYTHING
