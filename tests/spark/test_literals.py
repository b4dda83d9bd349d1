"""Literals and names reach Spark as they are, and nothing breaks out of them."""

from __future__ import annotations

from typing import Any

import pytest

from mullion.errors import CheckError
from mullion.expressions.evaluate import evaluate
from mullion.expressions.vector import Vector
from mullion.language.query import Column, Literal
from mullion.language.types import DATE, DOUBLE, INTERVAL, STRING, TIMESTAMP, Type
from mullion.spark.expressions import spark_text
from spark.compared import VALUES

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
