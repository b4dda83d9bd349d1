"""Whatever lies in the operands, the result lies in the interval."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.slices import intervals

numbers = st.one_of(
    st.integers(-5, 5).map(float),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from((math.inf, -math.inf)),
)


@settings(max_examples=60)
@given(a=st.tuples(numbers, numbers), b=st.tuples(numbers, numbers), name=st.sampled_from(sorted(intervals.OPERATIONS)))
def test_every_result_is_inside(a: tuple[float, float], b: tuple[float, float], name: str) -> None:
    first, second = (min(a), max(a)), (min(b), max(b))
    low, high = intervals.OPERATIONS[name](first, second)
    compute = {
        "add": lambda x, y: x + y,
        "subtract": lambda x, y: x - y,
        "multiply": lambda x, y: x * y,
        "divide": lambda x, y: x / y,
    }[name]
    for x in first:
        for y in second:
            if name == "divide" and y == 0:
                continue
            value = compute(x, y)
            if math.isnan(value):
                assert math.isnan(high)
                continue
            assert low <= value and (math.isnan(high) or value <= high)
            if math.isfinite(x) and math.isfinite(y):
                exact = compute(Fraction(x), Fraction(y))
                assert low <= exact and (math.isnan(high) or exact <= high)


def test_whole_numbers_stay_whole() -> None:
    assert intervals.subtract((8.0, 10.0), (3.0, 3.0)) == (5.0, 7.0)
    assert intervals.multiply((8.0, 10.0), (3.0, 3.0)) == (24.0, 30.0)
    low, high = intervals.divide((1.0, 1.0), (3.0, 3.0))
    assert low < Fraction(1, 3) < high and high == math.nextafter(low, 1)


def test_null_and_nan() -> None:
    assert intervals.add((None, None), (1.0, 2.0)) == (None, None)
    assert intervals.divide((1.0, 2.0), (0.0, 0.0)) == (None, None)
    low, high = intervals.multiply((math.nan, math.nan), (1.0, 2.0))
    assert math.isnan(low) and math.isnan(high)
    low, high = intervals.add((1.0, math.nan), (1.0, 2.0))
    assert low == -math.inf and math.isnan(high)
    assert intervals.negative((1.0, 2.0)) == (-2.0, -1.0)
