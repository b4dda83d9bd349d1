"""All ways and methods answer alike: over files that arrive one by one, with late events, and a table that changes."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from by_slices import bind
from mullion import reference
from mullion.algebra.streams import Stream, Table
from mullion.engine import Engine
from mullion.expressions.vector import Vector
from mullion.language.parse import parse_query
from mullion.language.types import DOUBLE, INT, STRING, TIMESTAMP
from runtime.test_core_differential import assert_same, rows_of
from strategies import Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECOND = 1_000_000
LATENESS = 4 * SECOND
TRADES = Stream(
    "trades", (("ts", TIMESTAMP), ("symbol", STRING), ("price", DOUBLE), ("volume", INT), ("version", INT)), "ts"
)
CLOSE = Table("close", (("symbol", STRING), ("cp", DOUBLE), ("sector", STRING), ("version", INT)), "parquet")
"""Versions are for the reference only, which knows one table: a batch finds the rows of its own number."""

PRICES = (1.0, 2.5, None, 7.0, math.nan, -3.0, 11.25, math.inf, 0.0, -0.0)
SYMBOLS = ("A", "B", None, "C", "", "Ä")


def event(second: float, number: int, version: int) -> Event:
    return {
        "ts": int(second * SECOND),
        "symbol": SYMBOLS[number % len(SYMBOLS)],
        "price": PRICES[number * 7 % len(PRICES)],
        "volume": None if number % 9 == 0 else number % 23 - 5,
        "version": version,
    }


def batches() -> list[list[Event]]:
    """Four files of events in disorder; in each after the first, two events are too late."""
    found = []
    for version in range(4):
        first = 12 * version
        seconds = [first + (i * 5 % 24) / 2 + 0.001 * i for i in range(40)]
        late = [first - 9.5, first - 30.25] if version else []
        found.append([event(s, 17 * version + i, version) for i, s in enumerate([*late, *seconds])])
    return found


def row(version: int, symbol: str | None, cp: float | None, sector: str | None) -> Event:
    return {"symbol": symbol, "cp": cp, "sector": sector, "version": version}


VERSIONS = [
    [row(0, "A", 1.0, "x"), row(0, "B", 2.0, "y"), row(0, None, 9.0, "x")],
    [row(1, "A", 1.0, "x"), row(1, "A", 4.0, "y"), row(1, "C", None, None), row(1, "", math.nan, "x")],
    [],
    [row(3, "A", 3.0, "y"), row(3, "Ä", 5.0, "z"), row(3, "Z", 5.0, "z")],
]

PLAIN = [
    *(
        f"SELECT count(*) AS n, sum(volume) AS s, avg(price) AS p, max(price) AS m "
        f"FROM trades [RANGE '{8 + i % 3} s' SLIDE '{3 + i % 4} s'] t WHERE price > {i - 4} AND volume <= {20 - i}"
        for i in range(18)
    ),
    "SELECT count(*) AS n, min(volume) AS s FROM trades [RANGE '7 s' SLIDE '3 s'] t",
    "SELECT count(price) AS n FROM trades [RANGE '5 s' SLIDE '5 s'] t WHERE symbol IS NULL OR price <=> NULL",
    "SELECT symbol, sum(price) AS s FROM trades [RANGE '9 s' SLIDE '4 s'] t WHERE volume > 2 GROUP BY symbol",
    "SELECT symbol, count(*) AS n FROM trades [RANGE '9 s' SLIDE '2 s'] t WHERE symbol LIKE 'A%' GROUP BY symbol",
    "SELECT symbol, max(volume) AS n FROM trades [RANGE '6 s' SLIDE '6 s'] t GROUP BY symbol",
]
JOINED = [
    "SELECT count(*) AS n, sum(cp) AS s FROM trades [RANGE '9 s' SLIDE '4 s'] t JOIN close c ON t.symbol = c.symbol",
    "SELECT sector, count(*) AS n, sum(volume) AS s FROM trades [RANGE '7 s' SLIDE '5 s'] t LEFT JOIN close c "
    "ON t.symbol = c.symbol GROUP BY sector",
    "SELECT t.symbol, count(cp) AS n, max(cp) AS m FROM trades [RANGE '8 s' SLIDE '3 s'] t LEFT JOIN close c "
    "ON t.symbol = c.symbol WHERE price > cp OR cp IS NULL GROUP BY t.symbol",
]


def table(columns: Sequence[tuple[str, Any]], rows: Sequence[Event]) -> pa.Table:
    return pa.table({name: Vector.of(t, [r[name] for r in rows]).to_arrow() for name, t in columns})


def write(path: Path, made: pa.Table, at: int) -> None:
    """As a careful writer does: beside it, then in its place."""
    beside = path.with_name(f".{path.name}.new")
    pq.write_table(made, beside)
    os.utime(beside, (1_000_000_000 + at, 1_000_000_000 + at))
    os.replace(beside, path)


def in_time(found: Sequence[Sequence[Event]]) -> list[Event]:
    """What is left without the events that are late when their batch comes."""
    newest, kept = -math.inf, []
    for batch in found:
        kept += [e for e in batch if e["ts"] >= newest - LATENESS]
        newest = max(newest, *(e["ts"] for e in batch))
    return kept


def declared(columns: Sequence[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns)


def run(spark: SparkSession, base: Path, queries: Sequence[str], **manner: Any) -> Engine:
    """The engine after all batches; after each of them, the table is replaced."""
    source, rows = base / "events", base / "close.parquet"
    source.mkdir()
    for i, batch in enumerate(batches()):
        write(source / f"{i}.parquet", table(TRADES.columns, batch), i)
    write(rows, table(CLOSE.columns, VERSIONS[0]), 0)

    def replace_table(engine: Engine) -> None:
        number = engine.counts["trades"].batches
        if number < len(VERSIONS):
            write(rows, table(CLOSE.columns, VERSIONS[number]), number)

    with Engine(spark, on_batch=replace_table, **manner) as engine:
        engine.execute(
            f"CREATE STREAM trades ({declared(TRADES.columns)}) USING parquet OPTIONS (path '{source}', "
            f"maxFilesPerTrigger '1') TIMESTAMP BY ts LATENESS '{LATENESS} us';"
            f"CREATE TABLE close ({declared(CLOSE.columns)}) USING parquet OPTIONS (path '{rows}')"
        )
        for i, text in enumerate(queries):
            engine.query(text, name=f"q{i}")
        engine.run()
    return engine


def check(engine: Engine, queries: Sequence[str]) -> None:
    tables = {"close": (CLOSE, [r for version in VERSIONS for r in version])}
    for i, text in enumerate(queries):
        one = parse_query(text.replace("t.symbol = c.symbol", "t.symbol = c.symbol AND t.version = c.version"))
        bound = bind(one, {"trades": TRADES}, {"close": CLOSE})
        wanted = reference.answer(one, TRADES, in_time(batches()), tables).rows
        assert len(wanted) > 5
        assert_same(bound, rows_of(bound, engine.results(f"q{i}").to_arrow()), wanted)
    counts = engine.counts["trades"]
    assert (counts.batches, counts.events, counts.late, counts.malformed) == (4, 160, 6, 0)


MANNERS = [("native", "auto"), *((way, method) for way in ("kernel", "direct") for method in ("fragments", "rows"))]


@pytest.mark.parametrize(("way", "method"), MANNERS)
def test_every_way_gives_what_the_reference_gives(spark: SparkSession, tmp_path: Path, way: str, method: str) -> None:
    queries = PLAIN if way == "native" else [*PLAIN, *JOINED]
    engine = run(spark, tmp_path, queries, way=way, method=method)
    check(engine, queries)
    plan = engine.runs["trades"].sets["shared"].plan
    assert plan is not None and plan.way == way
    if way != "native":
        assert {m for g, m in zip(plan.groupings, plan.methods, strict=True) if g.bits} == {method}
    told = str(engine.explain())
    assert f"in one pass, {way} way" in told
    if way != "native":
        name = {"fragments": "fragments by hash", "rows": "dense rows"}[method]
        assert re.search(rf"{name} by \(\): 19 predicates .*k .* fragments of 40 events, alpha \S+, beta \S+:", told)


@pytest.mark.parametrize("way", ["kernel", "direct"])
def test_without_sharing_the_answers_are_the_same(spark: SparkSession, tmp_path: Path, way: str) -> None:
    queries = [*PLAIN[17:22:2], *JOINED[1:]]
    check(run(spark, tmp_path, queries, way=way, sharing="off"), queries)


def event_of(batch: int, number: int, price: float) -> Event:
    ts = (300 * batch + number) * SECOND // 50
    return {"ts": ts, "symbol": "A", "price": price, "volume": number, "version": batch}


def test_the_method_changes_when_fragments_become_as_many_as_events(spark: SparkSession, tmp_path: Path) -> None:
    """A batch of equal events, then batches of events that are all different: the batch after those is by rows."""
    queries = [f"SELECT sum(volume) AS s FROM trades [RANGE '4 s' SLIDE '4 s'] WHERE price > {i}" for i in range(300)]
    made = [[event_of(b, i, i + 0.5 if b else 5.5) for i in range(300)] for b in range(4)]
    for i, batch in enumerate(made):
        write(tmp_path / f"{i}.parquet", table(TRADES.columns, batch), i)
    methods: list[tuple[str, ...]] = []

    def note(engine: Engine) -> None:
        plan = engine.runs["trades"].sets["shared"].plan
        assert plan is not None
        methods.append(plan.methods)

    with Engine(spark, on_batch=note) as engine:
        engine.execute(
            f"CREATE STREAM trades ({declared(TRADES.columns)}) USING parquet OPTIONS (path '{tmp_path}', "
            "maxFilesPerTrigger '1') TIMESTAMP BY ts"
        )
        for i, text in enumerate(queries):
            engine.query(text, name=f"q{i}")
        engine.run()
    assert [m for (m,) in methods[:4]] == ["fragments", "fragments", "rows", "rows"]
    events = [e for batch in made for e in batch]
    for i in (0, 5, 6, 150, 299):
        query = parse_query(queries[i])
        bound = bind(query, {"trades": TRADES})
        assert_same(
            bound, rows_of(bound, engine.results(f"q{i}").to_arrow()), reference.answer(query, TRADES, events).rows
        )
