"""The contract of value counts and of every aggregate over them, against plain Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.algebra import VALUES, near
from mullion.aggregates import DISTINCT, REGISTRY
from mullion.aggregates.values import Median, Mode, OverValues, Percentile, TopK
from mullion.expressions.coding.dictionary import ordered_codes
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT, DOUBLE, INT, STRING, Type, decimal
from mullion.slices import value_counts
from mullion.slices.value_counts import CountedRanges, ValueCounts

EXACT = Context(prec=200)

AGGREGATES: dict[str, OverValues] = {
    **{f"{name} distinct": a for name, a in DISTINCT.items() if isinstance(a, OverValues)},
    **{f"percentile {p}": Percentile(share=p) for p in (0.0, 0.1, 1 / 3, 0.9, 1.0)},
    "median": Median(),
    "mode": Mode(),
    **{f"top {k}": TopK(most=k) for k in (1, 2, 100)},
}

Ranges = list[tuple[int, int]]


def test_every_aggregate_over_values_is_tested() -> None:
    known = {a.name for a in (*REGISTRY.values(), *DISTINCT.values()) if a.from_values}
    assert {a.name for a in AGGREGATES.values()} == known


@st.composite
def sequences(draw: st.DrawFn, values: st.SearchStrategy[Any], most: int = 40) -> tuple[list[tuple[Any, int]], Ranges]:
    """Rows of several lines one after another, and ranges within lines or, as no harm, across them."""
    lines = draw(st.lists(st.lists(st.tuples(values, st.integers(1, 5)), max_size=most), max_size=4))
    rows = [row for line in lines for row in line]
    ranges = draw(st.lists(st.tuples(*[st.integers(0, len(rows))] * 2), max_size=12))
    at = 0
    for line in lines:
        ranges += [(at, at + len(line)), (at + len(line) // 2, at + len(line))]
        at += len(line)
    return rows, ranges


def bounds_of(ranges: Ranges) -> tuple[Any, Any]:
    low, high = np.array(ranges, np.intp).reshape(-1, 2).T
    return low, high


def held(rows: list[tuple[Any, int]], low: int, high: int) -> list[Any]:
    return [value for value, count in rows[low:high] for _ in range(count)]


def made(rows: list[tuple[int, int]], ranges: Ranges, size: int) -> CountedRanges:
    code = np.array([c for c, _ in rows], np.int64)
    count = np.array([n for _, n in rows], np.int64)
    return ValueCounts(code, count, size).within(*bounds_of(ranges))


def tops(found: tuple[Any, Any, Any]) -> list[list[tuple[int, int]]]:
    offsets, codes, counts = (part.tolist() for part in found)
    pairs = list(zip(codes, counts, strict=True))
    return [pairs[low:high] for low, high in pairwise(offsets)]


def most_frequent(values: list[Any], k: int) -> list[tuple[Any, int]]:
    return sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0]))[:k]


@pytest.mark.slow
@given(
    st.sampled_from([1, 2, 5, 64, 3000]).flatmap(
        lambda size: st.tuples(st.just(size), sequences(st.integers(0, size - 1)))
    )
)
def test_counted_is_what_counting_gives(drawn: tuple[int, tuple[list[tuple[int, int]], Ranges]]) -> None:
    size, (rows, ranges) = drawn
    found = made(rows, ranges, size)
    windows = [sorted(held(rows, low, high)) for low, high in ranges]
    assert found.total.tolist() == [len(w) for w in windows]
    assert found.distinct.tolist() == [len(set(w)) for w in windows]
    for k in (1, 3, 5000):
        wanted = [most_frequent(w, k) for w in windows]
        assert tops(found.top(k)) == wanted
        assert tops(found.top_by_sliding(k)) == wanted
        assert tops(found.top_by_snapshots(k)) == wanted
    assert tops(found.in_order) == [sorted(Counter(w).items()) for w in windows]
    ranks = np.array([[0] * len(windows), [len(w) // 2 for w in windows], [len(w) - 1 for w in windows]])
    for way in (found.ranked, found.ranked_by_levels, found.ranked_by_sliding):
        codes = way(ranks.clip(0))
        assert codes.shape == ranks.shape
        assert ((codes >= 0) & (codes < max(1, size))).all()
        for row, rank in zip(codes.tolist(), ranks.tolist(), strict=True):
            assert all(w[r] == c for w, r, c in zip(windows, rank, row, strict=True) if w)
    numbers = np.arange(size, dtype=np.int64) ** 3 - 7
    wanted_sums = [sum(int(numbers[c]) for c in set(w)) for w in windows]
    assert found.present_sums(numbers).tolist() == wanted_sums
    assert found.present_sums(numbers.astype(np.float64)).tolist() == wanted_sums


@pytest.mark.parametrize(("rows", "size"), [(20_000, 7), (20_000, 900), (20_000, 15_000), (3000, 100_000)])
@pytest.mark.parametrize("most", [1, 10, 400])
def test_both_ways_agree_over_many_rows(rows: int, size: int, most: int) -> None:
    """Windows that overlap, windows apart, and values of which few or many are frequent."""
    windows = 300
    rng = np.random.default_rng(rows + size + most)
    code = (rng.random(rows) ** 3 * size).astype(np.int64)
    low = rng.integers(0, rows, windows)
    high = np.minimum(rows, low + rng.choice([0, 1, 5, 100, 3000], windows))
    found = ValueCounts(code, rng.integers(1, 4, rows), size).within(low, high)
    sliding, snapshots = found.top_by_sliding(most), found.top_by_snapshots(most)
    assert [part.tolist() for part in sliding] == [part.tolist() for part in snapshots]
    assert found.distinct.tolist() == [len(set(code[a:b].tolist())) for a, b in zip(low, high, strict=True)]


@pytest.mark.parametrize(("size", "longest"), [(20_000, 40), (20_000, 3000), (900, 3000), (7, 40)])
def test_ranks_by_sliding_and_by_levels_agree_over_many_rows(size: int, longest: int) -> None:
    """Windows that overlap or lie apart, of few rows and of many."""
    rng = np.random.default_rng(size + longest)
    code = (rng.random(20_000) ** 3 * size).astype(np.int64)
    low = rng.integers(0, 20_000, 100)
    high = np.minimum(20_000, low + rng.integers(0, longest, 100))
    found = ValueCounts(code, rng.integers(1, 4, 20_000), size).within(low, high)
    full = found.total > 0
    ranks = np.stack([found.total * i // 7 for i in range(7)])
    assert (found.ranked_by_levels(ranks)[:, full] == found.ranked_by_sliding(ranks)[:, full]).all()
    assert np.diff(found.in_order[0]).tolist() == found.distinct.tolist()


def test_ranks_are_found_by_sliding_where_windows_are_few() -> None:
    """And no longer once that has cost what bit levels cost, which are made once for all that ask."""
    counts = ValueCounts(np.arange(10_000), np.ones(10_000, np.int64), 10_000)
    apart, many = np.arange(0, 10_000, 100), np.arange(0, 9000)
    assert not counts.within(many, many + 1000)._slides_sooner(len(many))
    ways = []
    for _ in range(40):
        found, before = counts.within(apart, apart + 100), counts.slid
        assert found.ranked(np.full(100, 50)).tolist() == (apart + 50).tolist()
        ways.append(counts.slid > before)
    assert True in ways and ways == sorted(ways, reverse=True) and not ways[-1] and counts.has_levels


@pytest.mark.slow
def test_counts_beyond_32_bits() -> None:
    found = made([(0, 2**40), (1, 2**40 + 1), (0, 1)], [(0, 3), (0, 2), (2, 3)], 2)
    assert tops(found.top(1)) == [[(0, 2**40 + 1)], [(1, 2**40 + 1)], [(0, 1)]]
    assert found.top_by_snapshots(1)[2].tolist() == found.top_by_sliding(1)[2].tolist()
    assert found.ranked(np.array([2**40, 2**40, 0])).tolist() == [0, 1, 0]
    assert found.total.tolist() == [2**41 + 2, 2**41 + 1, 1]


def test_levels_that_are_not_kept_give_the_same() -> None:
    rng = np.random.default_rng(2)
    counts = ValueCounts(rng.integers(0, 50, 400), rng.integers(1, 4, 400), 50)
    low, high = np.arange(0, 300, 10), np.arange(100, 400, 10)
    middle = counts.within(low, high).total[None] // 2
    kept = counts.within(low, high).ranked_by_levels(middle).tolist()
    before = counts.operations
    counts.within(low, high).ranked_by_levels(middle)
    assert counts.operations - before == 6 * len(low)
    anew = ValueCounts(counts.code, counts.count, 50, most_kept=0)
    for _ in range(2):
        assert anew.within(low, high).ranked_by_levels(middle).tolist() == kept
    assert anew.operations > 2 * 6 * 400


def test_snapshots_in_parts_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    found = ValueCounts(rng.integers(0, 50, 400), rng.integers(1, 4, 400), 50).within(
        np.arange(300), np.arange(300) + 100
    )
    whole = tops(found.top_by_snapshots(5))
    monkeypatch.setattr(value_counts, "MOST_SNAPSHOTS", 700)
    assert tops(found.top_by_snapshots(5)) == whole


def test_sliding_adds_and_subtracts_what_differs() -> None:
    """Windows that slide cost their slide, windows of other groups their own rows, however many values there are."""
    n = 10_000
    counts = ValueCounts(np.arange(n), np.ones(n, np.int64), n)
    low = np.arange(0, 9000, 10)
    found = counts.within(low, low + 1000)
    found.distinct  # noqa: B018
    before = counts.operations
    found.top_by_sliding(3)
    assert counts.operations - before == 1000 + 2 * 10 * (len(low) - 1)
    low = np.arange(0, n, 5)
    found = counts.within(low, low + 5)
    found.distinct  # noqa: B018
    before = counts.operations
    found.top(3)
    assert counts.operations - before < 2 * n


def test_the_way_is_chosen_by_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []
    for name in ("top_by_sliding", "top_by_snapshots"):
        way: Callable[..., Any] = getattr(CountedRanges, name)
        monkeypatch.setattr(
            CountedRanges, name, lambda self, k, name=name, way=way: chosen.append(name) or way(self, k)
        )
    rng = np.random.default_rng(6)
    low = rng.integers(0, 5000, 2000)
    for size in (3, 5000):
        counts = ValueCounts(rng.integers(0, size, 20_000), np.ones(20_000, np.int64), size)
        found = counts.within(low, low + rng.integers(1000, 10_000, 2000))
        assert found.top(2) is found.top(2)
    assert chosen == ["top_by_snapshots", "top_by_sliding"]


def test_codes_are_within_their_number() -> None:
    for code in ([-1], [3]):
        with pytest.raises(ValueError, match="from 0 to 2"):
            ValueCounts(np.array(code), np.array([1]), 3)


def test_sums_of_doubles_are_rounded_once_and_forget_what_has_left() -> None:
    numbers = np.array([1e300, 0.1, 0.2, math.nan, 0.3, math.inf, -math.inf, 5e-324, 2.0**52, 1e308, 1e308])
    rows = [(i, 1) for i in range(len(numbers))]
    ranges = [(0, 3), (1, 3), (3, 5), (4, 5), (4, 6), (5, 7), (6, 7), (7, 8), (7, 9), (1, 2), (9, 11)]
    got = made(rows, ranges, len(numbers)).present_sums(numbers).tolist()
    wanted = [1e300, 0.1 + 0.2, math.nan, 0.3, math.inf, math.nan, -math.inf, 5e-324, 2.0**52, 0.1, math.inf]
    assert all(map(near, got, wanted)), got


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_sums_of_doubles_are_the_nearest(numbers: list[float]) -> None:
    rows = [(i, 1) for i in range(len(numbers))]
    total = made(rows, [(0, len(rows))], len(rows)).present_sums(np.array(numbers)).tolist()[0]
    exact = sum(map(Fraction, numbers))
    try:
        assert total == float(exact)
    except OverflowError:
        assert total == (math.inf if exact > 0 else -math.inf)


def key(value: Any) -> Any:
    """What orders values as Spark does: NaN after all, and -0.0 as 0.0."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value + 0.0)
    return value.encode() if isinstance(value, str) else value


def once(values: list[Any]) -> list[Any]:
    """The different values, in order; of equal ones the positive zero."""
    by_key = {key(v): v + 0.0 if isinstance(v, float) else v for v in values}
    return [by_key[k] for k in sorted(by_key)]


@pytest.mark.parametrize("type_", VALUES, ids=str)
@settings(max_examples=15)
@given(st.data())
def test_codes_are_ranks_in_the_order_of_spark(type_: Type, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.sampled_from((*VALUES[type_], None)), max_size=20))
    column = Vector.of(type_, values).to_arrow()
    wanted = once([v for v in values if v is not None])
    for form in (column, pa.chunked_array([column[:5], column[5:]]), column.dictionary_encode()):
        codes, found = ordered_codes(form, type_)
        assert found.type == type_
        assert repr(found.to_list()) == repr(Vector.of(type_, wanted).to_list())
        keys = [key(v) for v in wanted]
        assert codes.tolist() == [-1 if v is None else keys.index(key(v)) for v in values]


def answered(aggregate: OverValues, type_: Type, values: list[Any]) -> Any:
    """The slow way: from all values of a window."""
    ordered = sorted(values, key=key)
    different = once(values)
    if aggregate.name == "count":
        return len(different)
    if isinstance(aggregate, TopK):
        counts = Counter(map(key, values))
        return sorted(((v, counts[key(v)]) for v in different), key=lambda p: (-p[1], key(p[0])))[: aggregate.most]
    if not values:
        return None
    if isinstance(aggregate, Mode):
        counts = Counter(map(key, values))
        return min(different, key=lambda v: (-counts[key(v)], key(v)))
    if isinstance(aggregate, Percentile):
        position = aggregate.share * (len(ordered) - 1)
        lower, higher = math.floor(position), math.ceil(position)
        if lower == higher or key(ordered[lower]) == key(ordered[higher]):
            return float(ordered[lower])
        low, high = float(ordered[lower]), float(ordered[higher])
        return low + (position - lower) * (high - low)
    return distinct_sum(aggregate.name, type_, different)


def distinct_sum(name: str, type_: Type, different: list[Any]) -> Any:
    if type_.is_integer:
        total = sum(different)
        if name == "avg":
            return total / len(different)
        return total if -(2**63) <= total < 2**63 else None
    if type_.is_fractional:
        total = sum(different) if not all(map(math.isfinite, different)) else math.fsum(different)
        return total / len(different) if name == "avg" else total
    total = reduce(EXACT.add, different, Decimal(0))
    if total.copy_abs() >= Decimal(10) ** (min(38, type_.precision + 10) - type_.scale):
        return None
    if name == "sum":
        return total
    result = DISTINCT["avg"].result(type_)
    mean = EXACT.divide(total, Decimal(len(different))).quantize(Decimal(1).scaleb(-result.scale), ROUND_HALF_UP, EXACT)
    return mean if mean.copy_abs() < Decimal(10) ** (result.precision - result.scale) else None


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(near, a, b))
    return near(a, b)


CASES = [(name, type_) for name in AGGREGATES for type_ in VALUES]


@pytest.mark.parametrize(("name", "type_"), CASES, ids=[f"{n}-{t}" for n, t in CASES])
@settings(max_examples=8)
@given(st.data())
def test_an_aggregate_is_what_plain_python_gives(name: str, type_: Type, data: st.DataObject) -> None:
    aggregate = AGGREGATES[name]
    try:
        result = aggregate.result(type_)
    except TypeError:
        assert not type_.is_numeric
        return
    rows, ranges = data.draw(sequences(st.sampled_from(VALUES[type_]), most=12))
    column = Vector.of(type_, [value for value, _ in rows]).to_arrow()
    codes, values = ordered_codes(column, type_)
    counts = ValueCounts(codes, np.array([n for _, n in rows], np.int64), len(values))
    lowered = aggregate.lower_counts(type_, [values], counts.within(*bounds_of(ranges)))
    assert lowered.type == result
    for got, (low, high) in zip(lowered.to_list(), ranges, strict=True):
        wanted = answered(aggregate, type_, held(rows, low, high))
        assert alike(got, wanted), (got, wanted)
    assert len(lowered.to_arrow()) == len(ranges)


@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.parametrize("type_", [INT, DOUBLE, decimal(10, 2)], ids=str)
def test_of_no_values_at_all(name: str, type_: Type) -> None:
    codes, values = ordered_codes(Vector.of(type_, []).to_arrow(), type_)
    found = ValueCounts(codes, np.empty(0, np.int64), 0).within(np.zeros(2, np.intp), np.zeros(2, np.intp))
    wanted = 0 if name == "count distinct" else [] if name.startswith("top") else None
    assert AGGREGATES[name].lower_counts(type_, [values], found).to_list() == [wanted, wanted]


def test_percentiles_interpolate_as_spark_does() -> None:
    values = Vector.of(INT, [0, 10, 30])
    found = made([(0, 1), (1, 2), (2, 1)], [(0, 3), (0, 2), (2, 3)], 3)
    assert Percentile(share=0.5).lower_counts(INT, [values], found).to_list() == [10.0, 10.0, 30.0]
    assert Percentile(share=0.25).lower_counts(INT, [values], found).to_list() == [7.5, 5.0, 30.0]


def test_the_sum_of_each_large_integer_once_may_leave_its_type() -> None:
    values = Vector.of(BIGINT, [-(2**63), 2**62, 2**63 - 1])
    found = made([(0, 1), (1, 1), (2, 9)], [(0, 3), (1, 3), (2, 3)], 3)
    sums = DISTINCT["sum"]
    assert isinstance(sums, OverValues)
    assert sums.lower_counts(BIGINT, [values], found).to_list() == [2**62 - 1, None, 2**63 - 1]


def test_strings_have_their_own_lists() -> None:
    codes, values = ordered_codes(pa.array(["b", "a", "b"]), STRING)
    found = ValueCounts(codes, np.array([1, 1, 2]), 2).within(np.array([0, 1]), np.array([3, 2]))
    assert TopK(most=2).lower_counts(STRING, [values], found).to_list() == [[("b", 3), ("a", 1)], [("a", 1)]]
