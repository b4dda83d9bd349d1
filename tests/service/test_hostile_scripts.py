"""Scripts that nobody would write: whatever they say, the answer is a sentence."""

from __future__ import annotations

import random

import pytest

from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.errors import CheckError, MullionError, NotSupported
from mullion.expressions.functions import FUNCTIONS
from mullion.language.types import BIGINT, BINARY, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal

COLUMNS = (
    ("ts", TIMESTAMP),
    ("k", STRING),
    ("x", DOUBLE),
    ("n", INT),
    ("b", BIGINT),
    ("d", decimal(38, 10)),
    ("day", DATE),
    ("raw", BINARY),
    ("ok", BOOLEAN),
    ("st", Type("struct<a:bigint>")),
    ("arr", Type("array<int>")),
)
SANE = 0.85
VALUES = ["1", "2", "0.5", "'x'"]
ODD_VALUES = [
    "0",
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "1e400",
    "99999999999999999999999999999999999999999",
    "NULL",
    "''",
    "'ä😀'",
    "TRUE",
    "X'FF'",
    "1/0",
    "n%0",
    "-(-(n))",
    "-9223372036854775808",
    "CAST('x'AS/**/DOUBLE)",
    "INTERVAL'1'DAY",
    "DATE'9999-12-31'",
    "TIMESTAMP'0001-01-01'",
    "TIMESTAMP'9999-12-31'",
]
SPANS = ["10 s", "2 s", "1 min"]
ODD_SPANS = ["0 s", "1 us", "'106751992 days'", "9223372036854775807", "9223372036854775808 us", "-1 s", "0.5 s", "'x'"]
NUMBERS = ["1", "3", "10"]
ODD_NUMBERS = ["0", "-1", "9223372036854775807", "1000000000000", "99999999999999999999", "1.5", "'a'"]
NAMES = ["x", "n", "k", "b", "ts"]
ODD_NAMES = ["d", "day", "raw", "ok", "st", "arr", "nope", "s.x", "`x`"]
PATTERNS = ["(", "[", "a{1000000}", "(" * 3000 + ")" * 3000, "(?=a)", "(a+)+$", "*", "x" * 5000]
WINDOWS = [
    "[RANGE {s} SLIDE {s}]",
    "[RANGE {s}]",
    "[ROWS {i}]",
    "[ROWS {i} SLIDE {i}]",
    "[RANGE {s} SLIDE {i} TUPLES]",
    "[NOW]\n    ",
    "[PARTITION BY {c} ROWS {i}]",
    "[RANGE UNBOUNDED SLIDE {s}]",
    "[FROM TIMESTAMP '0001-01-01' SLIDE {s}]",
    "[RANGE {s} WATTR {c}]\n    ",
    "[RANGE {s} SLIDE {s} OFFSET {s}]",
    "[RANGE {s} SLIDE {s} WATTR {c}]",
    "[RANGE {s} SLIDE {s} INTERNAL]",
    "",
]
AGGREGATES = [
    "count(*)",
    "sum({e})",
    "avg({e})",
    "min({e})",
    "stddev_samp({e})",
    "count(DISTINCT {e})",
    "median({e})",
    "percentile({e}, {v})\n    ",
    "top_k({e}, {i})",
    "frequent({e}, {v})",
    "approx_percentile({e}, {v})",
    "approx_count_distinct({e}, {v})",
    "last({e})\n    ",
    "sum({e}) FILTER (WHERE {p})",
    "sum()",
]


class Author:
    """Writes scripts by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def pick(self, sane: list[str], odd: list[str]) -> str:
        return self.chance.choice(sane if self.chance.random() < SANE else odd)

    def filled(self, text: str) -> str:
        makers = {
            "{s}": lambda: self.pick(SPANS, ODD_SPANS),
            "{i}": lambda: self.pick(NUMBERS, ODD_NUMBERS),
            "{c}": lambda: self.pick(NAMES, ODD_NAMES),
            "{v}": lambda: self.pick(VALUES, ODD_VALUES),
            "{e}": self.expression,
            "{p}": self.predicate,
        }
        for hole, make in makers.items():
            while hole in text:
                text = text.replace(hole, make(), 1)
        return text.strip()

    def expression(self, depth: int = 2) -> str:
        kind = self.chance.random()
        if depth == 0 or kind < 0.5:
            return self.filled("{c}")
        if kind < 0.6:
            return self.filled("{v}")
        args = [self.expression(depth - 1) for _ in range(self.chance.choice([0, 1, 1, 2, 2, 3]))]
        if kind < 0.75 and args:
            operator = self.chance.choice(["+", "-", "*", "/", "%", "=", "<", "<=>", "AND", "||", "LIKE", "DIV", "&"])
            return f"({args[0]} {operator} {args[-1]})"
        if kind < 0.8 and args:
            return f"CAST({args[0]} AS {self.chance.choice(['INT', 'DATE', 'DECIMAL(38,37)', 'DECIMAL(1,2)', 'foo'])})"
        return f"{self.chance.choice(sorted(FUNCTIONS))}({', '.join(args)})"

    def predicate(self) -> str:
        pattern = self.chance.choice(PATTERNS)
        forms = [
            "{c} > {v}",
            "{c} = {v}",
            f"k RLIKE '{pattern}'",
            f"k LIKE '{pattern}'",
            "{c} IN ({v}, {v})",
            "NOT {c}",
        ]
        return self.filled(self.chance.choice(forms))

    def select(self) -> str:
        item = self.chance.choice(["*", "k", "{e}", "{e} AS y", *AGGREGATES, *AGGREGATES])
        window, other = self.chance.choice(WINDOWS), self.chance.choice(WINDOWS)
        source = self.chance.choice([f"s {window}"] * 4 + [f"s {window} a JOIN s {other} c ON a.k = c.k"])
        text = f"SELECT {item} FROM {source}"
        for clause, share in ((" WHERE {p}", 0.3), (" GROUP BY {c}", 0.4), (" HAVING count(*) > {v}", 0.1)):
            text += clause if self.chance.random() < share else ""
        text += self.chance.choice(["", "", " ORDER BY {e}", " LIMIT {i}"])
        return self.filled(text)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_whatever_a_script_says_the_answer_is_a_sentence(seed: int) -> None:
    author = Author(seed)
    accepted = 0
    for _ in range(40):
        engine = Engine()
        engine.catalog.add_stream(Stream("s", COLUMNS, "ts"))
        for number in range(10):
            text = author.select()
            try:
                engine.execute(f"CREATE QUERY q{number} AS {text}")
                str(engine.explain())
                accepted += 1
            except MullionError as error:
                assert str(error)
            except Exception as error:
                raise AssertionError(text) from error
    assert accepted > 40


@pytest.mark.parametrize(
    "query", ["SELECT *", "SELECT st", "SELECT count(st)", "SELECT first(arr)", "SELECT st IS NULL"]
)
def test_nested_columns_are_refused_by_name(query: str) -> None:
    engine = Engine()
    engine.catalog.add_stream(Stream("s", COLUMNS, "ts"))
    with pytest.raises(NotSupported, match=r"a column of type (struct<a:bigint>|array<int>)"):
        engine.query(f"{query} FROM s [RANGE 1 s]")


@pytest.mark.parametrize("name", ["_corrupt_record", "_Source", "_metadata", "#t", "${x}"])
def test_names_that_readers_need_are_refused(name: str) -> None:
    with pytest.raises(CheckError, match="cannot be called"):
        Stream("s", (("ts", TIMESTAMP), (name, INT)), "ts").check()
