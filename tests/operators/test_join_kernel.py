"""Keys as numbers, and pairs of rows with equal keys that live at the same time."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.expressions.coding.hashes import keys_of, mixed
from mullion.operators.kernels.join import KeyRuns, common_runs, overlapping_pairs

COLUMNS = {
    "whole": pa.array([1, 2, None, 1, -1]),
    "small": pa.array([1, 2, None, 1, -1], pa.int8()),
    "texts": pa.array(["x", "", None, "x", "much longer than a word"]),
    "sliced": pa.array(["no", "x", "", None, "x", "y"]).slice(1),
    "large": pa.array(["x", "", None, "x", "y"], pa.large_string()),
    "bytes": pa.array([b"x", b"", None, b"x", b"\0"]),
    "dictionary": pa.array(["x", "", None, "x", "y"]).dictionary_encode(),
    "whole dictionary": pa.array([1, 2, None, 1, -1]).dictionary_encode(),
    "decimals": pa.array([Decimal("1.20"), Decimal("2"), None, Decimal("1.2"), Decimal("-1")]),
    "doubles": pa.array([0.0, float("nan"), None, -0.0, 1.5]),
    "floats": pa.array([0.0, float("nan"), None, -0.0, 1.5], pa.float32()),
    "dates": pa.array([date(2024, 1, 1), date(2024, 1, 2), None, date(2024, 1, 1), date(1969, 1, 1)]),
    "times": pa.array([1, 2, None, 1, -1], pa.timestamp("us", "UTC")),
    "seconds": pa.array([1, 2, None, 1, -1], pa.timestamp("s")),
    "booleans": pa.array([True, False, None, True, False]),
    "nothing": pa.nulls(5),
}


@pytest.mark.parametrize(
    "names", [*[(name,) for name in COLUMNS], ("whole", "texts"), ("doubles", "decimals", "dates")]
)
@pytest.mark.parametrize("null_is_value", [False, True])
def test_equal_keys_are_equal(names: tuple[str, ...], null_is_value: bool) -> None:
    keys = keys_of([COLUMNS[name] for name in names], 5, null_is_value=null_is_value)
    same = keys.take(np.repeat(np.arange(5), 5)).equals(keys.take(np.tile(np.arange(5), 5))).reshape(5, 5)
    values = list(zip(*(_values(COLUMNS[name]) for name in names), strict=True))
    for i in range(5):
        known = null_is_value or None not in values[i]
        assert keys.known is None or keys.known[i] == known
        for j in range(5):
            if known and (null_is_value or None not in values[j]):
                assert same[i, j] == (values[i] == values[j])


def _values(column: Any) -> list[Any]:
    return ["nan" if value != value else value for value in column.to_pylist()]


def test_texts_have_the_same_codes_in_every_form() -> None:
    texts = ["x", "", "much longer than a word"]
    forms = [pa.array(texts), pa.array(texts).dictionary_encode(), pa.array(["no", *texts]).slice(1)]
    codes = [keys_of([pa.chunked_array([form])], 3).codes.tolist() for form in forms]
    assert codes[0] == codes[1] == codes[2] and len(set(codes[0])) == 3


def test_hashes_are_the_same_in_every_process() -> None:
    assert mixed([np.array([1, 2]), np.array([2, 1])], 2).tolist() == [1729233307704022544, -6351857306234405426]


side = st.lists(st.tuples(st.integers(-2, 3), st.integers(0, 9), st.integers(0, 9)), max_size=12).map(sorted)


@given(side, side, st.integers(1, 5))
def test_pairs_are_those_of_nested_loops(probe: Any, kept: Any, portion: int) -> None:
    def arrays(rows: Any) -> Any:
        codes, start, length = (np.array([row[i] for row in rows], np.int64) for i in range(3))
        return KeyRuns.of(codes), (start, start + length)

    (mine, lives), (theirs, other) = arrays(probe), arrays(kept)
    found = [
        (p, k, start, end)
        for pairs in overlapping_pairs(mine, theirs, common_runs(mine, theirs), lives, other, portion)
        for p, k, start, end in zip(pairs.probe, pairs.stored, pairs.start, pairs.end, strict=True)
        if len(pairs) <= portion
    ]
    expected = [
        (p, k, max(a, b), min(a + m, b + n))
        for p, (i, a, m) in enumerate(probe)
        for k, (j, b, n) in enumerate(kept)
        if i == j and max(a, b) < min(a + m, b + n)
    ]
    assert found == expected


@pytest.mark.parametrize("sizes", [(1, 1000), (1000, 1), (500, 500), (0, 5), (5, 0)])
def test_common_runs_of_few_and_many(sizes: tuple[int, int]) -> None:
    random = np.random.default_rng(sizes[0])
    a, b = (np.sort(random.integers(0, 400, size)) for size in sizes)
    mine, theirs = common_runs(KeyRuns.of(a), KeyRuns.of(b))
    assert KeyRuns.of(a).codes[mine].tolist() == KeyRuns.of(b).codes[theirs].tolist() == np.intersect1d(a, b).tolist()
