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
    assert (total.low[0], total.high[0]) == (2.0, 18.0)  # 5, 2, 7, -3 in buckets 4, 3, 5 and 2
    assert (largest.low[0], largest.high[0]) == (6.0, 10.0)
    assert (mean.low[0], mean.high[0]) == (0.0, 4.0)  # 7 and -3: of two values, though four are kept
    assert gram.lookup("count", [4, 3, 1]).low.tolist() == [4, 3, 1]


def test_what_the_buckets_of_the_paper_hold() -> None:
    gram = TimeGram(4, boundaries=BOUNDARIES)
    gram.extend(PAPER)
    _, table = gram.snapshot()
    held = sorted(zip(table["row"].to_pylist(), table["bucket"].to_pylist(), strict=True))
    assert held == [(4, 4), (5, 3), (6, 5), (7, 2)]  # T5 = 2 is in bucket 3


def test_answers_within_a_batch() -> None:
    gram = TimeGram(4, boundaries=BOUNDARIES)
    gram.extend(PAPER[:2])
    gram.extend(PAPER[2:])
    at = np.arange(2, 8)
    found = gram.lookup("max", np.full(6, 3), at)
    for i, row in enumerate(at.tolist()):
        check("max", found, i, PAPER[max(0, row - 3) : row])
    assert gram.lookup("max", [3], at=4).high.tolist() == [6.0]
    assert gram.lookup("count", [4, 2], at=[3, 6]).low.tolist() == [3, 2]


def test_nulls_take_rows_and_have_no_value() -> None:
    gram = TimeGram(3, low=0, high=8, buckets=8)
    extend(gram, [5.0, None, None, None])
    for function in FUNCTIONS:
        found = gram.lookup(function, [3])
        assert found.valid.tolist() == [function == "count"]
    assert gram.lookup("count", [3]).low.tolist() == [0]
    assert gram.lookup("max", [3], at=[0]).valid.tolist() == [False]


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
    gram.extend([3.0] * 3)
    assert gram.lookup("max", [3], at=5).high.tolist() == [4]
    assert gram.lookup("max", [3], at=4).high.tolist() == [100]
    gram.extend([3.0])
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
        low, high, _ = gram.lookup("avg", [1000])
        widths.append(high[0] - low[0])
    assert widths[0] > 10 * widths[1] > 100 * widths[2]


def test_space_stays_bound_to_the_largest_window() -> None:
    rng = np.random.default_rng(5)
    gram = TimeGram(1000, low=-1, high=1, buckets=16)
    for i in range(400):
        gram.extend(np.clip(rng.normal(math.sin(i / 9), 0.05, 250), -1, 1))
    assert len(gram._pool) < 6000
    assert gram.lookup("count", [1000]).low.tolist() == [1000]


@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("number", [0, 3, 500, 1500])
def test_a_snapshot_goes_on_where_it_was(rows: int, number: int) -> None:
    rng = np.random.default_rng(rows * number)
    values, valid = rng.normal(0, 3, number + 30), rng.random(number + 30) < 0.8
    values[::50] = math.nan
    gram = TimeGram(rows, buckets=5)
    gram.extend(values[:number], valid[:number])
    state, table = gram.snapshot()
    again = TimeGram.restore(json.loads(json.dumps(state)), table)
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
        lambda: TimeGram((1 << 26) + 1),
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
        lambda: TimeGram(5).lookup("max", [1], at=1),
        lambda: TimeGram(5).lookup("max", [1, 2, 3], at=[0, 0]),
    ],
)
def test_what_cannot_be_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ValueError):
        make()


def test_a_window_that_ended_before_the_newest_batch_is_refused() -> None:
    gram = TimeGram(5, low=0, high=4, buckets=4)
    gram.extend([0.5, 1.5])
    gram.extend([2.5])
    assert gram.lookup("max", [2], at=2).high.tolist() == [2.0]
    with pytest.raises(ValueError, match="after row 2 to 3"):
        gram.lookup("max", [1], at=1)


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
    for batch in batches:
        before = len(seen)
        extend(gram, batch)
        seen += batch
        at = data.draw(st.integers(before, len(seen)))
        for function in FUNCTIONS:
            asked = np.arange(1, rows + 1)
            for row, found in ((at, gram.lookup(function, asked, at)), (len(seen), gram.lookup(function, asked))):
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
        gram.extend(values, valid)
        at, sizes = np.arange(before, len(present) + 1), np.full(length + 1, 50)
        right = [present[max(0, row - 50) : row].sum() for row in at]
        assert gram.lookup("count", sizes, at).low.tolist() == right


def test_sums_of_many_values_are_bounded_in_spite_of_rounding() -> None:
    rng = np.random.default_rng(11)
    values = np.concatenate((rng.normal(0, 1, 3000) * 10.0 ** rng.integers(-12, 12, 3000), np.full(3000, 0.1)))
    gram = TimeGram(6000, boundaries=np.unique(values))
    gram.extend(values)
    for function in ("sum", "avg"):
        found = gram.lookup(function, [1, 10, 2999, 3000, 4500, 6000])
        for i, size in enumerate((1, 10, 2999, 3000, 4500, 6000)):
            check(function, found, i, values[-size:].tolist())
