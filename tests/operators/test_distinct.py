"""DISTINCT over windows: golab's example, and all its forms against each other and against all moments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changing import (
    COUNTED,
    STEPS,
    TIMED,
    VALUES,
    Heard,
    Life,
    Row,
    Told,
    by_negative_tuples,
    canonical,
    delta,
    play,
    relations,
    rows_of,
    same,
)
from mullion.algebra.nodes import Distinct
from mullion.expressions.coding.code_table import CodeTable
from mullion.instants import FOREVER
from mullion.operators.base import Operator
from mullion.operators.construction import Construction
from mullion.operators.distinct import DeltaStar, DistinctOperator
from mullion.options import Expiry

A, B, C = ((1, 0.0), (2, 0.0), (3, 0.0))


def operator(strategy: str, *, strict: bool = False) -> Callable[[], DistinctOperator]:
    return lambda: DistinctOperator(Distinct(COUNTED if strict else TIMED), [Told()], Construction(Expiry(strategy)))


def test_a_result_that_ends_is_replaced_by_the_youngest_row() -> None:
    """Golab, Figure 3.1(c): the first a ends, and the last a takes its place, not the second."""
    window = rows_of((A, 0, 10), (B, 2, 12), (A, 3, 13), (A, 6, 16), (C, 7, 17))
    told = play(operator("upa"), [window], [60])
    assert told == [(A, 0, 10), (A, 10, 16), (B, 2, 12), (C, 7, 17)]


def test_the_youngest_ends_last_wherever_it_started() -> None:
    window = rows_of((A, 0, 10), (A, 1, 30), (A, 5, 15))
    assert play(operator("upa"), [window], [7, 60]) == [(A, 0, 10), (A, 10, 30)]


def test_a_row_that_starts_when_the_result_ends_is_too_late_to_take_over() -> None:
    window = rows_of((A, 0, 10), (A, 4, 14), (A, 10, 20))
    assert play(operator("upa"), [window], [60]) == [(A, 0, 10), (A, 10, 14), (A, 14, 20)]
    assert play(operator("upa"), [rows_of((A, 0, 10), (A, 10, 20))], [60]) == [(A, 0, 10), (A, 10, 20)]


def test_over_strict_input_a_result_lasts_as_long_as_any_row() -> None:
    window = rows_of((A, 0, 10), (A, 4, 14), (A, 14, 20), (A, 25, 30), strict=True)
    assert play(operator("upa", strict=True), [window], [3, 7, 12, 26, 60]) == [(A, 0, 20), (A, 25, 30)]


def test_what_never_ends_stays() -> None:
    assert play(operator("upa"), [rows_of((A, 0, FOREVER), (A, 1, FOREVER))], [1, 60]) == [(A, 0, FOREVER)]


def by_value(rows: Sequence[Row]) -> dict[Any, list[Row]]:
    found = defaultdict(list)
    for row in rows:
        if row.start < row.end:
            found[canonical(row.values)].append(row)
    return found


def weak_by_all_moments(rows: Sequence[Row]) -> list[Life]:
    """What the results are, moment after moment."""
    lives: list[Life] = []
    for of_value in by_value(rows).values():
        result: Row | None = None
        for moment in range(60):
            before = result
            if result is not None and result.end == moment:
                there = [row for row in of_value if row.start < moment < row.end]
                result = max(there, key=lambda row: (row.end, row.start, row.id), default=None)
            if result is None:
                coming = [row for row in of_value if row.start == moment]
                result = min(coming, key=lambda row: row.id, default=None)
            if result is not None and result is not before:
                lives.append((result.values, moment, result.end))
    return lives


def strict_by_all_moments(rows: Sequence[Row]) -> list[Life]:
    lives: list[Life] = []
    for of_value in by_value(rows).values():
        since = None
        for moment in range(60):
            there = any(row.start <= moment < row.end for row in of_value)
            if there and since is None:
                since = moment
            if not there and since is not None:
                lives.append((of_value[0].values, since, moment))
                since = None
    return lives


def at_most_twice_the_output(operator: Operator, heard: Heard) -> None:
    assert operator.rows_held <= 2 * heard.alive(heard.before)


@settings(max_examples=25)
@given(relations(strict=False), STEPS, st.booleans())
def test_delta_star_is_right_at_all_moments_and_small(rows: list[Row], times: list[int], restarts: bool) -> None:
    told = play(operator("upa"), [rows], times, restarts=restarts, watch=at_most_twice_the_output)
    assert same(told) == same(weak_by_all_moments(rows))


@settings(max_examples=25)
@given(relations(strict=False), STEPS, st.booleans())
def test_direct_is_right_at_all_moments(rows: list[Row], times: list[int], restarts: bool) -> None:
    assert same(play(operator("scan"), [rows], times, restarts=restarts)) == same(weak_by_all_moments(rows))


@settings(max_examples=25)
@given(st.lists(st.tuples(VALUES, st.integers(0, 30)), max_size=14), STEPS, st.booleans())
def test_negative_tuples_give_the_same_over_a_window(
    events: list[tuple[Any, int]], times: list[int], restarts: bool
) -> None:
    """Nobody promises an end: the row that came last is the youngest, which over a window of time it is."""
    window = rows_of(*((value, at, at + 10) for value, at in sorted(events, key=lambda event: event[1])))
    told = play(operator("nt"), [by_negative_tuples(window)], times, restarts=restarts)
    assert same(told) == same(weak_by_all_moments(window))


@pytest.mark.parametrize("strategy", ["upa", "nt", "scan"])
@settings(max_examples=25)
@given(rows=relations(strict=True), times=STEPS, restarts=st.booleans())
def test_counting_is_right_at_all_moments(rows: list[Row], times: list[int], restarts: bool, strategy: str) -> None:
    told = play(operator(strategy, strict=True), [rows], times, restarts=restarts)
    assert same(told) == same(strict_by_all_moments(rows))


def test_delta_star_forgets_values_that_have_gone() -> None:
    """Every value comes once: the codes are used again, and the table of values stays small."""
    distinct = operator("upa")()
    window = rows_of(*(((i, 0.0), i, i + 10) for i in range(20_000)))
    for before in range(0, 20_000, 2_000):
        distinct.advance([delta(window, before, before + 2_000)], before + 2_000)
    form = distinct.form
    assert isinstance(form, DeltaStar)
    assert len(form.values) <= 11 and distinct.rows_held <= 22
    assert form.values.room <= 2_011


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([0.0, -0.0, None, float("nan"), None, -float("nan")]), [0, 0, 1, 2, 1, 2]),
        (pa.array(["a", None, "b", "a", None]), [0, 1, 2, 0, 1]),
        (pa.array([1, 2, 1], pa.timestamp("us", "UTC")), [0, 1, 0]),
        (pa.array([True, None, False, True]), [0, 1, 2, 0]),
        (pa.array([[1], [2], [1], None]), [0, 1, 0, 2]),
        (pa.array([b"x", b"y", b"x"]), [0, 1, 0]),
    ],
)
def test_equal_values_have_one_code_however_often_asked(column: pa.Array, expected: list[int]) -> None:
    table = pa.table({"x": column})
    values = CodeTable(table.schema)
    first = values.codes(table)
    assert [first.tolist().index(code) for code in first] == [expected.index(code) for code in expected]
    assert [values.codes(table.slice(i, 1))[0] for i in range(len(table))] == first.tolist()
    assert len(values) == len(set(expected))


def test_codes_that_are_forgotten_mean_something_else_later() -> None:
    schema = pa.schema([("x", pa.int64()), ("y", pa.string())])
    values = CodeTable(schema)
    for turn in range(200):
        rows = pa.table({"x": list(range(turn, turn + 50)), "y": [str(i) for i in range(turn, turn + 50)]})
        codes = values.codes(rows)
        assert values.rows(codes).equals(rows)
        values.forget(codes[:1])
    assert values.room == 50 and np.array_equal(np.sort(codes), np.arange(50))


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64(), pa.bool_(), pa.date32(), pa.timestamp("us", "UTC"),
     pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.duration("us"), pa.float32(), pa.float64()],
    ids=str,
)  # fmt: skip
def test_rows_come_back_as_they_were(kind: pa.DataType) -> None:
    """Also those that are kept as numbers alone, with NULLs, beside another column, and in the place of others."""
    numbers = [0, 1, None, 1, None, 0] if pa.types.is_boolean(kind) else [0, 1, None, 100, None, 100]
    plain = pa.array([n and n * 1000 for n in numbers] if kind == pa.timestamp("ns") else numbers)
    column = plain.cast(pa.int32()).view(kind) if pa.types.is_date32(kind) else plain.cast(kind)
    rows = pa.table({"x": column, "y": [1, None, 1, None, None, 3]})
    values = CodeTable(rows.schema)
    for start in (3, 0):
        codes = values.codes(rows.slice(start))
        assert values.rows(codes).equals(rows.slice(start))
        values.forget(np.unique(codes)[:2])
    assert values.rows(codes[:0]).schema == rows.schema


def test_the_first_of_equal_zeros_is_given_back() -> None:
    values = CodeTable(pa.schema([("x", pa.float64())]))
    codes = values.codes(pa.table({"x": [-0.0, 0.0]}))
    assert [str(x) for x in values.rows(codes)["x"].to_pylist()] == ["-0.0", "-0.0"]


def test_texts_in_dictionaries_are_plain_in_the_result() -> None:
    schema = pa.schema([("s", pa.dictionary(pa.int32(), pa.string()))])
    distinct = DistinctOperator(Distinct(TIMED), [Told(schema)])
    told = distinct.advance([delta(rows_of((("a",), 0, 5), (("a",), 1, 6)), 0, 10, schema)], 10)
    assert distinct.schema == pa.schema([("s", pa.string())]) == told.fresh.rows.schema
    assert told.fresh.rows["s"].to_pylist() == ["a", "a"]
