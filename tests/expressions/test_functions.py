"""Functions without Spark: what rows mean, and that arrays mean the same."""

from __future__ import annotations

import itertools
import math
import random
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.errors import CheckError
from mullion.expressions.evaluate import evaluate
from mullion.expressions.functions import FUNCTIONS, NAMES
from mullion.expressions.functions.base import Function, Signature
from mullion.expressions.functions.calendar import add_months, civil, day_number, iso_week
from mullion.expressions.functions.casts import cast_row, cast_vector, castable
from mullion.expressions.functions.formatting import format_double, format_timestamp
from mullion.expressions.functions.numbers import BOUNDS
from mullion.expressions.functions.parsing import parse_timestamp
from mullion.expressions.typing import resolve
from mullion.expressions.vector import Vector, dtype_of
from mullion.language.query import Call, Column, Literal
from mullion.language.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    TINYINT,
    Type,
    decimal,
)

LOW, HIGH = BOUNDS["bigint"]
POOL: dict[Type, list[Any]] = {
    BOOLEAN: [True, False, None],
    TINYINT: [-128, -1, 0, 1, 127, None],
    INT: [-(1 << 31), -3, -1, 0, 1, 7, 33, (1 << 31) - 1, None],
    BIGINT: [LOW, -1, 0, 1, 2, 10**10, 3_037_000_500, HIGH, None],
    FLOAT: [math.nan, math.inf, -0.0, 0.5, -2.5, None],
    DOUBLE: [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.5, 2.5, -2.675, 1e300, 0.15, 2.0, None],
    decimal(10, 2): [Decimal(n).scaleb(-2) for n in (0, -1, 150, 250, -1250, 9_999_999_999, -9_999_999_999)] + [None],
    decimal(30, 4): [Decimal(n).scaleb(-4) for n in (0, 5_000, -15_000, 10**29, -(2**63), 2**64, 1 - 10**30)] + [None],
    decimal(38, 0): [Decimal(n) for n in (0, 1, -7, 10**18, 10**38 - 1, 1 - 10**38)] + [None],
    STRING: ["", "abc", "b", "héé", "a%", None],
    DATE: [0, -1, 18321, -719162, None],
    TIMESTAMP: [0, -1, 1_500_000, 1582934400_000_000, LOW, HIGH, None],
    INTERVAL: [0, -1, 86_400_000_000, LOW, HIGH, None],
}
CONSTANTS: dict[str, dict[int, list[Literal]]] = {
    "round": {1: [Literal(n, INT) for n in (-2, 0, 1, 2)]},
    "bround": {1: [Literal(n, INT) for n in (-2, 0, 1, 2)]},
    "date_trunc": {0: [Literal(u, STRING) for u in ("year", "week", "hour", "millisecond")]},
    "trunc": {1: [Literal(u, STRING) for u in ("year", "quarter", "mm", "week")]},
    "like": {1: [Literal(p, STRING) for p in ("a%", "_", "%\\%")]},
    "ilike": {1: [Literal("A%", STRING)]},
    "rlike": {1: [Literal("^a|b$", STRING)]},
    "date_part": {0: [Literal("year", STRING)]},
}
TARGETS = [*POOL, decimal(3, 1), decimal(20, 18), decimal(38, 38)]
BOTH = [f for f in FUNCTIONS.values() if f.vector is not None]


def uses(function: Function) -> list[tuple[Any, Type, dict[str, Vector]]]:
    """Resolved calls of one function over all types that it takes, with columns that pair all values."""
    count = max(function.least, min(function.most or 2, 2))
    found = []
    for types in itertools.product(POOL, repeat=count):
        rows = list(itertools.product(*(POOL[t] for t in types)))
        if len(rows) > 40:
            rows = random.Random(1).sample(rows, 40)
        columns = {f"c{i}": Vector.of(t, [row[i] for row in rows]) for i, t in enumerate(types)}
        plain = tuple(Column(f"c{i}") for i in range(count))
        chosen = CONSTANTS.get(function.name, {})
        for constants in itertools.product(*chosen.values()):
            at = dict(zip(chosen, constants, strict=True))
            args = tuple(at.get(i, column) for i, column in enumerate(plain))
            try:
                expr, type_ = resolve(Call(function.name, args), {n: v.type for n, v in columns.items()})
            except CheckError:
                continue
            found.append((expr, type_, columns))
    return found


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (a != a and b != b) or a == b or math.isclose(a, b, rel_tol=1e-12)
    return bool(a == b) and (a is None) == (b is None)


@pytest.mark.parametrize("function", BOTH, ids=lambda f: f.name)
def test_arrays_mean_what_rows_mean(function: Function) -> None:
    for expr, type_, columns in uses(function):
        if not isinstance(expr, Call) or expr.function != function.name:
            continue
        size = len(next(iter(columns.values()))) if columns else 1
        args = [evaluate(arg, columns, size) for arg in expr.args]
        signature = Signature(tuple(a.type for a in args), type_)
        if not function.vectorises(signature.args, type_):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            whole = evaluate(expr, columns, size).to_list()
        for i, values in enumerate(zip(*(a.to_list() for a in args), strict=True)):
            one = None if function.strict and None in values else function.row(signature, *values)
            if type_ == FLOAT and one is not None:
                one = float(np.float32(one))
            assert alike(whole[i], one), (expr, values, whole[i], one)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(POOL, TARGETS)), ids=str)
def test_casts_of_arrays_mean_what_casts_of_rows_mean(source: Type, target: Type) -> None:
    if not castable(source, target) or (source == STRING and target.is_integer):
        return
    vector = Vector.of(source, [v for v in POOL[source] if v is not None])
    with np.errstate(all="ignore"):
        found = cast_vector(vector.values, source, target, dtype_of(target))
    if found is None:
        return
    values, fits = found
    whole = Vector(target, values, np.ones(len(vector), bool) if fits is None else fits).to_list()
    for value, got in zip(vector.to_list(), whole, strict=True):
        one = cast_row(source, target)(value)
        with np.errstate(all="ignore"):
            one = float(np.float32(one)) if target == FLOAT else one
        assert alike(got, one), (value, got, one)


def test_names_are_found_by_every_alias() -> None:
    for function in FUNCTIONS.values():
        assert all(NAMES[name] is function for name in (function.name, *function.aliases))
        assert function.name == function.name.lower()


@given(st.integers(-(10**7), 10**7))
def test_calendar_there_and_back(days: int) -> None:
    year, month, day = civil(days)
    assert day_number(year, month, day) == days
    assert 1 <= month <= 12 and 1 <= day <= 31
    assert 1 <= iso_week(days)[1] <= 53


def test_calendar_by_hand() -> None:
    assert civil(day_number(2000, 2, 29)) == (2000, 2, 29)
    assert civil(add_months(day_number(2020, 1, 31), 1)) == (2020, 2, 29)
    assert civil(add_months(day_number(2020, 3, 31), -13)) == (2019, 2, 28)
    assert iso_week(day_number(2021, 1, 1)) == (2020, 53)


@given(st.integers(-62135596800_000_000, 253402300799_999_999))
def test_timestamps_are_read_as_written(micros: int) -> None:
    assert parse_timestamp(format_timestamp(micros)) == micros


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01 00:00:01.5", 1_500_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01 00:00:00Z", 0),
        ("1970-7-1 00:00:00 America/New_York", 15_652_800_000_000),
        ("1970", 0),
        ("1970-13-01", None),
        ("10:11", None),
        ("now", None),
        ("1970-01-01 25:00", None),
    ],
)
def test_timestamps_by_hand(text: str, micros: int | None) -> None:
    assert parse_timestamp(text) == micros


@pytest.mark.parametrize(
    ("zone", "minutes"),
    [
        ("+1", 60), ("-0130", -90), ("+1:3", 63), ("UTC+12:34", 754), (" PST", -480), ("EST", -300),
        ("  CET", 60), ("GMT0", 0), ("+128", None), ("UTC-12345", None), ("+12:3456", None), ("+1234:56", None),
        ("+01:3:45", None),
        ("pst", None), ("europe/berlin", None),
    ],
)  # fmt: skip
def test_zones_are_those_that_java_knows(zone: str, minutes: int | None) -> None:
    local = parse_timestamp("2024-02-29 12:34:56")
    assert local is not None
    assert parse_timestamp(f"2024-02-29 12:34:56{zone}") == (None if minutes is None else local - minutes * 60_000_000)


@pytest.mark.parametrize("text", ["2024-02-29 12Z", "2024-02-29T12:34 UTC", "2024-02-29 12:34+01:00"])
def test_a_time_with_a_zone_has_seconds(text: str) -> None:
    assert parse_timestamp(text) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.0"), (1e7, "1.0E7"), (0.001, "0.001"), (9.99e-4, "9.99E-4"), (-0.0, "-0.0"), (123456.789, "123456.789"),
     (math.inf, "Infinity"), (math.nan, "NaN"), (1e22, "1.0E22")],
)  # fmt: skip
def test_doubles_are_written_as_java_does(value: float, text: str) -> None:
    assert format_double(value) == text


def test_decimals_by_hand() -> None:
    cents = decimal(10, 2)
    row = FUNCTIONS["divide"].row
    assert row(Signature((cents, cents), decimal(23, 13)), Decimal("1.00"), Decimal("3.00")) == Decimal(
        "0.3333333333333"
    )
    assert row(Signature((cents, cents), decimal(23, 13)), Decimal("1.00"), Decimal("0.00")) is None
    add = FUNCTIONS["add"].row
    assert add(Signature((cents, cents), decimal(3, 2)), Decimal("9.00"), Decimal("1.00")) is None
