"""Every function against a real Spark: the same types and the same values, on values that are known to be awkward."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from mullion.errors import CheckError
from mullion.expressions.evaluate import count_bad
from mullion.expressions.functions import FUNCTIONS, NAMES
from mullion.expressions.typing import resolve
from mullion.expressions.vector import Vector
from mullion.language.query import Call, Case, Cast, Expr, Literal
from mullion.language.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Type,
    decimal,
)
from mullion.spark.expressions import bad_text, spark_text
from spark.compared import COLUMNS, MONEY, ROWS, VALUES, WIDE, column, differences, selected, types_of, written


@pytest.fixture(scope="module")
def data() -> dict[str, Vector]:
    """Three columns of each type, in which every value meets every other by chance, and NULL."""
    chance = random.Random(7)
    made = {}
    for type_, values in VALUES.items():
        for i in range(3):
            pool = list(values) if i == 0 else [*values, None]
            items = [*pool, None, *(chance.choice([*pool, None]) for _ in range(ROWS))][:ROWS]
            if i:
                chance.shuffle(items)
            made[f"{type_}{i}"] = Vector.of(type_, items)
    return made


@pytest.fixture(scope="module")
def local(spark: Any, data: dict[str, Vector]) -> Any:
    """Spark evaluates expressions over so small a relation while it plans, without generating code."""
    return spark.createDataFrame(pa.table({name: vector.to_arrow() for name, vector in data.items()}))


@pytest.fixture(scope="module")
def frame(local: Any) -> Any:
    """The same, evaluated by generated code, as events are."""
    made = local.coalesce(1).cache()
    made.count()
    return made


PATTERNS = {
    "like": ["a%", "%b_c", "", "a\\_b\\%c", "%ö%", "_", "%a%b%", "%.%.%", "a%_%c", "%日%語", "%x%_y%", "%\\%%_"],
    "ilike": ["A%", "%B_C", "%É%W%D", "%A%C"],
    "rlike": ["^a.*c$", "[0-9]+", "\\d", "b|\\.", "(?i)ABC", "^\\s*$", "x.y", "w$", "(?i)[^x-z]b|Ö", "y$|^$"],
}
UNITS = ["year", "Quarter", "mm", "week"]
SOME = [TINYINT, INT, BIGINT, FLOAT, DOUBLE, MONEY, WIDE, STRING]
EVERY = list(VALUES)


def calls(name: str) -> Iterator[Call]:
    """Uses of a function over columns of all types that it takes."""
    function = NAMES[name]
    if name in PATTERNS:
        for pattern in PATTERNS[name]:
            yield Call(name, (column(STRING), Literal(pattern, STRING)))
        return
    if name == "date_trunc":
        for unit in [*UNITS, "day", "HOUR", "minute", "second", "millisecond", "microsecond"]:
            for type_ in (TIMESTAMP, DATE, STRING):
                yield Call(name, (Literal(unit, STRING), column(type_)))
        return
    if name == "trunc":
        for unit, type_ in itertools.product(UNITS, (DATE, TIMESTAMP, STRING)):
            yield Call(name, (column(type_), Literal(unit, STRING)))
        return
    if name == "date_part":
        for unit in (
            "year",
            "qtr",
            "month",
            "week",
            "day",
            "dow",
            "dow_iso",
            "doy",
            "hour",
            "minute",
            "second",
            "yearofweek",
        ):
            yield Call(name, (Literal(unit, STRING), column(TIMESTAMP)))
        return
    if name == "to_timestamp":
        for format_ in ("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss.SSSSSS", "yyyy-M-d'T'H:m", "yyyy-MM-dd HH:mm:ssXXX", "S"):
            yield Call(name, (column(STRING), Literal(format_, STRING)))
    if name in ("round", "bround"):
        for type_ in SOME:
            yield Call(name, (column(type_),))
            for places in (-2, -1, 1, 2, 15):
                yield Call(name, (column(type_), Literal(places, INT)))
        return
    if name in ("lpad", "rpad", "repeat"):
        number = Case(((Call("lt", (column(INT), Literal(100, INT))), column(INT)),), Literal(7, INT))
        yield Call(name, (column(STRING), number))
        if name != "repeat":
            yield Call(name, (column(STRING), number, column(STRING, 1)))
        return
    if function.least == 0:
        yield Call(name, ())
    if name in ("and", "or"):
        yield Call(name, (column(BOOLEAN), column(BOOLEAN, 1)))
        yield Call(name, (column(BOOLEAN), column(BOOLEAN, 1), column(BOOLEAN, 2)))
        return
    most = function.most or 3
    if function.least <= 1 <= most:
        yield from (Call(name, (column(t),)) for t in EVERY)
    if function.least <= 2 <= most:
        pairs = (
            itertools.product(EVERY, EVERY) if name in WIDELY_TYPED else itertools.product(*likely(function.name, 2))
        )
        for a, b in pairs:
            yield Call(name, (column(a), column(b, 1)))
            if a == MONEY and b == INT:
                yield Call(name, (column(a), Literal(3, INT)))
    if function.least <= 3 <= most:
        for types in itertools.product(*likely(function.name, 3)):
            yield Call(name, tuple(column(t, i) for i, t in enumerate(types)))


WIDELY_TYPED = {"add", "eq", "coalesce"}
LIKELY: dict[str, list[Type]] = {
    "text": [STRING, INT],
    "times": [DATE, TIMESTAMP, STRING],
    "numbers": [INT, BIGINT, DOUBLE, MONEY, STRING],
    "any": [INT, BIGINT, DOUBLE, MONEY, STRING, DATE, TIMESTAMP, BOOLEAN],
}
TEXT = {
    "trim", "ltrim", "rtrim", "btrim", "substring", "left", "right", "concat", "concat_ws", "replace", "contains",
    "startswith", "endswith", "locate", "instr", "position", "split_part", "translate",
}  # fmt: skip
TIMES = {"date_add", "date_sub", "datediff", "add_months"}


def likely(name: str, count: int) -> list[list[Type]]:
    if name in TEXT:
        return [LIKELY["text"]] * count
    if name in TIMES:
        return [LIKELY["times"], [*LIKELY["times"], INT, TINYINT]]
    if name == "make_date":
        return [[INT, TINYINT]] * 3
    if name in ("if", "nvl2"):
        return [[BOOLEAN], LIKELY["any"], LIKELY["any"]]
    if count == 3:
        return [[INT, DOUBLE, MONEY], [INT, STRING, MONEY], [INT, BIGINT]]
    if name in ("subtract", "divide", "lt", "mod", "multiply", "in", "greatest", "nullif"):
        return [[*LIKELY["any"], TINYINT, WIDE, INTERVAL]] * 2
    return [LIKELY["numbers"], [INT, DOUBLE, FLOAT]]


def takeable(exprs: Iterator[Call]) -> list[Call]:
    found = []
    for expr in exprs:
        try:
            resolve(expr, COLUMNS)
        except CheckError:
            continue
        found.append(expr)
    return found


PUBLIC = [name for name in FUNCTIONS if "$" not in name]


def all_calls() -> list[Call]:
    return [call for name in PUBLIC for call in takeable(calls(name))]


def test_every_function_is_tried() -> None:
    tried = {call.function for call in all_calls()}
    assert set(PUBLIC) <= tried


def test_values_equal_sparks(local: Any, data: dict[str, Vector]) -> None:
    wrong = differences(local, data, all_calls())
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:40])


def test_values_by_generated_code(frame: Any, data: dict[str, Vector]) -> None:
    wrong = differences(frame, data, [*all_calls()[::5], *random_exprs(4, 40)])
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:40])


def test_conversions_are_sparks(frame: Any) -> None:
    """Types come out as Spark's do when all conversions are left to it."""
    exprs = all_calls()
    theirs = types_of(frame, [written(e) for e in exprs])
    wrong = []
    for expr, type_ in zip(exprs, theirs, strict=True):
        mine = str(resolve(expr, COLUMNS)[1])
        if mine != type_:
            wrong.append(f"{written(expr)}: {mine}, Spark {type_}")
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:60])


def test_values_as_written(local: Any, data: dict[str, Vector]) -> None:
    """Where no value is bad, the text as a user writes it gives the same in plain Spark."""
    exprs = [e for e in all_calls() if e.function not in RAISING and not differs_as_written(e)][::2]
    wrong = differences(local, data, exprs, as_written=True)
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:60])


def differs_as_written(call: Call) -> bool:
    """Plain Spark stops where an interval becomes too long."""
    return call.function == "multiply" and resolve(call, COLUMNS)[1] == INTERVAL


RAISING = {"split_part", "timestamp_seconds", "timestamp_millis", "date_trunc", "add_months"}
"""Plain Spark stops at some of their values."""


def test_casts(frame: Any, data: dict[str, Vector]) -> None:
    targets = [t for t in EVERY if t != INTERVAL] + [decimal(3, 1), decimal(38, 0), decimal(20, 18)]
    exprs: list[Expr] = []
    for source, target in itertools.product(EVERY, targets):
        try:
            resolve(Cast(column(source), target), COLUMNS)
        except CheckError:
            continue
        exprs.append(Cast(column(source), target))
    wrong = differences(frame, data, exprs)
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:60])


def literal_of(chance: random.Random, type_: Type) -> Literal:
    return Literal(chance.choice([*VALUES[type_], None] if chance.random() < 0.2 else VALUES[type_]), type_)


NUMBERS = [TINYINT, INT, BIGINT, DOUBLE, MONEY]


def random_number(chance: random.Random, depth: int) -> Expr:
    if depth == 0 or chance.random() < 0.15:
        type_ = chance.choice(NUMBERS)
        return literal_of(chance, type_) if chance.random() < 0.3 else column(type_, chance.randrange(3))
    kind = chance.randrange(7)
    if kind <= 2:
        name = chance.choice(["add", "subtract", "multiply", "divide", "mod", "pmod", "greatest", "coalesce"])
        return Call(name, (random_number(chance, depth - 1), random_number(chance, depth - 1)))
    if kind == 3:
        return Call(chance.choice(["abs", "negative", "floor", "sqrt", "ln"]), (random_number(chance, depth - 1),))
    if kind == 4:
        return Cast(random_number(chance, depth - 1), chance.choice([*NUMBERS, SMALLINT]))
    branches = tuple(
        (random_truth(chance, depth - 1), random_number(chance, depth - 1)) for _ in range(chance.randint(1, 2))
    )
    return Case(branches, random_number(chance, depth - 1) if chance.random() < 0.7 else None)


def random_truth(chance: random.Random, depth: int) -> Expr:
    if depth == 0:
        return column(BOOLEAN, chance.randrange(3))
    if chance.random() < 0.4:
        name = chance.choice(["and", "or"])
        return Call(name, (random_truth(chance, depth - 1), random_truth(chance, depth - 1)))
    if chance.random() < 0.3:
        return Call(chance.choice(["not", "is_null"]), (random_truth(chance, depth - 1),))
    name = chance.choice(["eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe", "in"])
    return Call(name, (random_number(chance, depth - 1), random_number(chance, depth - 1)))


def random_exprs(seed: int, count: int) -> list[Expr]:
    chance = random.Random(seed)
    makers = [random_number, random_truth]
    return [chance.choice(makers)(chance, chance.randint(1, 4)) for _ in range(count)]


@pytest.mark.parametrize("seed", [1, 2])
def test_random_expressions(local: Any, data: dict[str, Vector], seed: int) -> None:
    wrong = differences(local, data, random_exprs(seed, 120))
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:20])


def test_bad_values_are_counted_alike(local: Any, data: dict[str, Vector]) -> None:
    exprs = [resolve(e, COLUMNS)[0] for e in [*random_exprs(3, 40), *all_calls()[::23]]]
    typed = [bad_text(e, COLUMNS) or "FALSE" for e in exprs]
    untyped = [bad_text(e) or "FALSE" for e in exprs[:40]]
    wrong = []
    for expr, values in zip([*exprs, *exprs[:40]], selected(local, [*typed, *untyped], 40), strict=True):
        mine = count_bad(expr, data, ROWS).tolist()
        if isinstance(values, str) or mine != values.to_pylist():
            wrong.append(f"{spark_text(expr)}: {values if isinstance(values, str) else ''}")
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:20])
