"""Events too far past the clock: they are kept aside, and everything else is as if they had not come."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mullion.engine import Engine
from mullion.storage.files import label_of
from mullion.testing import Crash, crash_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
DAY = 86_400 * SECOND
LATEST = START + 10 * SECOND
"""The time of the newest good event: just not too far ahead."""
NOW = LATEST - DAY
"""What the clock says."""
NEVER = 253_402_214_400 * SECOND
"""9999-12-31."""
QUERIES = """
CREATE QUERY sliding AS SELECT count(*) AS n, sum(x) AS total FROM s [RANGE '4 s' SLIDE '1 s'];
CREATE QUERY grouped AS SELECT k, max(x) AS top FROM s [RANGE '3 s' SLIDE '2 s'] WHERE x > 1 GROUP BY k;
CREATE QUERY ends AS SELECT first(x) AS f, last(x) AS l FROM s [RANGE '5 s' SLIDE '5 s'];
CREATE QUERY counted AS SELECT count(DISTINCT k) AS n, median(x) AS m FROM s [RANGE '2 s' SLIDE '2 s'];
CREATE QUERY all_so_far AS SELECT count(*) AS n FROM s [RANGE UNBOUNDED SLIDE '3 s'];
CREATE QUERY row_window AS SELECT sum(x) AS total, first(x) AS f FROM s [ROWS 3 SLIDE 2];
CREATE QUERY parts AS SELECT k, sum(x) AS total FROM s [PARTITION BY k ROWS 2 SLIDE 3] GROUP BY k;
CREATE QUERY at_events AS SELECT count(*) AS n FROM s [RANGE '2 s' SLIDE 1 TUPLE];
CREATE QUERY continuous AS SELECT count(*) AS n FROM s [RANGE '2 s'];
CREATE QUERY numbers AS SELECT sum(x) AS total FROM s [RANGE 3000000 SLIDE 2000000 WATTR n];
CREATE QUERY joined AS SELECT a.x AS x, b.x AS y FROM s [RANGE '2 s'] a, s [RANGE '1 s'] b WHERE a.k = b.k;
CREATE QUERY kinds AS SELECT DISTINCT k FROM s [RANGE '3 s'];
CREATE SYNOPSIS best ON s(x) USING ordered_sharing (rows 10);
"""
QUESTIONS = (
    "SELECT sum(x) AS total, count(*) AS n FROM s [RANGE '5 s']",
    "SELECT max(x) AS top FROM s [ROWS 4]",
    "SELECT k, count(*) AS n FROM s [ROWS 6] GROUP BY k",
)
SOME = ("sliding", "grouped", "ends", "counted", "all_so_far")
"""Queries without order, which all ways can answer."""


def good() -> list[list[tuple[int, int, str]]]:
    """Three batches of (time, x, k)."""
    seconds = ((0, 1, 1, 2), (3, 3, 4, 6), (7, 8, 8, 10))
    numbers = itertools.count(1)
    times = [[START + s * SECOND for s in batch] for batch in seconds]
    return [[(time, n := next(numbers), "ab"[n % 2]) for time in batch] for batch in times]


def write(folder: Path, batches: list[list[tuple[int, int, str]]], sentinels: dict[int, int]) -> None:
    """A file for each batch, with a sentinel in the middle of some."""
    folder.mkdir(parents=True)
    for number, events in enumerate(batches):
        rows = list(events)
        if number in sentinels:
            rows.insert(2, (sentinels[number], 99, "z"))
        columns = {
            "ts": pa.array([row[0] for row in rows], pa.timestamp("us", "UTC")),
            "x": pa.array([row[1] for row in rows], pa.int32()),
            "k": pa.array([row[2] for row in rows]),
            "n": pa.array([min(row[0], LATEST) - START for row in rows], pa.int64()),
        }
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=2)
        os.utime(path, (1_000_000_000 + number,) * 2)


def script(folder: Path, queries: str, ahead: str = "") -> str:
    columns = "(ts TIMESTAMP, x INT, k STRING, n BIGINT)"
    options = f"(path '{folder}', maxFilesPerTrigger '1')"
    return f"CREATE STREAM s {columns} USING parquet OPTIONS {options} TIMESTAMP BY ts {ahead} KEEP '1 h'; {queries}"


def ran(spark: SparkSession, folder: Path, queries: str, ahead: str = "", **options: Any) -> dict[str, Any]:
    with Engine(spark, clock=lambda: NOW / SECOND, **options) as engine:
        engine.execute(script(folder, queries, ahead))
        engine.run()
        return told(engine)


def told(engine: Engine) -> dict[str, Any]:
    """All answers, to questions too, and what was counted. Groups of a window have no order."""
    names = [*engine.catalog.queries]
    tables = {name: engine.results(name).to_arrow() for name in names}
    if "row_window" in names:
        tables |= {question: engine.ask(question).to_arrow() for question in QUESTIONS}
    found: dict[str, Any] = {name: sorted(table.to_pylist(), key=repr) for name, table in tables.items()}
    counts = engine.counts["s"]
    return found | {"events": counts.events, "late": counts.late, "newest": engine.runs["s"].newest}


def some(names: tuple[str, ...]) -> str:
    return "".join(f"{q};" for q in QUERIES.split(";") if any(f"CREATE QUERY {n} " in q for n in names))


@pytest.fixture(scope="module")
def without(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is told where no event lies too far ahead."""
    folder = tmp_path_factory.mktemp("without") / "events"
    write(folder, good(), {})
    found = ran(spark, folder, QUERIES)
    assert found["events"] == 12 and found["newest"] == LATEST
    return found


def test_one_sentinel_changes_nothing(spark: SparkSession, without: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path / "events", good(), {1: NEVER})
    with Engine(spark, clock=lambda: NOW / SECOND, out=tmp_path / "out") as engine:
        engine.execute(script(tmp_path / "events", QUERIES))
        engine.run()
        assert told(engine) == without
        assert engine.counts["s"].ahead == 1
        (aside,) = engine.aside("ahead")
    assert aside["x"].to_pylist() == [99]
    assert aside["ts"].cast(pa.int64()).to_pylist() == [NEVER]
    assert aside["latest_allowed"].cast(pa.int64()).to_pylist() == [LATEST]
    assert len(list((tmp_path / "out" / "_ahead").glob("*.parquet"))) == 1


@pytest.mark.parametrize(
    ("manner", "names"),
    [
        ({"way": "native"}, SOME),
        ({"way": "kernel"}, SOME),
        ({"way": "direct"}, SOME),
        ({"way": "kernel", "shard_above": 1}, ("grouped",)),
    ],
    ids=["native", "kernel", "direct", "executors"],
)
def test_all_ways(
    spark: SparkSession, without: dict[str, Any], manner: dict[str, Any], names: tuple[str, ...], tmp_path: Path
) -> None:
    """The event just past the limit is ahead, in a batch that has late events too."""
    batches = good()
    batches[2].insert(0, (START, 1, "a"))
    write(tmp_path / "events", batches, {0: LATEST + 1, 2: LATEST + 1})
    found = ran(spark, tmp_path / "events", some(names), **manner)
    assert found == {key: found[key] if key == "late" else without[key] for key in found}
    assert found["late"] == 1


def test_a_crash_and_a_later_clock(spark: SparkSession, without: dict[str, Any], tmp_path: Path) -> None:
    """A batch that is played again sets aside the same events, though by now the clock would allow them."""
    write(tmp_path / "events", good(), {1: LATEST + 1})
    options = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    with Engine(spark, clock=lambda: NOW / SECOND, **options) as engine:
        engine.execute(script(tmp_path / "events", QUERIES))
        with crash_at("before commit", 3), pytest.raises(Crash):
            engine.run(close=True)
    noted = (tmp_path / "checkpoint" / "streams" / "s" / "ahead").iterdir()
    assert [label_of(path.name) for path in noted] == [f"{1:012d}"]
    with Engine(spark, clock=lambda: (NOW + DAY) / SECOND, **options) as engine:
        engine.execute(script(tmp_path / "events", QUERIES))
        engine.run(close=True)
        assert told(engine) == without
        assert sum(len(rows) for rows in engine.aside("ahead")) == engine.counts["s"].ahead == 1


def test_a_query_that_reads_the_past_again(spark: SparkSession, tmp_path: Path) -> None:
    """What was ahead when it came is ahead for a query that enters when the clock is past it."""
    batches = [[(START + i * SECOND, i, "a") for i in range(4)], [(LATEST + DAY, 5, "a")], [(LATEST + 2 * DAY, 6, "a")]]
    write(tmp_path / "events", batches, {0: LATEST + 1})
    clock = iter([NOW, NOW + 3 * DAY, NOW + 3 * DAY])
    first = "CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE '1 d' SLIDE '1 d']"
    late_comer = "CREATE QUERY late_comer BACKFILL AS SELECT sum(x) AS total FROM s [RANGE '20 d' SLIDE '20 d']"
    with Engine(spark, clock=lambda: next(clock) / SECOND, sharing="off") as engine:
        engine.execute(script(tmp_path / "events", first))
        joins = iter([None, late_comer])
        engine.on_batch = lambda engine: (text := next(joins, None)) and engine.execute(text)
        engine.run()
        assert engine.results("late_comer").to_arrow()["total"].to_pylist() == [17]


def test_as_far_ahead_as_one_likes(spark: SparkSession, tmp_path: Path) -> None:
    query = "CREATE QUERY q AS SELECT k, count(*) AS n FROM s [RANGE '1 d' SLIDE '1 d'] GROUP BY k;"
    write(tmp_path / "events", good()[:1], {0: START + 400 * DAY})
    found = ran(spark, tmp_path / "events", query, "AHEAD UNBOUNDED")
    assert sorted(row["k"] for row in found["q"]) == ["a", "b", "z"]
    assert found["newest"] == START + 400 * DAY
