"""Ordered sharing answers as if each window were computed from scratch."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.slices.ordered_sharing import FUNCTIONS, OrderedSharing, SharedAnswers

Row = float | None

SIZES = dict(zip("ABCDEF", (2, 4, 6, 8, 10, 12), strict=True))


def exact(function: str, rows: list[Row]) -> Row:
    """From scratch; NaN is the largest."""
    values = [value for value in rows if value is not None]
    choose = max if function == "max" else min
    return choose(values, key=lambda value: (math.isnan(value), value), default=None)


def same(found: SharedAnswers, i: int, right: Row) -> bool:
    if right is None or not found.valid[i]:
        return right is None and not found.valid[i]
    return bool(found.values[i] == right or (math.isnan(found.values[i]) and math.isnan(right)))


def extend(shared: OrderedSharing, rows: list[Row]) -> None:
    shared.extend([0.0 if value is None else value for value in rows], [value is not None for value in rows])


def figure(function: str = "max", sign: float = 1) -> OrderedSharing:
    """Windows A to F with the answers 5, 10, 15, 20, 30 and 50, as in the paper's Figures 7 and 8."""
    shared = OrderedSharing(20, function)
    for value in (50, 30, 20, 15, 10, 5):
        shared.extend([-60.0 * sign, sign * value])
    assert shared.lookup([SIZES["F"]]).values.tolist() == [50 * sign]
    return shared


def test_figure_7_an_insert_prunes_smaller_windows() -> None:
    shared = figure()
    assert [answer for _, answer in shared.kept()] == [50, 30, 20, 15, 10, 5]
    shared.extend([30.0])
    assert shared.kept() == [(2, 50), (13, 30)]
    assert shared.lookup([SIZES[name] for name in "ABCDEF"]).values.tolist() == [30] * 5 + [50]


def test_figure_7_a_value_takes_the_place_of_all_that_it_reaches() -> None:
    """30 has left E, so that the paper gives 35 to D and drops E. What is left in E is below 30: 35 is its answer."""
    shared = figure()
    shared.extend([-70.0, -70.0])
    (row,) = (row for row, answer in shared.kept() if answer == 30)
    assert shared.seen - row >= SIZES["E"]
    shared.extend([35.0])
    assert [answer for _, answer in shared.kept()] == [50, 35]
    assert shared.lookup([SIZES[name] for name in "ABCDE"]).values.tolist() == [35] * 5


def test_figure_8_a_window_between_two_is_answered_by_the_larger() -> None:
    shared = figure()
    assert shared.lookup([SIZES["E"]]).values.tolist() == [30]
    assert shared.lookup([SIZES["E"] + 1]).values.tolist() == [50]


def test_figure_8_an_answer_that_is_outside_is_not_lost() -> None:
    shared = figure()
    shared.extend([-70.0])
    assert shared.lookup([SIZES["E"] + 1]).values.tolist() == [30]  # 50 was the oldest row of it


def test_figure_7_for_min() -> None:
    shared = figure("min", -1)
    shared.extend([-30.0])
    assert shared.kept() == [(2, -50), (13, -30)]


def test_few_answers_are_kept_and_none_is_lost() -> None:
    rng = np.random.default_rng(2)
    shared = OrderedSharing(1000)
    values = rng.uniform(-20, 20, 5000)
    sizes = rng.integers(1, 1001, len(values))
    for i, size in enumerate(sizes):
        shared.extend(values[i : i + 1])
        assert shared.lookup([size]).values[0] == values[max(0, i + 1 - size) : i + 1].max()
        assert len(shared.kept()) < 30


@pytest.mark.parametrize("function", FUNCTIONS)
def test_falling_and_rising_values(function: str) -> None:
    """All of one direction are kept, those of the other never."""
    shared, values = OrderedSharing(50, function), np.concatenate([-np.arange(400.0), np.arange(400.0)])
    at = np.arange(1, 801)
    sizes = np.random.default_rng(3).integers(1, 51, 800)
    found = shared.extend_and_lookup(values, sizes, at)
    choose = np.max if function == "max" else np.min
    assert found.values.tolist() == [choose(values[max(0, i - size) : i]) for i, size in zip(at, sizes, strict=True)]
    assert len(shared.kept()) == (1 if function == "max" else 50)
    assert len(shared._stairs[0]) < 2000


def test_a_copy_takes_rows_while_the_other_is_asked() -> None:
    shared = OrderedSharing(6)
    shared.extend([9.0, 2, 7, 1])
    later = shared.copy()
    later.extend([8.0, 3.0])
    assert shared.lookup([1, 2, 3, 6]).values.tolist() == [1.0, 7.0, 7.0, 9.0]
    assert later.lookup([1, 2, 3, 6]).values.tolist() == [3.0, 8.0, 8.0, 9.0]


def test_order_of_doubles() -> None:
    shared = OrderedSharing(3)
    shared.extend([math.nan, math.inf, 0.0, -0.0])
    assert shared.lookup([1, 2, 3]).values.tolist() == [0.0, 0.0, math.inf]
    assert [row for row, _ in shared.kept()] == [2, 4], "the newest of equals"
    shared.extend([1.0, 1.0, 1.0, 0.5])
    assert shared.kept() == [(7, 1.0), (8, 0.5)], "the newest of equals in a batch too"
    shared.extend([math.nan])
    assert all(map(math.isnan, shared.lookup([1, 3]).values))
    least = OrderedSharing(2, "min")
    least.extend([math.nan, math.nan])
    assert math.isnan(least.lookup([2]).values[0])
    least.extend([-math.inf])
    assert least.lookup([2]).values.tolist() == [-math.inf]


def test_before_any_row_the_answer_is_null() -> None:
    shared = OrderedSharing(5)
    assert shared.lookup([1, 5]).valid.tolist() == [False, False]
    shared.extend([], [])
    shared.extend([7.0])
    assert shared.lookup([1, 5]).values.tolist() == [7.0, 7.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: OrderedSharing(0),
        lambda: OrderedSharing(5, "sum"),
        lambda: OrderedSharing(5).lookup([6]),
        lambda: OrderedSharing(5).lookup([0]),
        lambda: OrderedSharing(5).extend([1.0], []),
        lambda: OrderedSharing(5).extend_and_lookup([1.0], [1], [2]),
        lambda: OrderedSharing(5).extend_and_lookup([1.0], [1, 1], [1, 0]),
        lambda: OrderedSharing(5).extend_and_lookup([1.0], [9], [0]),
    ],
)
def test_what_cannot_be_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ValueError):
        make()


row = st.one_of(st.none(), st.integers(-3, 3).map(float), st.floats(allow_nan=True, allow_infinity=True), st.just(-0.0))


@settings(max_examples=200, deadline=None)
@given(
    rows=st.integers(1, 12),
    function=st.sampled_from(FUNCTIONS),
    steps=st.lists(st.one_of(st.lists(row, max_size=15), st.integers(1, 12), st.just("snapshot")), max_size=30),
)
def test_any_interleaving_equals_from_scratch(rows: int, function: str, steps: list[list[Row] | int | str]) -> None:
    shared = OrderedSharing(rows, function)
    seen: list[Row] = []
    for step in steps:
        if isinstance(step, list):
            extend(shared, step)
            seen += step
        elif isinstance(step, int):
            size = min(step, rows)
            assert same(shared.lookup([size]), 0, exact(function, seen[-size:]))
        else:
            shared = OrderedSharing.restore(json.loads(json.dumps(shared.snapshot())), shared.stairs_after(0))
            assert shared.seen == len(seen)
        kept = [row for row, _ in shared.kept()]
        assert kept == sorted(set(kept))
    found = shared.lookup(np.arange(1, rows + 1))
    for i in range(rows):
        assert same(found, i, exact(function, seen[-1 - i :]))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_restored_from_what_each_batch_added(function: str) -> None:
    rng = np.random.default_rng(4)
    shared, saved = OrderedSharing(40, function), [OrderedSharing(40, function).stairs_after(0)]
    for i in range(60):
        before = shared.seen
        shared.extend(rng.integers(-5, 5, rng.integers(0, 9)) + (i % 20) * (-1) ** (i // 20))
        saved.append(shared.stairs_after(before))
        again = OrderedSharing.restore(shared.snapshot(), pa.concat_tables(saved))
        assert again.kept() == shared.kept() and again.seen == shared.seen


@settings(max_examples=100, deadline=None)
@given(
    function=st.sampled_from(FUNCTIONS),
    before=st.lists(row, max_size=9),
    batch=st.lists(row, max_size=20),
    asked=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 8)), max_size=20),
)
def test_asked_within_a_batch(function: str, before: list[Row], batch: list[Row], asked: list[tuple[int, int]]) -> None:
    shared = OrderedSharing(8, function)
    extend(shared, before)
    pairs = sorted((len(before) + min(at, len(batch)), size) for at, size in asked)
    found = shared.extend_and_lookup(
        [0.0 if value is None else value for value in batch],
        [size for _, size in pairs],
        [at for at, _ in pairs],
        [value is not None for value in batch],
    )
    seen = before + batch
    for i, (at, size) in enumerate(pairs):
        assert same(found, i, exact(function, seen[max(0, at - size) : at]))
    assert shared.seen == len(seen)
    assert same(shared.lookup([8]), 0, exact(function, seen[-8:]))
