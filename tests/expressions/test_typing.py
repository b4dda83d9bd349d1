"""Names, arities and types: what is put in, what is refused and how the refusal reads."""

from __future__ import annotations

import math
import time
import warnings
from decimal import Decimal
from typing import Any

import pytest

from mullion.errors import CheckError, Place
from mullion.expressions.typing import resolve, resolve_predicate, type_of
from mullion.language.query import AggregateCall, Call, Case, Cast, Column, Expr, Literal
from mullion.language.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    TINYINT,
    Type,
    decimal,
)

COLUMNS = {
    "price": DOUBLE, "volume": INT, "big": BIGINT, "tiny": TINYINT, "symbol": STRING, "day": DATE, "ts": TIMESTAMP,
    "flag": BOOLEAN, "cents": decimal(10, 2), "wide": decimal(38, 10), "gap": INTERVAL,
}  # fmt: skip


def call(name: str, *args: str | int | Expr) -> Call:
    made: list[Expr] = [
        Column(arg) if isinstance(arg, str) else Literal(arg, INT) if isinstance(arg, int) else arg for arg in args
    ]
    return Call(name, tuple(made))


@pytest.mark.parametrize(
    ("expr", "type_"),
    [
        (call("add", "volume", 1), INT),
        (call("add", "volume", "big"), BIGINT),
        (call("add", "tiny", "tiny"), TINYINT),
        (call("divide", "volume", 2), DOUBLE),
        (call("div", "volume", 2), BIGINT),
        (call("add", "symbol", 1), DOUBLE),
        (call("add", "cents", 1), decimal(11, 2)),
        (call("add", "cents", "volume"), decimal(13, 2)),
        (call("multiply", "cents", "cents"), decimal(21, 4)),
        (call("divide", "cents", "cents"), decimal(23, 13)),
        (call("multiply", "wide", "wide"), decimal(38, 6)),
        (call("mod", "cents", 3), decimal(3, 2)),
        (call("mod", "cents", Cast(Literal(3, INT), BIGINT)), decimal(10, 2)),
        (call("add", "cents", Cast(Literal(1, INT), INT)), decimal(13, 2)),
        (call("add", "cents", call("negative", Cast(Literal(1, INT), BIGINT))), decimal(23, 2)),
        (call("multiply", "wide", Cast(Literal(9, INT), TINYINT)), decimal(38, 6)),
        (call("multiply", "wide", Cast(Literal("9", STRING), INT)), decimal(38, 6)),
        (call("divide", Literal(None, NULL), "cents"), DOUBLE),
        (call("positive", "symbol"), DOUBLE),
        (call("positive", "tiny"), TINYINT),
        (call("divide", "cents", Literal(None, NULL)), decimal(23, 13)),
        (call("floor", "cents"), decimal(9, 0)),
        (call("ceil", Cast(Column("big"), decimal(20, 0))), decimal(20, 0)),
        (call("add", "cents", "price"), DOUBLE),
        (call("coalesce", "cents", "volume"), decimal(12, 2)),
        (call("coalesce", "volume", "symbol"), STRING),
        (call("greatest", "day", "ts"), TIMESTAMP),
        (call("add", "day", 1), DATE),
        (call("subtract", "day", "day"), INTERVAL),
        (call("subtract", "ts", "gap"), TIMESTAMP),
        (call("add", "gap", "day"), TIMESTAMP),
        (call("round", "cents", 1), decimal(10, 1)),
        (call("ceil", "price"), BIGINT),
        (call("if", "flag", "volume", "big"), BIGINT),
        (Case(((Column("flag"), Column("volume")),), Literal(None, NULL)), INT),
        (call("year", "symbol"), INT),
        (call("date_part", Literal("second", STRING), "ts"), decimal(8, 6)),
    ],
)
def test_types(expr: Expr, type_: Type) -> None:
    resolved, found = resolve(expr, COLUMNS)
    assert found == type_
    assert resolve(resolved, COLUMNS) == (resolved, type_), "what is resolved stays as it is"


@pytest.mark.parametrize(
    ("number", "met"),
    [(Cast(Column("big"), decimal(20, 0)), decimal(20, 0)), (Column("cents"), DOUBLE), (Column("big"), BIGINT)],
)
def test_a_text_meets_whole_numbers_as_one_of_them(number: Expr, met: Type) -> None:
    resolved = resolve(call("eq", "symbol", number), COLUMNS)[0]
    assert isinstance(resolved, Call)
    assert type_of(resolved.args[0], COLUMNS) == type_of(resolved.args[1], COLUMNS) == met


def test_conversions_are_written_out() -> None:
    assert resolve(call("gt", "price", 5), COLUMNS)[0] == call("gt", "price", Literal(5.0, DOUBLE))
    assert resolve(call("gt", "price", "volume"), COLUMNS)[0] == call("gt", "price", Cast(Column("volume"), DOUBLE))
    assert resolve(call("eq", "symbol", 5), COLUMNS)[0] == call("eq", Call("int$", (Column("symbol"),)), 5)
    since = call("ge", "ts", Literal("1970-01-02", STRING))
    assert resolve(since, COLUMNS)[0] == call("ge", "ts", Literal(86_400_000_000, TIMESTAMP))
    assert resolve(call("lt", "cents", 3), COLUMNS)[0].args[1] == Literal(Decimal("3.00"), decimal(10, 2))  # type: ignore[union-attr]


def test_names_are_canonical() -> None:
    assert resolve(Column("PRICE"), COLUMNS) == (Column("price"), DOUBLE)
    assert resolve(call("UCASE", "symbol"), COLUMNS)[0] == call("upper", "symbol")
    assert resolve(call("nvl", "volume", 0), COLUMNS)[0] == call("coalesce", "volume", 0)


@pytest.mark.parametrize(
    ("expr", "message", "hint"),
    [
        (Column("prise"), "unknown column 'prise'", "did you mean 'price'?"),
        (Column("price", "trades"), "unknown column 'trades.price'", "did you mean 'price'?"),
        (call("uper", "symbol"), "unknown function 'uper'", "did you mean 'upper'?"),
        (call("sqrt", "price", "price"), "sqrt takes 1 argument, not 2", None),
        (call("sqrt", "flag"), "sqrt does not take (boolean)", None),
        (call("lt", "flag", "volume"), "< does not take (boolean, int)", None),
        (call("div", "price", 2), "div does not take (double, int)", None),
        (Cast(Column("day"), INT), "cannot cast date to int", None),
        (Case(((Column("volume"), Column("price")),)), "a condition must be boolean, but this is int", None),
        (Case(((Column("flag"), Column("flag")),), Column("price")), "the branches have no common type", None),
        (AggregateCall("sum", (Column("price"),)), "aggregate sum is not allowed here", None),
        (call("like", "symbol", "symbol"), "a pattern must be a constant", None),
        (call("date_trunc", Literal("mnth", STRING), "ts"), "unknown unit 'mnth'", "did you mean 'month'?"),
        (call("round", "price", "volume"), "the number of digits must be a whole number", None),
    ],
)
def test_refusals(expr: Expr, message: str, hint: str | None) -> None:
    with pytest.raises(CheckError) as caught:
        resolve(expr, COLUMNS)
    assert caught.value.message.startswith(message)
    if hint is not None:
        assert caught.value.hint == hint


@pytest.mark.parametrize(
    "name",
    ["rand", "uuid", "current_timestamp", "now", "reflect", "java_method", "input_file_name"],
)
def test_what_is_not_a_function_of_its_arguments_is_not_allowed(name: str) -> None:
    with pytest.raises(CheckError, match=f"the function {name} is not allowed"):
        resolve(Call(name, ()), COLUMNS)


def test_the_place_is_told() -> None:
    place = Place("SELECT prise", 7, 12)
    with pytest.raises(CheckError) as caught:
        resolve(Column("prise", place=place), COLUMNS)
    assert caught.value.place == place


def test_predicates_are_boolean() -> None:
    assert resolve_predicate(call("gt", "volume", 5), COLUMNS) == call("gt", "volume", 5)
    assert resolve_predicate(Literal(None, NULL), COLUMNS) == Literal(None, BOOLEAN)
    with pytest.raises(CheckError, match="must be boolean"):
        resolve_predicate(Column("volume"), COLUMNS)


def test_deep_rewrites_are_resolved_once() -> None:
    expr: Expr = Column("volume")
    for _ in range(60):
        expr = call("abs", call("negative", expr))
    begin = time.perf_counter()
    assert resolve(expr, COLUMNS)[1] == INT
    assert time.perf_counter() - begin < 0.5


@pytest.mark.parametrize(
    ("text", "target", "value"),
    [
        (" 5.5 ", DOUBLE, 5.5),
        ("-0", DOUBLE, -0.0),
        ("0.1", FLOAT, 0.10000000149011612),
        (" 5.7 ", INT, 5),
        ("-129", TINYINT, None),
        ("7.25", decimal(3, 1), Decimal("7.3")),
        ("5x", DOUBLE, None),
        ("NaN", DOUBLE, None),
        ("-Infinity", DOUBLE, None),
        ("1e39", FLOAT, None),
    ],
)
def test_texts_that_are_numbers_are_constants(text: str, target: Type, value: Any) -> None:
    """What is no number is NULL and counted, and what no constant can be written for stays a cast."""
    resolved, type_ = resolve(Cast(Literal(text, STRING), target), COLUMNS)
    assert type_ == target
    assert resolved == Literal(value, target) if value is not None else not isinstance(resolved, Literal)


def test_constants_beyond_a_float_are_infinite_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolved, _ = resolve(Cast(Literal(1e40, DOUBLE), FLOAT), COLUMNS)
    assert resolved == Literal(math.inf, FLOAT)
