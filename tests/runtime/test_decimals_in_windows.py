"""Decimals of few and of many digits, dates, truth values and texts in windows, in every way of computing."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

from mullion.algebra.streams import Stream
from mullion.expressions.functions.numbers import EXACT
from mullion.language.types import BOOLEAN, DATE, STRING, TIMESTAMP, Type, decimal
from runtime.test_core_differential import MANNERS, Manner, check
from strategies import Example

SMALL, CENTS, LONG, LARGE = decimal(8, 3), decimal(12, 2), decimal(38, 6), decimal(38, 0)
COLUMNS: tuple[tuple[str, Type], ...] = (
    ("ts", TIMESTAMP), ("a", SMALL), ("d", CENTS), ("w", LONG), ("x", LARGE),
    ("s", STRING), ("b", BOOLEAN), ("day", DATE),
)  # fmt: skip
STREAM = Stream("s", COLUMNS, "ts")
WINDOW = "FROM s [RANGE 20 us SLIDE 10 us]"
QUERIES = (
    f"SELECT sum(a) AS a, sum(d) AS d, sum(w) AS w, sum(x) AS x, avg(a) AS m, avg(d) AS n, avg(w) AS o {WINDOW}",
    f"SELECT sum(d) AS d, min(w) AS w, max(s) AS t, avg(x) AS x {WINDOW} WHERE w > 1.5",
    f"SELECT min(d) AS d, max(d) AS e, min(x) AS x, max(w) AS w {WINDOW} WHERE d >= 2.50 AND x <> 7",
    f"SELECT d, min(s) AS s, max(b) AS b, min(day) AS day, count(d) AS n {WINDOW} GROUP BY d",
    f"SELECT w, sum(d * a) AS p, sum(d + w) AS q, max(d / 3) AS r {WINDOW} WHERE x < 5 GROUP BY w",
    f"SELECT sum(DISTINCT d) AS d, sum(DISTINCT w) AS w, count(DISTINCT x) AS x, median(d) AS m, mode(w) AS o {WINDOW}",
    f"SELECT first(d) AS d, last(w) AS w, stddev_pop(d) AS s, top_k(w, 2) AS t {WINDOW} WHERE d IN (0, 1.5) OR b",
)


def named(*texts: str) -> list[str]:
    return [f"CREATE QUERY q{i} AS {text}" for i, text in enumerate(texts)]


def event(chance: random.Random, time: int) -> dict[str, Any]:
    def one(type_: Type, *numbers: int) -> Decimal | None:
        number = chance.choice((*numbers, None))
        return None if number is None else Decimal(number).scaleb(-type_.scale, EXACT)

    return {
        "ts": time,
        "a": one(SMALL, 0, 1, -1, 99_999_999, -99_999_999),
        "d": one(CENTS, 0, 150, -150, 250, 10**12 - 1, 1 - 10**12),
        "w": one(LONG, 0, 1_500_000, 1_500_001, 10**37, -(2**64), 1 - 10**38),
        "x": one(LARGE, 0, 7, 10**38 - 1, 1 - 10**38, 2**63),
        "s": chance.choice(("", "a", "Ä", "b" * 40, "\U0001f600", "\uffff", None)),
        "b": chance.choice((True, False, None)),
        "day": chance.choice((0, -719_162, 20_000, None)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("manner", MANNERS.values(), ids=MANNERS)
def test_what_the_reference_gives(manner: Manner) -> None:
    chance = random.Random(len(repr(manner)))
    events = [event(chance, chance.randrange(-30, 60)) for _ in range(80)]
    check(Example(STREAM, events, named(*QUERIES)), manner)


def test_sums_leave_their_type_only_as_a_whole() -> None:
    """The first slice alone has more than 38 digits, the window has not."""
    large = Decimal(10**38 - 1)
    events = [{**event(random.Random(1), at), "x": x} for at, x in ((1, large), (2, large), (12, -large), (13, -large))]
    for method in ("fragments", "rows"):
        check(Example(STREAM, events, named(QUERIES[0])), Manner(batches=4, restart=True, method=method))
