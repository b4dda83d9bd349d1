"""Every function against a real Spark: the same types and the same values, on values that are known to be awkward."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mullion.errors import CheckError
from mullion.expressions.evaluate import count_bad, evaluate
from mullion.expressions.functions import FUNCTIONS, NAMES
from mullion.expressions.typing import resolve
from mullion.expressions.vector import Vector
from mullion.language.query import Call, Case, Cast, Column, Expr, Literal
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

ROWS = 80
LONG = 1 << 63
DAY = 86_400_000_000
MONEY, WIDE = decimal(10, 2), decimal(38, 10)

VALUES: dict[Type, list[Any]] = {
    BOOLEAN: [True, False],
    TINYINT: [-128, -1, 0, 1, 2, 127],
    SMALLINT: [-32768, -1, 0, 1, 3, 32767],
    INT: [-(1 << 31), -7, -1, 0, 1, 2, 5, 12, 100, (1 << 31) - 1],
    BIGINT: [-LONG, -LONG + 1, -1, 0, 1, 2, 3, 60, 10**6, 3_037_000_500, LONG - 1],
    FLOAT: [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.5, -2.5, 0.10000000149011612, 1e10],
    DOUBLE: [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.5, -0.5, 1.0, -1.0, 2.5, 2.675, 1e-5, 1e10, -1e300, 9.3e18],
    MONEY: [Decimal(x) for x in ("0.00", "-0.01", "1.00", "2.50", "-99999999.99", "99999999.99", "12.34")],
    WIDE: [Decimal(x) for x in ("0.0000000000", "1.0000000000", "-0.5000000000", "12345678901234567890.1230000000")],
    STRING: [
        "", " ", "abc", "ABC", "a.b.c", "héllo wörld", "日本語", "😀x", "1", "-1.5", " 12 ", "1e3", "NaN", "true", "t",
        "2020-02-29", "2020-02-30", "1969-12-31 23:59:59.999999", "2020-1-5T1:2", "2020-02-03 10:11:12+01:00", "a_b%c",
        "9223372036854775808", ".", "'", "\\", "x\ny",
    ],
    DATE: [0, -1, 18262, 18321, 11016, -25567, -719162, 2932896, 19000],
    TIMESTAMP: [0, -1, 1_500_000, -1_500_001, 1582934400_000_000, -62135596800_000_000, 253402300799_999_999],
    INTERVAL: [0, 1, -1, DAY, -DAY, 3_600_000_000, 1_500_000],
}  # fmt: skip
COLUMNS = {f"{name}{i}": type_ for type_ in VALUES for i, name in enumerate([str(type_)] * 3)}


def column(type_: Type, at: int = 0) -> Column:
    return Column(f"{type_}{at}")


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


def written(expr: Expr) -> str:
    """The expression as a user would write it, with all conversions left to Spark."""
    symbols = {
        "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "div": "div", "mod": "%", "eq": "=", "ne": "<>",
        "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq_null_safe": "<=>", "and": "AND", "or": "OR", "like": "LIKE",
        "ilike": "ILIKE", "rlike": "RLIKE", "bitand": "&", "bitor": "|", "bitxor": "^",
    }  # fmt: skip
    match expr:
        case Call(function=name, args=args):
            parts = [written(a) for a in args]
            if name in symbols:
                return "(" + f" {symbols[name]} ".join(parts) + ")"
            if name == "in":
                return f"({parts[0]} IN ({', '.join(parts[1:])}))"
            prefix = {"negative": "- ", "bitnot": "~ ", "not": "NOT "}.get(name)
            if prefix:
                return f"({prefix}{parts[0]})"
            other = {"is_null": "isnull", "is_not_null": "isnotnull", "iff": "if"}.get(name, name)
            return f"{other}({', '.join(parts)})"
        case Cast(arg=arg, type=type_):
            return f"CAST({written(arg)} AS {str(type_).upper()})"
    return spark_text(expr)


def selected(frame: Any, texts: Sequence[str], size: int = 120) -> list[pa.ChunkedArray | str]:
    """The values of each text, or the message of the error that Spark gives for it."""
    if not texts:
        return []
    if len(texts) > size:
        return [v for i in range(0, len(texts), size) for v in selected(frame, texts[i : i + size], size)]
    try:
        table = frame.selectExpr(*(f"{text} AS c{i}" for i, text in enumerate(texts))).toArrow()
        return [table.column(i) for i in range(len(texts))]
    except Exception as error:  # which of them failed is found by halving
        if len(texts) == 1:
            return [str(error)[:300]]
        half = len(texts) // 2
        return selected(frame, texts[:half], size) + selected(frame, texts[half:], size)


def types_of(frame: Any, texts: Sequence[str]) -> list[str]:
    try:
        schema = frame.selectExpr(*(f"{text} AS c{i}" for i, text in enumerate(texts))).schema
        return [
            "interval" if f.dataType.simpleString().startswith("interval") else f.dataType.simpleString()
            for f in schema
        ]
    except Exception as error:
        if len(texts) == 1:
            return [str(error)[:300]]
        half = len(texts) // 2
        return types_of(frame, texts[:half]) + types_of(frame, texts[half:])


def alike(mine: Any, theirs: Any) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    if isinstance(mine, float):
        if math.isnan(mine) or math.isnan(theirs):
            return math.isnan(mine) and math.isnan(theirs)
        return math.isclose(mine, theirs, rel_tol=1e-12, abs_tol=1e-300)
    return bool(mine == theirs)


def differences(frame: Any, data: dict[str, Vector], exprs: Sequence[Expr], *, as_written: bool = False) -> list[str]:
    """What Spark and Mullion do not agree about; with `as_written`, Spark gets the text before it is resolved."""
    resolved = [resolve(expr, COLUMNS) for expr in exprs]
    texts = [written(e) for e in exprs] if as_written else [spark_text(e) for e, _ in resolved]
    found = []
    distinct = list(dict.fromkeys(texts))
    by_text = dict(zip(distinct, selected(frame, distinct), strict=True))
    for expr, (mine, type_), text in zip(exprs, resolved, texts, strict=True):
        values = by_text[text]
        if isinstance(values, str):
            found.append(f"{written(expr)}: {values}")
            continue
        ours = evaluate(mine, data, ROWS)
        assert ours.type == type_, (written(expr), ours.type, type_)
        if type_.kind == "void":
            continue
        bad = count_bad(mine, data, ROWS) if as_written else np.zeros(ROWS, bool)
        theirs = Vector.from_arrow(values, type_).to_list()
        wrong = [
            i for i, (a, b) in enumerate(zip(ours.to_list(), theirs, strict=True)) if not bad[i] and not alike(a, b)
        ]
        for i in wrong[:3]:
            inputs = [(n, data[n].to_list()[i]) for n in COLUMNS if f"`{n}`" in text]
            found.append(f"{text} on {inputs}: {ours.to_list()[i]!r}, Spark {theirs[i]!r}")
    return found


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
    """Plain Spark stops where an interval becomes too long, and reads one format only in unix_timestamp."""
    if call.function == "unix_timestamp":
        return call.args == (column(STRING),)
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


ZONES = {
    1: ["+01", "-0130", "+0000", "Z", "z", "+00", "+00:00", "+1960", "-00", "+2", "+01:30"],
    2: ["+0100", "-0130", "+0000", "Z", "+00:00", "+01", "-1801", "+1960", "-0000"],
    3: ["+05:30", "-01:00", "+00:00", "Z", "z", "+18:00", "-18:01", "+0100", "-00:00"],
}
LETTERS: dict[str, list[Any]] = {
    "y": ["2024", "0001", "9999", "1", "12345", "-5", "0"], "yy": ["00", "24", "70", "99"],
    "yyyy": ["2024", "1900", "0001", "0000", "12024", "+12024", "-0044", "+294247", "+294248", "+999999999", "224"],
    "M": ["1", "02", "12", "13", "-1"], "MM": ["01", "02", "12", "13", "00"], "d": ["1", "29", "30", "31", "007"],
    "dd": ["01", "28", "29", "30", "31", "32"], "H": ["0", "9", "23", "24"], "HH": ["00", "12", "23", "24"],
    "h": ["1", "12", "0", "13"], "hh": ["01", "12", "00", "13"], "a": ["AM", "pm", "Pm", "A"],
    "m": ["0", "59", "60"], "mm": ["00", "59", "60"], "s": ["0", "59", "60"], "ss": ["00", "59", "60"],
    **{"S" * n: ["1", "12", "123456", "123456789", "1" * n] for n in range(1, 10)},
    **{letter * n: ZONES[2 if letter == "Z" else n] for letter in "XxZ" for n in (1, 2, 3)},
}  # fmt: skip
BETWEEN = ["-", "/", " ", ":", ".", ", ", "'T'", "'o''clock'", "''", "'Sik'", "年", "", ""]


def random_format(chance: random.Random) -> list[str]:
    """Parts of a format: letters, and what stands between them."""
    if chance.random() < 0.3:
        plain = [["yyyy", "MM", "dd", "HH", "mm", "ss"], ["yy", "M", "d"], ["d", "MM", "yyyy", "", "hh", "mm", "a"]]
        kinds = chance.choice(plain)
    else:
        hour = chance.choice([["H"], ["HH"], ["h", "a"], ["hh", "a"], []])
        fields = [["y", "yy", "yyyy", "yyyy"], ["M", "MM"], ["d", "dd"], ["m", "mm"], ["s", "ss"]]
        kinds = [*(chance.choice(letters) for letters in fields if chance.random() < 0.8), *hour]
        if chance.random() < 0.2:
            chance.shuffle(kinds)
    if chance.random() < 0.4:
        kinds = [*kinds, "S" * chance.randint(1, 9)]
    if chance.random() < 0.4:
        kinds = [*kinds, chance.choice("XxZ") * chance.randint(1, 3)]
    together = chance.random() < 0.3
    parts = [p for kind in kinds for p in (kind, "" if together else chance.choice(BETWEEN))]
    return parts[:-1] if any(kinds) else ["yyyy"]


def random_text(chance: random.Random, parts: Sequence[str]) -> str:
    """A text in the format, or nearly so."""
    quoted = {"'T'": "Tt", "'o''clock'": ["o'clock", "O'CLOCK"], "''": "'", "'Sik'": ["Sik", "ſİK", "sık"]}
    rare = 0.05
    made = ""
    for part in parts:
        values = LETTERS.get(part)
        if values is None:
            made += chance.choice(quoted.get(part, [part]))
        else:
            good = [v for v in values if v.isdecimal() and v not in ("13", "24", "32", "60", "00", "0")] or values
            made += chance.choice(values if chance.random() < 3 * rare else good[:3])
    while made and chance.random() < 3 * rare:
        at = chance.randrange(len(made))
        made = made[:at] + chance.choice(["", " ", "0", "7", "x", "-", made[at] * 2]) + made[at + 1 :]
    return made


def test_times_in_formats_of_ones_own(spark: Any) -> None:
    chance = random.Random(11)
    made = [random_format(chance) for _ in range(80)]
    formats, texts = list(dict.fromkeys("".join(parts) for parts in made)), list[str]()
    exprs = []
    for format_ in formats:
        try:
            exprs.append(resolve(Call("to_timestamp", (Column("t"), Literal(format_, STRING))), {"t": STRING})[0])
        except CheckError as error:
            assert re.search("with S cannot end with a quote|zone|no end of their own", str(error))
    for parts in made:
        texts += [random_text(chance, parts) for _ in range(9)]
    vector = Vector.of(STRING, texts)
    frame = spark.createDataFrame(pa.table({"t": vector.to_arrow()})).coalesce(1)
    wrong, read = [], 0
    for expr, values in zip(exprs, selected(frame, [spark_text(e) for e in exprs]), strict=True):
        assert not isinstance(values, str), (expr, values)
        theirs = Vector.from_arrow(values, TIMESTAMP).to_list()
        mine = evaluate(expr, {"t": vector}, len(texts)).to_list()
        read += sum(value is not None for value in mine)
        wrong += [
            f"{spark_text(expr)} on {text!r}: {a}, Spark {b}"
            for text, a, b in zip(texts, mine, theirs, strict=True)
            if a != b
        ]
    for expr, values in zip(exprs, selected(frame, [bad_text(e) or "" for e in exprs[:9]]), strict=False):
        assert count_bad(expr, {"t": vector}, len(texts)).tolist() == values.to_pylist(), spark_text(expr)
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:40])
    assert len(exprs) > 50 and read > 200


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


NASTY = [
    "'", "''", '"', "\\", "\\'", "\\\\", "a\nb", "\t", "\r", "\0", "\\u0041", "\\x41", "\\101", "%", "_", "\\%", "--",
    "/* x */", "; DROP TABLE t", "${spark.app.name}", "${env:HOME}", "`", "$$", "é", "日本", "😀", "\u2028", "{0}",
    "') OR ('1'='1", "\\' OR 1=1 -- ", "r'x'", "X'41'",
]  # fmt: skip


@pytest.mark.parametrize("escaped", ["false", "true"])
def test_strings_cannot_break_out(spark: Any, escaped: str) -> None:
    conf = "spark.sql.parser.escapedStringLiterals"
    before = spark.conf.get(conf)
    spark.conf.set(conf, escaped)
    try:
        texts = [f"{spark_text(Literal(text, STRING))} AS c{i}" for i, text in enumerate(NASTY)]
        assert list(spark.range(1).selectExpr(*texts).first()) == NASTY
    finally:
        spark.conf.set(conf, before)


def test_names_cannot_break_out(spark: Any) -> None:
    for name in ["a`b", "``", "a.b", "x y", "select", "1; --", "é", "a'b", 'a"b', "a\\b"]:
        frame = spark.range(1).toDF(name)
        assert frame.selectExpr(spark_text(Column(name))).first()[0] == 0
    with pytest.raises(CheckError):
        spark_text(Column("${env:HOME}"))


def test_literals_are_exact(spark: Any) -> None:
    literals = [
        *(Literal(v, t) for t in VALUES for v in VALUES[t]),
        *(Literal(None, t) for t in VALUES),
        Literal(5e-324, DOUBLE),
        Literal(1.7976931348623157e308, DOUBLE),
        Literal(-(1 << 63), INTERVAL),
        Literal((1 << 63) - 1, INTERVAL),
        Literal(-(1 << 63), TIMESTAMP),
        Literal((1 << 31) - 1, DATE),
        Literal(b"\x00'\xff", Type("binary")),
        Literal(1, Type("timestamp_ntz")),
    ]
    table = spark.range(1).selectExpr(*(f"{spark_text(e)} AS c{i}" for i, e in enumerate(literals))).toArrow()
    for i, expr in enumerate(literals):
        mine = evaluate(expr, {}, 1)
        theirs = Vector.from_arrow(table.column(i), expr.type)
        a, b = mine.to_list()[0], theirs.to_list()[0]
        assert repr(a) == repr(b), (expr, a, b)


def test_random_regular_expressions_are_javas(spark: Any) -> None:
    """The kernel matches them by another engine than Spark; they must be the same language."""
    chance = random.Random(18)
    letters = ["a", "b", "B", "\n", "\r", "\r\n", "\u0085", "\u2028", "é", "_", "1", " ", "\x0b", "-"]
    texts = ["", *("".join(chance.choices(letters, k=chance.randint(1, 6))) for _ in range(150))]

    def atom(depth: int) -> str:
        if depth and chance.random() < 0.4:
            inner = "|".join("".join(atom(depth - 1) for _ in range(chance.randint(0, 2))) for _ in range(2))
            return f"({inner})" + chance.choice(("", "*", "+", "?", "{2}", "{1,2}?"))
        plain = [*"abB1-é", ".", "\\d", "\\w", "\\W", "\\s", "\\S", "[ab_]", "[^a\\s]", "[A-Z]", "\\r", "\\n"]
        return chance.choice(plain) + chance.choice(("", "", "*", "+", "?"))

    patterns = []
    for _ in range(150):
        body = "".join(atom(2) for _ in range(chance.randint(1, 3)))
        patterns.append(chance.choice(("", "(?i)")) + chance.choice(("", "^")) + body + chance.choice(("", "$")))
    made = spark.createDataFrame(pa.table({"string0": texts})).coalesce(1)
    exprs = [resolve(Call("rlike", (column(STRING), Literal(p, STRING))), COLUMNS)[0] for p in patterns]
    theirs = selected(made, [spark_text(expr) for expr in exprs])
    data = {"string0": Vector.of(STRING, texts)}
    for pattern, expr, found in zip(patterns, exprs, theirs, strict=True):
        assert not isinstance(found, str), (pattern, found)
        own = evaluate(expr, data, len(texts)).to_list()
        wrong = [text for text, a, b in zip(texts, own, found.to_pylist(), strict=True) if a != b]
        assert not wrong, (pattern, wrong[:3])
