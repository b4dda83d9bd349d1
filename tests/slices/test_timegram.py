"""A timegram's bounds hold the exact answer, whatever comes and whenever it is asked."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.slices import timegram
from mullion.slices.timegram import FUNCTIONS, Bounds, TimeGram

Row = float | None

PAPER = [3.0, -10.0, -9.0, 5.0, 2.0, 7.0, -3.0]
BOUNDARIES = [-10, -6, -2, 4, 6, 10]


def exact(function: str, rows: list[Row]) -> float | Fraction | None:
    """From scratch, without rounding."""
    values = [value for value in rows if value is not None]
    if function == "count":
        return len(values)
    if not values:
        return None
    if function in ("max", "min"):
        choose = max if function == "max" else min
        return choose(values, key=lambda value: (math.isnan(value), value))
    special = {value for value in values if math.isinf(value)}
    if any(map(math.isnan, values)) or len(special) == 2:
        return math.nan
    if special:
        return special.pop()
    total = sum(map(Fraction, values), Fraction(0))
    return total / len(values) if function == "avg" else total


def check(function: str, found: Bounds, i: int, rows: list[Row]) -> None:
    right = exact(function, rows)
    low, high = found.low.tolist()[i], found.high.tolist()[i]
    assert found.valid[i] == (right is not None)
    if right is None:
        return
    if isinstance(right, float) and math.isnan(right):
        assert math.isnan(low) and math.isnan(high)
    else:
        assert low <= right <= high
    if function == "count":
        assert low == high


def extend(gram: TimeGram, rows: list[Row]) -> None:
    gram.extend([0.0 if value is None else value for value in rows], [value is not None for value in rows])


def test_the_example_of_the_paper() -> None:
    gram = TimeGram(4, boundaries=BOUNDARIES)
    gram.extend(PAPER)
    total, largest, mean = (gram.lookup(name, [size]) for name, size in (("sum", 4), ("max", 3), ("avg", 2)))
    assert (total.low[0], total.high[0]) == (11.0, 11.0)  # 5, 2, 7, -3; the paper adds ends of buckets: 2 to 18
    assert (largest.low[0], largest.high[0]) == (6.0, 10.0)
    assert (mean.low[0], mean.high[0]) == (2.0, 2.0)  # 7 and -3: of two values, though four are kept
    assert gram.lookup("count", [4, 3, 1]).low.tolist() == [4, 3, 1]


def test_what_the_buckets_of_the_paper_hold() -> None:
    gram = TimeGram(4, boundaries=BOUNDARIES)
    gram.extend(PAPER)
    assert gram._newest.tolist() == [0, 3, 7, 5, 4, 6, 0, 0]  # T5 = 2 is in bucket 3; T3 has left


def test_answers_within_a_batch() -> None:
    gram = TimeGram(4, boundaries=BOUNDARIES)
    gram.extend(PAPER[:2])
    again = gram.copy()
    at = np.arange(2, 8)
    found = gram.extend_and_lookup(PAPER[2:], "max", np.full(6, 3), at)
    for i, row in enumerate(at.tolist()):
        check("max", found, i, PAPER[max(0, row - 3) : row])
    assert found.high.tolist()[2] == 6.0
    assert again.extend_and_lookup(PAPER[2:], "count", [4, 2], [3, 6]).low.tolist() == [3, 2]


def test_nulls_take_rows_and_have_no_value() -> None:
    gram = TimeGram(3, low=0, high=8, buckets=8)
    extend(gram, [5.0, None, None, None])
    for function in FUNCTIONS:
        found = gram.lookup(function, [3])
        assert found.valid.tolist() == [function == "count"]
    assert gram.lookup("count", [3]).low.tolist() == [0]
    assert TimeGram(3).lookup("max", [3]).valid.tolist() == [False]


def test_what_is_not_finite_is_exact() -> None:
    gram = TimeGram(9, low=0, high=8)
    gram.extend([math.nan, 3.0, math.inf, -math.inf, 1.0])
    largest, smallest, total = (gram.lookup(name, [1, 2, 3, 5]) for name in ("max", "min", "sum"))
    np.testing.assert_array_equal(largest.low[2:], [math.inf, math.nan])
    np.testing.assert_array_equal(largest.high[2:], [math.inf, math.nan])
    np.testing.assert_array_equal(smallest.high[1:], [-math.inf] * 3)
    np.testing.assert_array_equal(total.low[1:], [-math.inf, math.nan, math.nan])


def test_an_end_bucket_widens_and_goes_back_when_it_is_empty() -> None:
    gram = TimeGram(3, low=0, high=8, buckets=4)
    gram.extend([1.0, 100.0, -7.5])
    assert gram.boundaries.tolist() == [-7.5, 2, 4, 6, 100]
    assert gram.lookup("max", [2]).high.tolist() == [100]
    assert gram.extend_and_lookup([3.0] * 3, "max", [3, 3], [4, 5]).high.tolist() == [100, 4]
    assert gram.boundaries.tolist() == [0, 2, 4, 6, 8]


def test_the_range_is_learnt_from_the_first_values() -> None:
    rng = np.random.default_rng(7)
    values = rng.uniform(-20, 20, timegram.LEARNING + 500)
    at_once, one_by_one = TimeGram(100, buckets=8), TimeGram(100, buckets=8)
    at_once.extend(values[: timegram.LEARNING])
    for value in values[: timegram.LEARNING]:
        one_by_one.extend([value])
    assert one_by_one.boundaries.tolist() == at_once.boundaries.tolist()
    assert np.allclose(np.diff(at_once.boundaries), np.diff(at_once.boundaries)[0])
    for gram in (at_once, one_by_one):
        gram.extend(values[timegram.LEARNING :])
    sizes = np.arange(1, 101)
    np.testing.assert_array_equal(at_once.lookup("sum", sizes), one_by_one.lookup("sum", sizes))


def test_more_buckets_give_narrower_bounds() -> None:
    values = np.random.default_rng(3).normal(0, 10, 5000)
    widths = []
    for buckets in (4, 64, 1024):
        gram = TimeGram(1000, buckets=buckets)
        gram.extend(values)
        low, high, _ = gram.lookup("max", [10])
        widths.append(high[0] - low[0])
    assert widths[0] > 10 * widths[1] > 100 * widths[2] > 0


def test_space_stays_bound_to_the_largest_window() -> None:
    rng = np.random.default_rng(5)
    gram = TimeGram(1000, low=-1, high=1, buckets=16)
    for i in range(400):
        gram.extend(np.clip(rng.normal(math.sin(i / 9), 0.05, 250), -1, 1))
    assert len(gram._recent.columns[0]) < 3000
    assert gram.lookup("count", [1000]).low.tolist() == [1000]


@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("number", [0, 3, 500, 1500])
def test_a_snapshot_goes_on_where_it_was(rows: int, number: int) -> None:
    rng = np.random.default_rng(rows * number)
    values, valid = rng.normal(0, 3, number + 30), rng.random(number + 30) < 0.8
    values[::50] = math.nan
    gram = TimeGram(rows, buckets=5)
    gram.extend(values[:number], valid[:number])
    again = TimeGram.restore(json.loads(json.dumps(gram.snapshot())), gram.rows_after(0), gram.ends())
    sizes = np.arange(1, rows + 1)
    for upto in (number, number + 1, number + 30):
        for one in (gram, again):
            one.extend(values[one.seen : upto], valid[one.seen : upto])
        for function in FUNCTIONS:
            np.testing.assert_array_equal(gram.lookup(function, sizes), again.lookup(function, sizes))


@pytest.mark.parametrize(
    "make",
    [
        lambda: TimeGram(0),
        lambda: TimeGram(5, buckets=0),
        lambda: TimeGram(5, boundaries=[1]),
        lambda: TimeGram(5, boundaries=[1, 3, 2]),
        lambda: TimeGram(5, boundaries=[1, math.nan]),
        lambda: TimeGram(5, low=1),
        lambda: TimeGram(5, low=2, high=1),
        lambda: TimeGram(5).extend([1.0], [True, False]),
        lambda: TimeGram(5).lookup("median", [1]),
        lambda: TimeGram(5).lookup("max", [6]),
        lambda: TimeGram(5).lookup("sum", [0]),
        lambda: TimeGram(5).extend_and_lookup([], "max", [1], [1]),
        lambda: TimeGram(5).extend_and_lookup([1.0], "max", [1, 2, 3], [0, 0]),
        lambda: TimeGram(5).extend_and_lookup([1.0], "max", [1, 1], [1, 0]),
    ],
)
def test_what_cannot_be_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ValueError):
        make()


tame = st.integers(-40, 40).map(lambda whole: whole / 8)
rows_of = st.lists(st.one_of(st.none(), tame, st.floats(allow_nan=True, allow_infinity=True, width=64)), max_size=25)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    rows=st.integers(1, 30),
    buckets=st.integers(1, 9),
    known=st.sampled_from([None, (-3.0, 3.0), (1.0, 1.0), (-1e308, 1e308)]),
    batches=st.lists(rows_of, max_size=6),
    data=st.data(),
)
def test_the_exact_answer_is_always_inside(
    rows: int, buckets: int, known: tuple[float, float] | None, batches: list[list[Row]], data: st.DataObject
) -> None:
    low, high = known or (None, None)
    gram = TimeGram(rows, buckets=buckets, low=low, high=high)
    seen: list[Row] = []
    asked = np.arange(1, rows + 1)
    for batch in batches:
        at = data.draw(st.integers(len(seen), len(seen) + len(batch)))
        values, valid = [0.0 if value is None else value for value in batch], [value is not None for value in batch]
        within = {
            function: gram.copy().extend_and_lookup(values, function, asked, np.full(rows, at), valid)
            for function in FUNCTIONS
        }
        extend(gram, batch)
        seen += batch
        for function in FUNCTIONS:
            for row, found in ((at, within[function]), (len(seen), gram.lookup(function, asked))):
                for i in range(rows):
                    check(function, found, i, seen[max(0, row - 1 - i) : row])


def test_an_average_that_is_no_double_is_inside() -> None:
    gram = TimeGram(3, boundaries=[1, 2, 2])
    gram.extend([1.0, 2.0, 2.0])
    check("avg", gram.lookup("avg", [3]), 0, [1.0, 2.0, 2.0])  # 5 / 3, which the nearest double is above
    gram = TimeGram(3, boundaries=[-2, -2, -1])
    gram.extend([-1.0, -2.0, -2.0])
    check("avg", gram.lookup("avg", [3]), 0, [-1.0, -2.0, -2.0])


def test_nothing_that_may_be_asked_is_dropped() -> None:
    rng = np.random.default_rng(13)
    gram, present = TimeGram(50, low=0, high=3, buckets=3), np.empty(0, np.int64)
    for i in range(300):
        length = rng.integers(1, 120)
        values, valid = rng.integers(0, 3, length) * (i % 7 < 4), rng.random(length) < 0.8
        before, present = len(present), np.concatenate((present, valid))
        at, sizes = np.arange(before, len(present) + 1), np.full(length + 1, 50)
        right = [present[max(0, row - 50) : row].sum() for row in at]
        assert gram.extend_and_lookup(values, "count", sizes, at, valid).low.tolist() == right


def test_sums_of_many_values_are_bounded_in_spite_of_rounding() -> None:
    rng = np.random.default_rng(11)
    values = np.concatenate((rng.normal(0, 1, 3000) * 10.0 ** rng.integers(-12, 12, 3000), np.full(3000, 0.1)))
    gram = TimeGram(6000, boundaries=np.unique(values))
    gram.extend(values)
    for function in ("sum", "avg"):
        found = gram.lookup(function, [1, 10, 2999, 3000, 4500, 6000])
        for i, size in enumerate((1, 10, 2999, 3000, 4500, 6000)):
            check(function, found, i, values[-size:].tolist())


def drifting(kind: str, number: int) -> list[Row]:
    """Values that go their way, with NULLs and what is not finite among them."""
    rng, steps = np.random.default_rng(number), np.arange(number) / number
    middle = {
        "rising": 100 + 100 * steps,
        "falling": -3000 * steps,
        "exploding": np.exp(30 * steps),
        "jumping": np.where(steps < 0.4, 0, 1e6),
        "back and forth": 50 * np.sin(12 * steps),
        "narrowing": 0 * steps,
    }[kind]
    noise = rng.normal(0, 1, number) * (1 if kind != "narrowing" else np.where(steps < 0.3, 1e4, 1e-3))
    rows: list[Row] = (middle + noise).tolist()
    for value, every in ((None, 7), (math.nan, 997), (math.inf, 1409), (-math.inf, 1511)):
        rows[every - 1 :: every] = [value] * len(rows[every - 1 :: every])
    return rows


KINDS = ("rising", "falling", "exploding", "jumping", "back and forth", "narrowing")


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold_while_values_drift(kind: str) -> None:
    rows, rng = drifting(kind, 9000), np.random.default_rng(1)
    gram, at = TimeGram(2000, buckets=16), 0
    while at < len(rows):
        upto = at + int(rng.integers(1, 900))
        extend(gram, rows[at:upto])
        at = upto
        sizes = [1, 5, 60, 700, 2000]
        for function in FUNCTIONS:
            found = gram.lookup(function, sizes)
            for i, size in enumerate(sizes):
                check(function, found, i, rows[:at][-size:])


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"exploding"}))
def test_buckets_follow_the_values(kind: str) -> None:
    """Most buckets are of use, however far the values have gone from the first ones."""
    number, held = 20_000, 4000
    rows = drifting(kind, number)
    gram = TimeGram(held, buckets=64)
    for at in range(0, number, 500):
        extend(gram, rows[at : at + 500])
        finite = [value for value in rows[: at + 500][-held:] if value is not None and math.isfinite(value)]
        settles = {"jumping": 0.4, "narrowing": 0.3}.get(kind, 0) * number + held + 2 * timegram.LEARNING
        if at < settles:
            continue
        width = (max(finite) - min(finite)) / 64
        for function in ("max", "min"):
            low, high, _ = gram.lookup(function, [100])
            if np.isfinite(low[0]):
                assert high[0] - low[0] <= 4 * width, (at, low, high, min(finite), max(finite))


def test_a_given_range_stays() -> None:
    gram = TimeGram(1000, low=0, high=10, buckets=4)
    gram.extend(np.linspace(0, 500, 9000))
    assert gram.boundaries.tolist() == [0, 2.5, 5, 7.5, 500]


@pytest.mark.parametrize("kind", KINDS)
def test_one_batch_or_many_or_restarts_are_the_same(kind: str) -> None:
    rows, rng = drifting(kind, 6000), np.random.default_rng(5)
    at_once, in_parts, restarted = (TimeGram(1500, buckets=16) for _ in range(3))
    extend(at_once, rows)
    at = 0
    while at < len(rows):
        upto = at + int(rng.integers(1, 300))
        extend(in_parts, rows[at:upto])
        extend(restarted, rows[at:upto])
        state = json.loads(json.dumps(restarted.snapshot()))
        restarted = TimeGram.restore(state, restarted.rows_after(0), restarted.ends())
        at = upto
    sizes = np.arange(1, 1501)
    for function in FUNCTIONS:
        np.testing.assert_array_equal(in_parts.lookup(function, sizes), restarted.lookup(function, sizes))
        if function not in ("max", "min"):
            np.testing.assert_array_equal(at_once.lookup(function, sizes), restarted.lookup(function, sizes))
    np.testing.assert_array_equal(at_once.boundaries[1:-1], restarted.boundaries[1:-1])


def test_a_copy_takes_rows_while_the_other_is_asked() -> None:
    rng = np.random.default_rng(8)
    values = rng.normal(0, 1, 20_000)
    grams = [TimeGram(700, buckets=8)]
    for at in range(0, len(values), 333):
        grams.append(grams[-1].copy())
        grams[-1].extend(values[at : at + 333])
    abandoned = grams[-1].copy()
    abandoned.extend(rng.normal(9, 1, 50))
    last = grams[-1].copy()
    last.extend([0.25])
    for gram in (*grams[-3:], last):
        seen = np.append(values, 0.25)[: gram.seen].tolist()
        for function in FUNCTIONS:
            found = gram.lookup(function, [1, 8, 100, 700])
            for i, size in enumerate((1, 8, 100, 700)):
                check(function, found, i, seen[-size:])


def test_a_huge_value_harms_only_windows_that_hold_it() -> None:
    rows: list[Row] = [1e308, 1e308, -1e308, *([0.1] * 50), 1e308, 1e308, 0.25, 0.75]
    gram = TimeGram(100, buckets=4)
    extend(gram, rows)
    sizes = np.arange(1, len(rows) + 1)
    for function in ("sum", "avg"):
        found = gram.lookup(function, sizes)
        for i, size in enumerate(sizes.tolist()):
            check(function, found, i, rows[-size:])
    assert found.low[1] == found.high[1] == 0.5
