"""How the kernel aggregates many predicates, as the planner chooses it from what a batch holds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from by_slices import bind
from memory_batch import MemorySource
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, BOOLEAN, DOUBLE, TIMESTAMP
from mullion.options import Options
from mullion.planner.expected import observed_before
from mullion.planner.plan import FRAGMENTS, ROWS
from mullion.planner.rules import make_plan, reconsider
from mullion.slices.kernels.events import TIME
from without_spark import local_engine

MINUTE = 60_000_000
EVENTS = 600_000
COLUMNS = "ts TIMESTAMP, volume BIGINT, value DOUBLE, change DOUBLE, listed BOOLEAN, large BOOLEAN, small BOOLEAN"
TRADES = Stream(
    "trades",
    (
        ("ts", TIMESTAMP),
        ("volume", BIGINT),
        ("value", DOUBLE),
        ("change", DOUBLE),
        ("listed", BOOLEAN),
        ("large", BOOLEAN),
        ("small", BOOLEAN),
    ),
    "ts",
)


@cache
def trades() -> pa.Table:
    rng = np.random.default_rng(7)
    times = np.sort(rng.integers(0, 60 * MINUTE, EVENTS))
    symbol = rng.integers(0, 3_000, EVENTS)
    volume = rng.integers(1, 10_000, EVENTS)
    columns = {
        "ts": pa.array(times, pa.timestamp("us")),
        "volume": volume,
        "value": np.round(volume * np.exp(rng.normal(3, 1, EVENTS)), 2),
        "change": np.abs(rng.normal(0, 0.02, EVENTS)),
        "listed": symbol % 5 > 0,
        "large": symbol % 15 < 4,
        "small": (symbol % 5 > 0) & (symbol % 15 >= 4),
    }
    return pa.table({TIME: times, **columns})


@cache
def ordered(column: str) -> npt.NDArray[Any]:
    return np.sort(trades()[column].to_numpy())


def predicates(number: int, kind: str) -> list[str]:
    """Workload B of krishnamurthy 2006: a member of an index or not, and a quantity above or below a constant; or
    constants of one expression alone, or few different predicates."""
    rng = np.random.default_rng(2)
    made = []
    for i in range(number):
        flag, no = ("listed", "large", "small")[rng.integers(3)], ("", "NOT ")[rng.integers(2)]
        column, share, sense = ("volume", "value", "change")[rng.integers(3)], rng.uniform(), "<>"[rng.integers(2)]
        if kind == "few":
            column, share, sense = "volume", (i % 4) / 4, ">"
        constant = ordered(column)[int(share * (EVENTS - 1))]
        text = f"{constant:.0f}" if column == "volume" else f"{constant:.6f}"
        made.append(f"{column} {sense} {text}" if kind == "one" else f"{no}{flag} AND {column} {sense} {text}")
    return made


def texts(conditions: Sequence[str]) -> list[str]:
    window = "trades [RANGE 10 min SLIDE 10 min]"
    return [f"SELECT sum(value) AS total FROM {window} WHERE {where}" for where in conditions]


@pytest.mark.parametrize(("kind", "number", "method"), [("B", 64, ROWS), ("B", 256, ROWS), ("few", 64, FRAGMENTS)])
def test_many_different_predicates_go_by_rows(kind: str, number: int, method: str) -> None:
    queries = ";".join(f"CREATE QUERY q{i} AS {text}" for i, text in enumerate(texts(predicates(number, kind))))
    stream = f"CREATE STREAM trades ({COLUMNS}) USING parquet OPTIONS (path 'nowhere') TIMESTAMP BY ts"
    with local_engine(f"{stream}; {queries}") as engine:
        engine.deliver("trades", trades(), 0)
        (sharing_set,) = engine._runs.of("trades").sets.values()
        assert sharing_set.plan is not None and sharing_set.plan.methods == (method,)


@pytest.mark.parametrize("kind", ["B", "one", "few"])
def test_more_predicates_of_a_kind_do_not_go_back_to_fragments(kind: str) -> None:
    every = [
        bind(parse_query(text, name=f"q{i}"), {"trades": TRADES}) for i, text in enumerate(texts(predicates(512, kind)))
    ]
    batch = MemorySource(TRADES).batch(trades(), 0)
    methods = []
    for number in (8, 16, 32, 64, 128, 256, 512):
        plan = make_plan(TRADES, every[:number], Options())
        seen = observed_before(batch.statistics(plan.groupings), plan.groupings)
        methods += reconsider([plan], [seen])[0].methods
    assert methods == sorted(methods), methods
    assert methods[-1] == (FRAGMENTS if kind == "few" else ROWS)
