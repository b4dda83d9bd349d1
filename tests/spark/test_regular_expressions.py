"""Regular expressions of the kernel against Spark's."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from mullion.expressions.evaluate import evaluate
from mullion.expressions.typing import resolve
from mullion.expressions.vector import Vector
from mullion.language.query import Call, Literal
from mullion.language.types import STRING
from mullion.spark.expressions import spark_text
from spark.compared import COLUMNS, column, selected


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
