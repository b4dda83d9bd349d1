"""Events of one time: by file, as the stream takes the files, then by row; whatever reads them, and however often."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from by_operators import bind_relation
from mullion import reference
from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.language.parse import parse_query
from mullion.language.types import INT, STRING, TIMESTAMP
from mullion.testing import Crash, crash_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
STREAM = Stream("s", (("ts", TIMESTAMP), ("x", INT), ("k", STRING)), "ts")
QUERIES = {
    "ends": "SELECT first(x) AS f, last(x) AS l FROM s [RANGE '2 s' SLIDE '1 s']",
    "ends_of": "SELECT k, first(x) AS f, last(x) AS l FROM s [RANGE '1 s' SLIDE '1 s'] WHERE x > 3 GROUP BY k",
    "row_window": "SELECT sum(x) AS total, first(x) AS f FROM s [ROWS 5 SLIDE 3]",
    "parts": "SELECT k, sum(x) AS total FROM s [PARTITION BY k ROWS 2 SLIDE 7] GROUP BY k",
    "tuples": "SELECT sum(x) AS total, last(x) AS l FROM s [RANGE '1 s' SLIDE 9 TUPLES]",
    "joined": "SELECT a.x AS x, b.x AS y FROM s [ROWS 2] a, s [ROWS 1] b WHERE a.k = b.k",
}
QUESTION = "SELECT first(x) AS f, last(x) AS l, sum(x) AS total FROM s [ROWS 7]"
FILES = (("d", 2, 60), ("a", 4, 7), ("c", 1, 110), ("e", 1, 30), ("b", 3, 45))
"""Names, times of change and numbers of events of the files: neither names nor sizes are in the order of the times."""
IN_ORDER = "cedba"
"""The order of the stream: by time of change, then by name."""


def events() -> dict[str, list[dict[str, Any]]]:
    """The events of each file, all at three instants."""
    found: dict[str, list[dict[str, Any]]] = {}
    x = 0
    for name, _, rows in FILES:
        found[name] = []
        for i in range(rows):
            x += 1
            place = START + (i * 7 + x) % 3 * SECOND
            found[name].append({"ts": place, "x": x, "k": "abc"[x * x % 3]})
    return found


def instant(event: dict[str, Any]) -> str:
    return f"2023-11-14T22:13:{20 + (event['ts'] - START) // SECOND}Z"


def line(event: dict[str, Any]) -> str:
    return f"{instant(event)},{event['x']},{event['k']}\n"


def record(event: dict[str, Any]) -> str:
    return json.dumps(event | {"ts": instant(event)}) + "\n"


def write(folder: Path, format_: str) -> None:
    folder.mkdir(parents=True)
    for name, changed, _ in FILES:
        rows = events()[name]
        path = folder / f"{name}.{format_}"
        if format_ == "parquet":
            columns = {
                "ts": pa.array([row["ts"] for row in rows], pa.timestamp("us", "UTC")),
                "x": pa.array([row["x"] for row in rows], pa.int32()),
                "k": pa.array([row["k"] for row in rows]),
            }
            pq.write_table(pa.table(columns), path, row_group_size=10, compression="none", use_dictionary=False)
        else:
            path.write_text("".join(map(line, rows)) if format_ == "csv" else "".join(map(record, rows)))
        os.utime(path, (1_000_000_000 + changed,) * 2)


def script(folder: Path, format_: str, names: list[str], more: str = "") -> str:
    stream = (
        f"CREATE STREAM s (ts TIMESTAMP, x INT, k STRING) USING {format_} OPTIONS (path '{folder}'{more}) "
        "TIMESTAMP BY ts LATENESS '1 min' KEEP '1 h';"
    )
    return stream + "".join(f"CREATE QUERY {name} AS {QUERIES[name]};" for name in names)


@contextmanager
def small_pieces(spark: SparkSession) -> Iterator[None]:
    """Spark reads files in pieces of a kilobyte, some of which it gives to one task."""
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1024b")
    spark.conf.set("spark.sql.files.openCostInBytes", "1024b")
    try:
        yield
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(before))
        spark.conf.unset("spark.sql.files.openCostInBytes")


def told(engine: Engine, names: list[str]) -> dict[str, Any]:
    found = {name: _rows(engine.results(name).to_arrow()) for name in names}
    return found | {QUESTION: _rows(engine.ask(QUESTION).to_arrow())}


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    plain = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return sorted(zip(*(column.to_pylist() for column in plain), strict=True), key=repr)


def ran(engine: Engine, names: list[str]) -> dict[str, Any]:
    engine.run()
    return told(engine, names)


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """What the reference says of the events in the stated order."""
    rows = [event for name in IN_ORDER for event in events()[name]]
    found = {}
    for name, text in QUERIES.items():
        query = parse_query(text, name=name)
        if name == "joined":
            answer = reference.answer(bind_relation(query, {"s": STREAM}, {}), {"s": STREAM}, {"s": rows})
        else:
            answer = reference.answer(query, STREAM, rows)
        found[name] = sorted(answer.rows, key=repr)
    return found | {QUESTION: reference.ask(parse_query(QUESTION), STREAM, rows).rows}


EVERY = list(QUERIES)
ENDS = ["ends", "ends_of"]
MANNERS: dict[str, tuple[str, dict[str, Any], list[str], str]] = {
    "direct": ("parquet", {"way": "direct"}, EVERY, ""),
    "kernel": ("parquet", {"way": "kernel"}, EVERY, ""),
    "executors": ("parquet", {"way": "kernel", "shard_above": 1}, ["ends_of"], ""),
    "json": ("json", {}, EVERY, ""),
    "csv": ("csv", {}, ["ends", "row_window", "joined"], ""),
    "a file a batch": ("parquet", {}, EVERY, ", maxFilesPerTrigger '1'"),
    "two files a batch": ("json", {}, ["ends", "row_window"], ", maxFilesPerTrigger '2'"),
}


@pytest.mark.parametrize("manner", MANNERS)
def test_all_ways(spark: SparkSession, manner: str, expected: dict[str, Any], tmp_path: Path) -> None:
    format_, options, names, more = MANNERS[manner]
    write(tmp_path / "events", format_)
    if "'1'" in more:  # of files that were changed at one time, Spark chooses which is the earlier batch
        os.utime(tmp_path / "events" / f"e.{format_}", (1_000_000_001.5,) * 2)
    with small_pieces(spark), Engine(spark, **options) as engine:
        engine.execute(script(tmp_path / "events", format_, names, more))
        found = ran(engine, names)
    assert found == {name: expected[name] for name in found}


def test_neighbours_change_nothing(spark: SparkSession, expected: dict[str, Any], tmp_path: Path) -> None:
    """What only Spark computes for a neighbour makes the rows come through Spark."""
    write(tmp_path / "events", "parquet")
    with small_pieces(spark), Engine(spark) as engine:
        engine.execute(script(tmp_path / "events", "parquet", ENDS))
        engine.query("SELECT count(*) AS n FROM s [RANGE '1 s' SLIDE '1 s'] WHERE initcap(k) = 'A'", name="other")
        engine.query("SELECT first(x) AS f FROM s [ROWS 2] WHERE initcap(k) = 'A'", name="another")
        found = ran(engine, ENDS)
    assert found == {name: expected[name] for name in found}


def test_a_batch_that_is_played_again(spark: SparkSession, expected: dict[str, Any], tmp_path: Path) -> None:
    """The order is the one that the batch was planned with, though a file looks newer by now."""
    write(tmp_path / "events", "json")
    options = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    with small_pieces(spark):
        with Engine(spark, **options) as engine:
            engine.execute(script(tmp_path / "events", "json", EVERY))
            with crash_at("before commit"), pytest.raises(Crash):
                engine.run()
        os.utime(tmp_path / "events" / "c.json")
        with Engine(spark, **options) as engine:
            engine.execute(script(tmp_path / "events", "json", EVERY))
            engine.run(close=True)
            found = told(engine, EVERY)
    assert found == {name: expected[name] for name in found}


@pytest.mark.parametrize(("streaming", "way"), [(False, "auto"), (False, "kernel"), (True, "auto")])
def test_dataframes_of_files(
    spark: SparkSession, streaming: bool, way: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path / "events", "parquet")
    names = ["ends", "row_window"]
    with small_pieces(spark), Engine(spark, way=way) as engine:
        reader = spark.readStream if streaming else spark.read
        frame = reader.schema("ts TIMESTAMP, x INT, k STRING").parquet(f"file://{tmp_path / 'events'}")
        engine.stream("s", frame, time="ts", lateness="1 min", keep="1 h")
        for name in names:
            engine.query(QUERIES[name], name=name)
        found = ran(engine, names)
    assert found == {name: expected[name] for name in found}


def test_a_query_that_reads_the_past_again(spark: SparkSession, tmp_path: Path) -> None:
    """It takes the files in the order in which the stream took them."""
    write(tmp_path / "events", "parquet")
    query = "SELECT first(x) AS f, last(x) AS l FROM s [RANGE '10 s' SLIDE '10 s']"
    joins = iter([f"CREATE QUERY late_comer BACKFILL AS {query}"])
    more = ", maxFilesPerTrigger '3'"
    with small_pieces(spark), Engine(spark, sharing="off") as engine:
        engine.execute(script(tmp_path / "events", "parquet", ["row_window"], more))
        engine.on_batch = lambda engine: (text := next(joins, None)) and engine.execute(text)
        engine.run()
        (row,) = engine.results("late_comer").to_arrow().to_pylist()
    rows = sorted((event for name in IN_ORDER for event in events()[name]), key=lambda event: event["ts"])
    assert (row["f"], row["l"]) == (rows[0]["x"], rows[-1]["x"])
