"""Evaluation of whole expressions: by hand, against one row at a time, and without ever raising."""

from __future__ import annotations

import math
import random
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.expressions.evaluate import count_bad, evaluate, is_vectorised
from mullion.expressions.typing import resolve
from mullion.expressions.vector import Vector
from mullion.language.query import Call, Case, Cast, Column, Expr, Literal
from mullion.language.types import BIGINT, BOOLEAN, DOUBLE, INT, NULL, STRING, TINYINT, Type, decimal
from mullion.spark.expressions import bad_text

TYPES = {"a": INT, "b": INT, "x": DOUBLE, "s": STRING, "n": BIGINT, "t": TINYINT, "p": BOOLEAN, "d": decimal(10, 2)}


def run(expr: Expr, **columns: list[Any]) -> tuple[list[Any], list[bool]]:
    length = len(next(iter(columns.values())))
    vectors = {name: Vector.of(TYPES[name], items) for name, items in columns.items()}
    resolved, type_ = resolve(expr, TYPES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = evaluate(resolved, vectors, length)
        bad = count_bad(resolved, vectors, length)
    assert got.type == type_ and len(got) == len(bad) == length
    return got.to_list(), bad.tolist()


def call(name: str, *args: str | int | float | Expr) -> Call:
    kinds: dict[type, Type] = {int: INT, float: DOUBLE}
    made: list[Expr] = []
    for arg in args:
        if isinstance(arg, str):
            made.append(Column(arg))
        else:
            made.append(Literal(arg, kinds[type(arg)]) if isinstance(arg, int | float) else arg)
    return Call(name, tuple(made))


ratio = call("gt", call("divide", "a", "b"), 2)


@pytest.mark.parametrize(
    ("expr", "columns", "values", "bad"),
    [
        (call("add", "a", "b"), {"a": [1, (1 << 31) - 1, None], "b": [2, 1, 1]}, [3, None, None], [False, True, False]),
        (call("divide", "a", "b"), {"a": [1, 1], "b": [4, 0]}, [0.25, None], [False, True]),
        (call("div", "a", "b"), {"a": [-7, 7], "b": [2, 0]}, [-3, None], [False, True]),
        (call("mod", "a", "b"), {"a": [-7, 7], "b": [3, -3]}, [-1, 1], [False, False]),
        (call("negative", "t"), {"t": [-128, 5]}, [None, -5], [True, False]),
        (call("abs", "t"), {"t": [-128, -5]}, [None, 5], [True, False]),
        (Cast(Column("s"), INT), {"s": ["1.9", "x", None]}, [1, None, None], [False, True, False]),
        (Cast(Column("x"), INT), {"x": [1.9, math.nan, 1e10]}, [1, None, None], [False, True, True]),
        (call("and", ratio, call("ne", "b", 0)), {"a": [1, 9], "b": [0, 3]}, [False, True], [False, False]),
        (call("and", call("ne", "b", 0), ratio), {"a": [1, 9], "b": [0, 3]}, [False, True], [False, False]),
        (call("or", call("eq", "b", 0), ratio), {"a": [1, 9], "b": [0, 3]}, [True, True], [False, False]),
        (call("or", ratio, call("lt", "a", 0)), {"a": [1, -1], "b": [0, 0]}, [None, True], [True, False]),
        (call("coalesce", call("divide", "a", "b"), 0.0), {"a": [1], "b": [0]}, [0.0], [True]),
        (call("coalesce", "x", call("divide", "a", "b")), {"x": [1.0, None], "a": [1, 1], "b": [0, 0]}, [1.0, None],
         [False, True]),
        (Case(((call("ne", "b", 0), call("divide", "a", "b")),), Literal(0.0, DOUBLE)), {"a": [1, 1], "b": [0, 2]},
         [0.0, 0.5], [False, False]),
        (call("if", call("eq", "b", 0), call("divide", "a", "b"), 1.0), {"a": [1, 1], "b": [0, 2]}, [None, 1.0],
         [True, False]),
        (call("eq", "x", Literal(math.nan, DOUBLE)), {"x": [math.nan, 1.0]}, [True, False], [False, False]),
        (call("gt", Literal(math.nan, DOUBLE), "x"), {"x": [math.inf, math.nan]}, [True, False], [False, False]),
        (call("in", "a", 1, Literal(None, NULL)), {"a": [1, 2, None]}, [True, None, None], [False] * 3),
        (call("in", "s", Literal("u", STRING)), {"s": ["u", "v", None]}, [True, False, None], [False] * 3),
        (call("startswith", "s", Literal("u", STRING)), {"s": ["uv", "v", None]}, [True, False, None], [False] * 3),
        (call("concat", call("round", "x", 1)), {"x": [-0.01, -0.0, -0.05]}, ["0.0", "0.0", "-0.1"], [False] * 3),
        (call("nullif", Literal(None, NULL), "a"), {"a": [1, None]}, [None, None], [False] * 2),
        (call("nullif", "a", "b"), {"a": [1, 2, None], "b": [1, None, 1]}, [None, 2, None], [False] * 3),
        (call("greatest", "x", 1.0), {"x": [math.nan, None, 0.5]}, [math.nan, 1.0, 1.0], [False] * 3),
        (call("round", "x", 2), {"x": [2.675, -0.005, 1e300]}, [2.68, -0.01, 1e300], [False] * 3),
        (Literal(3, INT), {"a": [1, 2]}, [3, 3], [False, False]),
    ],
)  # fmt: skip
def test_by_hand(expr: Expr, columns: dict[str, list[Any]], values: list[Any], bad: list[bool]) -> None:
    got, found = run(expr, **columns)
    assert [repr(v) for v in got] == [repr(v) for v in values]
    assert found == bad


def random_number(chance: random.Random, depth: int) -> Expr:
    if depth == 0:
        if chance.random() < 0.3:
            return Literal(chance.choice([0, 1, -1, 7, (1 << 31) - 1]), INT)
        return Column(chance.choice(["a", "b", "x", "n", "t", "d"]))
    below = [random_number(chance, depth - 1) for _ in range(2)]
    kind = chance.randrange(5)
    if kind == 0:
        return Case(((random_truth(chance, depth - 1), below[0]),), below[1])
    if kind == 1:
        return Cast(below[0], chance.choice([TINYINT, INT, BIGINT, DOUBLE, decimal(10, 2)]))
    if kind == 2:
        return Call(chance.choice(["abs", "negative", "floor", "sqrt", "ln", "sign"]), (below[0],))
    names = ["add", "subtract", "multiply", "divide", "mod", "pmod", "greatest", "least", "coalesce", "nullif"]
    return Call(chance.choice(names), tuple(below))


def random_truth(chance: random.Random, depth: int) -> Expr:
    if depth <= 0:
        return Column("p")
    if chance.random() < 0.5:
        name = chance.choice(["and", "or"])
        return Call(name, (random_truth(chance, depth - 1), random_truth(chance, depth - 1)))
    name = chance.choice(["eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe", "in"])
    return Call(name, (random_number(chance, depth - 1), random_number(chance, depth - 1)))


POOL: dict[str, list[Any]] = {
    "a": [None, 0, 1, -1, -(1 << 31), (1 << 31) - 1],
    "b": [None, 0, 1, 3, -2],
    "x": [None, 0.0, -0.0, math.nan, math.inf, 1.5, -1e300],
    "n": [None, 0, -1, -(1 << 63), (1 << 63) - 1, 5],
    "t": [None, -128, 127, 0, 3],
    "p": [None, True, False],
}  # fmt: skip


@given(st.integers(0, 10**9), st.integers(1, 4))
def test_many_rows_are_as_one_row_each(seed: int, depth: int) -> None:
    """No row sees another, and an expression that cannot be bad never is."""
    chance = random.Random(seed)
    expr = chance.choice([random_number, random_truth])(chance, depth)
    pool = {**POOL, "d": [None, Decimal("0.00"), Decimal("1.50"), Decimal("-99999999.99")]}
    columns = {name: [chance.choice(items) for _ in range(9)] for name, items in pool.items()}
    values, bad = run(expr, **columns)
    for i in range(9):
        one, one_bad = run(expr, **{name: [items[i]] for name, items in columns.items()})
        assert repr(one[0]) == repr(values[i]) and one_bad[0] == bad[i]
    if bad_text(resolve(expr, TYPES)[0], TYPES) is None:
        assert not any(bad)


def test_no_rows() -> None:
    for expr in (ratio, call("upper", "s"), call("like", "s", Literal("a%", STRING)), Literal(1, INT), call("pi")):
        values, bad = run(expr, a=[], b=[], s=[])
        assert values == [] and bad == []


def test_what_is_vectorised() -> None:
    assert is_vectorised(resolve(ratio, TYPES)[0], TYPES)
    assert is_vectorised(resolve(call("in", "s", Literal("u", STRING)), TYPES)[0], TYPES)
    assert is_vectorised(resolve(call("multiply", "x", "a"), TYPES)[0])
    assert not is_vectorised(resolve(call("upper", "s"), TYPES)[0], TYPES)
    assert is_vectorised(resolve(call("add", "d", 1), TYPES)[0], TYPES)
    wide = {**TYPES, "d": decimal(30, 2)}
    assert not is_vectorised(resolve(call("multiply", "d", "d"), wide)[0], wide)
    assert not is_vectorised(resolve(Cast(Column("s"), DOUBLE), TYPES)[0], TYPES)


def test_doubles_cannot_be_bad() -> None:
    expr = resolve(call("gt", call("multiply", "x", "a"), 5.0), TYPES)[0]
    assert bad_text(expr, TYPES) is None
    assert bad_text(resolve(call("add", "a", "b"), TYPES)[0], TYPES) is not None


def test_inputs_are_not_changed() -> None:
    vector = Vector.of(INT, [1, None, 3])
    before = vector.values.copy(), vector.valid.copy()
    evaluate(resolve(call("coalesce", call("add", "a", 1), 0), TYPES)[0], {"a": vector}, 3)
    assert np.array_equal(vector.values, before[0]) and np.array_equal(vector.valid, before[1])
