"""Decimals as whole numbers: the 128 bits, the way from and to Arrow, and every form against one value at a time."""

from __future__ import annotations

import operator
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.expressions import int128
from mullion.expressions.evaluate import count_bad, evaluate
from mullion.expressions.functions import FUNCTIONS
from mullion.expressions.functions.base import Signature
from mullion.expressions.functions.casts import cast_row, cast_vector
from mullion.expressions.functions.numbers import EXACT
from mullion.expressions.int128 import CEILING, DOWN, FLOOR, HALF_EVEN, HALF_UP, integers_of, wide_of
from mullion.expressions.typing import resolve
from mullion.expressions.vector import Vector, dtype_of
from mullion.language.query import Call, Column, Literal
from mullion.language.types import BIGINT, DOUBLE, INT, Type, decimal

WHOLE = st.integers(1 - 10**38, 10**38 - 1) | st.integers(-(10**19), 10**19) | st.integers(-3, 3)
CENTS, LONG = decimal(10, 2), decimal(38, 10)


def a_type(chance: random.Random) -> Type:
    precision = chance.choice((1, 3, 9, 12, 18, 19, 22, 30, 38))
    return decimal(precision, chance.choice((0, min(2, precision), precision // 2, precision)))


def some_values(chance: random.Random, type_: Type, count: int) -> list[Decimal | None]:
    """Also the largest ones, halves, and NULL."""
    values: list[Decimal | None] = []
    for _ in range(count):
        digits = chance.randrange(type_.precision + 1)
        number = chance.choice((0, 1, 5 * 10 ** max(0, digits - 1), 10**digits - 1, chance.randrange(10**digits)))
        number = min(number, 10**type_.precision - 1) * chance.choice((1, -1))
        values.append(chance.choice((Decimal(number).scaleb(-type_.scale, EXACT),) * 9 + (None,)))
    return values


@given(st.lists(st.tuples(WHOLE, WHOLE), min_size=1, max_size=20))
def test_128_bits_compute_as_python_does(pairs: list[tuple[int, int]]) -> None:
    x, y = zip(*pairs, strict=True)
    a, b = wide_of(x), wide_of(y)
    assert integers_of(a) == list(x)
    sums, fits = int128.add(a, b)
    for total, ok, p, q in zip(integers_of(sums), fits, x, y, strict=True):
        assert ok == (-(2**127) <= p + q < 2**127) and (not ok or total == p + q)
    assert integers_of(int128.negative(a)) == [-p for p in x]
    assert integers_of(int128.absolute(a)) == [abs(p) for p in x]
    assert int128.below(a, b).tolist() == [p < q for p, q in pairs]
    assert int128.same(a, b).tolist() == [p == q for p, q in pairs]
    small = [int(p) % 10**19 - 10**18 for p in x]
    assert integers_of(int128.multiply(wide_of(small), wide_of([-(10**18)]))) == [-p * 10**18 for p in small]
    assert int128.to_double(a, 6).tolist() == [p / 10**6 for p in x]
    assert int128.to_double(a, 30).tolist() == [p / 10**30 for p in x]


@pytest.mark.parametrize("rounding", [DOWN, HALF_UP, HALF_EVEN, CEILING, FLOOR])
@given(st.lists(st.tuples(WHOLE, WHOLE), min_size=1, max_size=20))
def test_128_bits_are_divided_with_every_rounding(rounding: int, pairs: list[tuple[int, int]]) -> None:
    pairs += [(p // 2 * 2 + 1, 2) for p, _ in pairs]
    x, y = zip(*pairs, strict=True)
    for found, (p, q) in zip(integers_of(int128.divide(wide_of(x), wide_of(y), rounding)), pairs, strict=True):
        assert found == (rounded(Fraction(p, q), rounding) if q else 0)


def rounded(number: Fraction, rounding: int) -> int:
    size, sign = abs(number), 1 if number >= 0 else -1
    match rounding:
        case int128.DOWN:
            return sign * int(size)
        case int128.HALF_UP:
            return sign * int(size + Fraction(1, 2))
        case int128.HALF_EVEN:
            return round(number)
    return -(-number // 1) if rounding == CEILING else number // 1


@given(st.integers(0, 2**32))
def test_arrow_and_back(seed: int) -> None:
    chance = random.Random(seed)
    type_ = a_type(chance)
    values = some_values(chance, type_, 9)
    array = pa.array(values, pa.decimal128(type_.precision, type_.scale))
    vector = Vector.from_arrow(array.slice(2), type_)
    assert vector.values.dtype == dtype_of(type_) != np.object_
    assert vector.to_list() == values[2:]
    assert vector.to_arrow().to_pylist() == values[2:]
    assert Vector.of(type_, values).to_arrow().equals(array)
    assert vector.take(slice(1, 1)).to_arrow().type == array.type
    assert str(vector.to_list()) == str(array.slice(2).to_pylist())


def forms(seed: int) -> Any:
    """Random calls of every function on decimals of random types."""
    chance = random.Random(seed)
    for name in ("add", "subtract", "multiply", "divide", "lt", "ge", "eq", "greatest", "coalesce", "in"):
        yield chance, name, [a_type(chance), chance.choice((a_type(chance), INT))], ()
    for name in ("negative", "abs", "ceil", "floor", "round"):
        yield chance, name, [a_type(chance)], ()
    for name in ("round", "bround"):
        places = chance.choice((-400, -39, -38, -20, -2, 0, 1, 3, 40))
        yield chance, name, [a_type(chance)], (Literal(places, INT),)


@pytest.mark.parametrize("seed", range(40))
def test_columns_mean_what_single_values_mean(seed: int) -> None:
    for chance, name, types, constants in forms(seed):
        columns = {}
        for i, type_ in enumerate(types):
            plain = type_.kind == "decimal"
            items = some_values(chance, type_, 30) if plain else [chance.randrange(-9, 9) for _ in range(30)]
            columns[f"c{i}"] = Vector.of(type_, items)
        call = Call(name, (*map(Column, columns), *constants))
        expr, result = resolve(call, {n: v.type for n, v in columns.items()})
        assert isinstance(expr, Call)
        function = FUNCTIONS[expr.function]
        args = [evaluate(arg, columns, 30) for arg in expr.args]
        signature = Signature(tuple(a.type for a in args), result)
        whole = evaluate(expr, columns, 30).to_list()
        for i, values in enumerate(zip(*(a.to_list() for a in args), strict=True)):
            one = None if function.strict and None in values else function.row(signature, *values)
            assert whole[i] == one, (expr, values, signature)


@pytest.mark.parametrize("seed", range(40))
def test_casts_of_columns_mean_what_casts_of_single_values_mean(seed: int) -> None:
    chance = random.Random(seed)
    source = a_type(chance)
    vector = Vector.of(source, [v for v in some_values(chance, source, 40) if v is not None])
    for target in (a_type(chance), a_type(chance), BIGINT, INT, DOUBLE, Type("boolean")):
        found = cast_vector(vector.values, source, target, dtype_of(target))
        assert found is not None
        values, fits = found
        valid = np.ones(len(vector), np.bool_) if fits is None else fits
        expected = [cast_row(source, target)(value) for value in vector.to_list()]
        assert Vector(target, values, valid).to_list() == expected, (source, target)


def test_sums_and_products_of_cents_are_whole_arrays() -> None:
    for name in ("add", "subtract", "multiply", "divide", "lt", "eq", "coalesce", "greatest"):
        expr, result = resolve(Call(name, (Column("a"), Column("b"))), {"a": CENTS, "b": CENTS})
        assert FUNCTIONS[name].vectorises((CENTS, CENTS), result), expr


def test_what_leaves_38_digits_is_null_and_counted() -> None:
    type_ = decimal(38, 2)
    columns = {"d": Vector.of(type_, [Decimal("9" * 36), Decimal(1), None])}
    expr, _ = resolve(Call("add", (Column("d"), Column("d"))), {"d": type_})
    assert evaluate(expr, columns, 3).to_list() == [None, Decimal(2), None]
    assert count_bad(expr, columns, 3).tolist() == [True, False, False]


def test_division_by_zero_where_a_null_hides_it() -> None:
    """What stands where a value is NULL means nothing, also if it is zero."""
    columns = {"d": Vector.of(CENTS, [None, Decimal(0), Decimal(2)])}
    expr, _ = resolve(Call("divide", (Literal(Decimal(1), decimal(1, 0)), Column("d"))), {"d": CENTS})
    assert evaluate(expr, columns, 3).to_list() == [None, None, Decimal("0.5")]
    assert count_bad(expr, columns, 3).tolist() == [False, True, False]


def test_order_is_that_of_the_numbers() -> None:
    values = [Decimal(n).scaleb(-10) for n in (2**64, -1, 0, 2**63, -(2**64), 10**37)]
    vector = Vector.of(LONG, values)
    for name, compare in (("lt", operator.lt), ("le", operator.le), ("gt", operator.gt), ("eq", operator.eq)):
        expr, _ = resolve(Call(name, (Column("d"), Literal(Decimal(0), LONG))), {"d": LONG})
        assert evaluate(expr, {"d": vector}, len(values)).to_list() == [compare(v, 0) for v in values]
    assert Vector(LONG, np.sort(vector.values), vector.valid).to_list() == sorted(values)
