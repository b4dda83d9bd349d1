"""Expressions evaluated by Mullion and by Spark, over columns of values that are known to be awkward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from mullion.expressions.evaluate import count_bad, evaluate
from mullion.expressions.typing import resolve
from mullion.expressions.vector import Vector
from mullion.language.query import Call, Cast, Column, Expr
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
from mullion.spark.expressions import spark_text

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
