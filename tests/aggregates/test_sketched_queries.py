"""Queries with approximate aggregates from text to answers, without Spark; of few values, so that they are exact."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from by_slices import bind
from mullion.errors import CheckError
from mullion.language.parse import parse_query
from runtime.test_core_differential import Manner, Run
from strategies import TRADES, Event

SECOND = 1_000_000
Question = tuple[str, Callable[[Event], bool], Callable[[list[Event]], tuple[Any, ...]]]


def distinct(events: Sequence[Event], name: str) -> int:
    return len({e[name] for e in events if e[name] is not None})


def percentile(events: Sequence[Event], name: str, share: float) -> Any:
    values = sorted(e[name] for e in events if e[name] is not None)
    return values[max(1, math.ceil(share * len(values))) - 1] if values else None


def times(events: Sequence[Event], name: str, value: Any) -> int:
    return sum(e[name] == value for e in events)


def frequent(events: Sequence[Event], name: str, share: float) -> list[dict[str, Any]]:
    counts = Counter(e[name] for e in events if e[name] is not None)
    total = sum(counts.values())
    found = sorted((-n, v) for v, n in counts.items() if n >= share * total)
    return [(v, -n) for n, v in found]


QUESTIONS: list[Question] = [
    (
        "SELECT approx_count_distinct(symbol) AS a, approx_percentile(price, 0.5) AS b, frequent(symbol, 0.25) AS c "
        "FROM trades [RANGE 12 s SLIDE 5 s]",
        lambda e: True,
        lambda es: (distinct(es, "symbol"), percentile(es, "price", 0.5), frequent(es, "symbol", 0.25)),
    ),
    (
        "SELECT percentile_approx(volume, 0.25, 500) AS a, frequent(volume, 0.125, 8) AS b, count(*) AS n "
        "FROM trades [RANGE 9 s SLIDE 4 s] WHERE volume > 2",
        lambda e: e["volume"] is not None and e["volume"] > 2,
        lambda es: (percentile(es, "volume", 0.25), frequent(es, "volume", 0.125), len(es)),
    ),
    (
        "SELECT approx_count_distinct(volume, 0.05) FILTER (WHERE symbol = 'A') AS a, frequent(price, 0.5) AS b "
        "FROM trades [RANGE 9 s SLIDE 3 s] WHERE volume <= 6",
        lambda e: e["volume"] is not None and e["volume"] <= 6,
        lambda es: (distinct([e for e in es if e["symbol"] == "A"], "volume"), frequent(es, "price", 0.5)),
    ),
    (
        "SELECT approx_frequency(symbol, 'A') AS a, approx_frequency(volume, 8.0) FILTER (WHERE price > 2) AS b "
        "FROM trades [RANGE 14 s SLIDE 2 s]",
        lambda e: True,
        lambda es: (times(es, "symbol", "A"), times([e for e in es if (e["price"] or 0) > 2], "volume", 8)),
    ),
]


def events_of(number: int, seed: int) -> list[Event]:
    draw = random.Random(seed)
    empty = dict.fromkeys(TRADES.types)
    return [
        {
            **empty,
            "ts": draw.randrange(60 * SECOND),
            "symbol": draw.choice(["A", "A", "B", "", None]),
            "price": draw.choice([1.5, 2.5, 3.25, None]),
            "volume": draw.choice([1, 2, 3, 5, 8, None]),
        }
        for _ in range(number)
    ]


def expected(question: Question, size: int, slide: int, events: Sequence[Event]) -> list[tuple[Any, ...]]:
    _, chosen, answer = question
    first, last = min(e["ts"] for e in events), max(e["ts"] for e in events)
    rows = []
    for end in range((first // slide + 1) * slide, last + size + 1, slide):
        inside = [e for e in events if end - size <= e["ts"] < end and chosen(e)]
        rows.append((end - size, end, *answer(inside)))
    return rows


@pytest.mark.parametrize(
    "manner",
    [
        Manner(),
        Manner(slicing="paned", batches=3, partitions=2),
        Manner(batches=7, restart=True, most_entries=2),
        Manner(batches=2, method="rows"),
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", range(4))
def test_answers_are_those_of_the_values(manner: Manner, seed: int) -> None:
    events = events_of(120, seed)
    queries = [bind(parse_query(text, name=f"q{i}"), {"trades": TRADES}) for i, (text, _, _) in enumerate(QUESTIONS)]
    found = Run(TRADES, queries, manner).over(events)
    for i, (size, slide) in enumerate(((12, 5), (9, 4), (9, 3), (14, 2))):
        assert sorted(found[f"q{i}"]) == expected(QUESTIONS[i], size * SECOND, slide * SECOND, events)


def test_groups_have_their_own_sketches() -> None:
    events = events_of(200, 9)
    text = "SELECT symbol, approx_percentile(volume, 1) AS a FROM trades [RANGE 20 s SLIDE 10 s] GROUP BY symbol"
    found = Run(TRADES, [bind(parse_query(text, name="q"), {"trades": TRADES})], Manner(batches=4)).over(events)["q"]
    for start, end, symbol, most in found:
        mine = [e for e in events if start <= e["ts"] < end and e["symbol"] == symbol]
        assert most == percentile(mine, "volume", 1)
    assert len(found) > 15


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("frequent(symbol)", "frequent takes an argument, a share between 0 and 1"),
        ("frequent(symbol, 0.1, volume)", "must be constant"),
        ("approx_frequency(symbol)", "approx_frequency takes an argument, a value and"),
        ("approx_frequency(volume, 7.5)", "approx_frequency is asked for 7.5, which no int equals"),
        ("approx_frequency(volume, NULL)", "approx_frequency is asked for NULL, which no int equals"),
        ("approx_frequency(volume, 'x')", "approx_frequency is asked for 'x', which no int equals"),
        ("approx_frequency(volume, day)", "must be constant"),
        ("approx_frequency(volume, DATE '2020-01-01')", "asked for DATE '2020-01-01', which no int equals"),
        ("approx_frequency(volume, 7, 2)", "approx_frequency needs an error between 0 and 1, not 2"),
        ("approx_percentile(price, 1.5)", "approx_percentile needs a share between 0 and 1, not 1.5"),
        ("approx_percentile(price, 0.5, 100000)", "approx_percentile has an accuracy of 20993 at most, not 100000"),
        ("approx_percentile(flag, 0.5)", "approx_percentile needs a number, a date or a timestamp, not boolean"),
        ("approx_count_distinct(symbol, 0.0000001)", "approx_count_distinct has a relative standard error of 0.00072"),
    ],
)
def test_mistakes_are_told_where_they_are_written(written: str, message: str) -> None:
    query = parse_query(f"SELECT {written} AS a FROM trades [RANGE 20 s SLIDE 10 s]")
    with pytest.raises(CheckError, match=message):
        bind(query, {"trades": TRADES})
