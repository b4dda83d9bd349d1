"""Bounds of whole numbers: what is left unlooked at because of them is never bad, and differences tell the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mullion.expressions.evaluate import count_bad, evaluate
from mullion.expressions.vector import arrow_type
from mullion.kernels.columns import BatchColumns
from mullion.kernels.extents import COMPARED, as_difference, extent_of, never_fails
from mullion.language.query import Call, Column, Expr, Literal
from mullion.language.types import BIGINT, INT, Type
from mullion.planner.fragments import Attribute
from mullion.slices.kernels.selection import Compared, Selection

LARGEST = 2**63 - 1


def columns_of(type_: Type, **values: list[int | None]) -> BatchColumns:
    table = pa.table({name: pa.array(own, arrow_type(type_)) for name, own in values.items()})
    return BatchColumns.of(table, dict.fromkeys(values, type_))


def call(function: str, x: Expr, y: Expr) -> Call:
    return Call(function, (x, y))


def number(value: int, type_: Type = BIGINT) -> Literal:
    return Literal(value, type_)


X, Y = Column("x"), Column("y")


def test_extents_by_hand() -> None:
    columns = columns_of(BIGINT, x=[-60, None, 1_400], y=[20, 5_000, 30])
    twice = call("multiply", X, number(2))
    assert extent_of(twice, columns) == (-120, 2_800, BIGINT)
    assert extent_of(call("subtract", twice, Y), columns) == (-5_120, 2_780, BIGINT)
    difference = as_difference(call("gt", twice, call("subtract", Y, number(300))), columns)
    assert difference == (call("subtract", twice, Y), -299, LARGEST, True)


def test_numbers_at_the_bounds_are_looked_at() -> None:
    columns = columns_of(BIGINT, x=[LARGEST - 1], y=[-5])
    assert never_fails(call("add", X, number(1)), columns)
    assert not never_fails(call("add", X, number(2)), columns)
    assert as_difference(call("lt", X, Y), columns) is None, "x - y leaves BIGINT"
    narrow = columns_of(INT, x=[2**31 - 1], y=[1])
    assert not never_fails(call("add", X, Y), narrow)
    assert never_fails(call("gt", call("subtract", X, Y), number(3, INT)), narrow)


def test_of_no_rows_nothing_is_known() -> None:
    assert extent_of(X, columns_of(BIGINT, x=[])) is None


values = st.one_of(
    st.none(), st.integers(-30, 30), st.sampled_from([LARGEST, -LARGEST - 1, LARGEST - 20, 2**62, -(2**62)])
)
small = st.one_of(st.none(), st.integers(-30, 30))
constants = st.one_of(st.integers(-30, 30), st.sampled_from([LARGEST, -LARGEST, 2**62])).map(number)


def sides(name: str) -> st.SearchStrategy[Expr]:
    column = st.just(Column(name))
    scaled = st.builds(call, st.just("multiply"), column, constants)
    plain = st.one_of(column, column, scaled)
    shifted = st.builds(call, st.sampled_from(["add", "subtract"]), plain, constants)
    return st.one_of(plain, shifted, st.builds(call, st.just("add"), constants, plain))


@given(
    st.one_of(st.lists(st.tuples(values, values), max_size=8), st.lists(st.tuples(small, small), max_size=8)),
    st.builds(call, st.sampled_from(COMPARED), sides("x"), sides("y")),
)
def test_conditions_hold_where_they_do_when_evaluated(
    rows: list[tuple[int | None, int | None]], condition: Call
) -> None:
    columns = columns_of(BIGINT, x=[x for x, _ in rows], y=[y for _, y in rows])
    vectors = {"x": columns["x"], "y": columns["y"]}
    if never_fails(condition, columns):
        assert not count_bad(condition, vectors, len(rows)).any()
    wanted = evaluate(condition, vectors, len(rows))
    selection = Selection(Compared({condition: Attribute(condition, (True,))}), columns)
    codes = selection.regions(condition).codes
    truths = wanted.values.astype(np.bool_).tolist()
    expected = [int(truth) if ok else 3 for truth, ok in zip(truths, wanted.valid.tolist(), strict=True)]
    assert codes.tolist() == expected
