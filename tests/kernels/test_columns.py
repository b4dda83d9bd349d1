"""Expressions over the columns of a batch: texts are computed with once each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mullion.expressions import evaluate as by_rows
from mullion.expressions.evaluate import count_bad, evaluate
from mullion.expressions.vector import Vector
from mullion.kernels.columns import BatchColumns
from mullion.language.query import Call, Case, Cast, Column, Expr, Literal
from mullion.language.types import BIGINT, BOOLEAN, DOUBLE, STRING, Type

TYPES: dict[str, Type] = {"code": STRING, "name": STRING, "n": BIGINT}
CODE, NAME, N = (Column(name) for name in TYPES)
NUMBER, WIDE = Cast(CODE, DOUBLE), Cast(N, DOUBLE)
EXPRESSIONS: list[Expr] = [
    NUMBER,
    Call("add", (NUMBER, WIDE)),
    Call("multiply", (Cast(Call("length", (NAME,)), DOUBLE), Call("add", (WIDE, NUMBER)))),
    Case(((Call("eq", (Call("upper", (NAME,)), Literal("A", STRING))), NUMBER),), WIDE),
    Call("coalesce", (NUMBER, WIDE)),
    Call("and", (Call("gt", (NUMBER, WIDE)), Call("eq", (NAME, Literal("a", STRING))))),
    Cast(Call("concat", (NAME, CODE)), DOUBLE),
    Call("concat", (NAME, CODE)),
]


def batch(length: int, seed: int = 0) -> pa.Table:
    """NULLs everywhere, and codes that are no numbers."""
    dice = np.random.default_rng(seed)

    def column(values: list[Any], type_: pa.DataType) -> pa.Array:
        return pa.array([values[i] for i in dice.integers(0, len(values), length)], type_)

    return pa.table(
        {
            "code": column(["1", "22", "x", " 7 ", "99999999999", None], pa.string()),
            "name": column(["a", "A", "b", "", None], pa.string()),
            "n": column([-3, 0, 5, None], pa.int64()),
        }
    )


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
@pytest.mark.parametrize("length", [0, 1, 200])
def test_values_and_bad_values_are_those_of_all_rows(expr: Expr, length: int) -> None:
    rows = batch(length)
    plain = {name: Vector.from_arrow(rows.column(name).combine_chunks(), type_) for name, type_ in TYPES.items()}
    columns = BatchColumns.of(rows, TYPES)
    bad = columns.bad(expr)
    expected = count_bad(expr, plain, length)
    assert (np.zeros(length, np.bool_) if bad is None else bad).tolist() == expected.tolist()
    assert columns.value(expr).to_list() == evaluate(expr, plain, length).to_list()
    if length > 1 and expr is EXPRESSIONS[1]:
        assert 0 < expected.sum() < length


def test_what_reads_one_text_is_computed_once_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 codes, 4 names and NULL, whatever else the expression reads, and however many events there are."""
    sizes, meaning = list[int](), by_rows._by_row

    def counted(row: Any, type_: Type, vectors: list[Vector], strict: bool) -> Vector:
        sizes.append(max(map(len, vectors)))
        return meaning(row, type_, vectors, strict)

    monkeypatch.setattr(by_rows, "_by_row", counted)
    columns = BatchColumns.of(batch(1000), TYPES)
    for expr in EXPRESSIONS[:6]:
        columns.value(expr)
        columns.bad(expr)
    assert sizes and max(sizes) <= 6


def test_a_batch_without_texts() -> None:
    columns = BatchColumns.of(pa.table({"n": [1, None]}), {"n": BIGINT})
    assert columns.value(Call("add", (N, N))).to_list() == [2, None]
    assert columns.value(Literal(True, BOOLEAN)).to_list() == [True, True]
