"""TIMESTAMP BY an expression: as if the source had the column."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mullion.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = 1_700_000_000_000
QUERIES = """
CREATE QUERY sliding AS SELECT count(*) AS n, sum(x) AS total FROM s [RANGE '4 s' SLIDE '1 s'];
CREATE QUERY latest AS SELECT max(ts) AS t, first(x) AS f FROM s [RANGE '5 s' SLIDE '5 s'] WHERE hour(ts) > 1;
CREATE QUERY spark_like AS SELECT count(*) AS n FROM s GROUP BY window(ts, '3 seconds', '1 second');
CREATE QUERY row_window AS SELECT sum(x) AS total FROM s [ROWS 3 SLIDE 2];
CREATE QUERY pairs AS SELECT a.ts AS ts, b.x AS y FROM s [RANGE '2 s'] a, s [RANGE '1 s'] b WHERE a.x = b.x;
"""
QUESTION = "SELECT sum(x) AS total, max(ts) AS t FROM s [ROWS 4]"


def write(folder: Path, format_: str, time: str = "ms") -> None:
    """Two batches; the second has an event that is late, and one without a time. `time` is "at" for texts."""
    folder.mkdir()
    seconds: list[list[int | None]] = [[0, 1, 1, 2, 9], [3, 9, None, 10, 12]]
    for number, batch in enumerate(seconds):
        millis = [None if s is None else START + 1000 * s for s in batch]
        rows = [{"ms": ms, "x": 10 * number + i} for i, ms in enumerate(millis)]
        path = folder / f"{number}.{format_}"
        if time == "at":
            rows = [{"at": text_of(row["ms"]), "x": row["x"]} for row in rows]
        if format_ == "json":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            columns = {"ms": pa.array(millis, pa.int64()), "x": pa.array([row["x"] for row in rows], pa.int32())}
            pq.write_table(pa.table(columns), path)
        os.utime(path, (1_000_000_000 + number,) * 2)


def text_of(millis: int | None) -> str:
    """A time as people write it; a day that there is not for none."""
    if millis is None:
        return "31/02/2023 10:00:00"
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%d/%m/%Y %H:%M:%S")


def told(engine: Engine) -> dict[str, Any]:
    engine.run()
    names = [*engine.catalog.queries]
    found = {name: sorted(engine.results(name).to_arrow().to_pylist(), key=repr) for name in names}
    counts = engine.counts["s"]
    late = [row["x"] for rows in engine.aside("late") for row in rows.to_pylist()]
    question = engine.ask(QUESTION).to_arrow().to_pylist()
    return found | {"late": late, "malformed": counts.malformed, "events": counts.events, QUESTION: question}


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a stream tells that has the time as a column."""
    folder = tmp_path_factory.mktemp("plain") / "events"
    write(folder, "json")
    for path in list(folder.iterdir()):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        times = pa.array([row["ms"] for row in rows], pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
        columns = {"ts": times, "x": pa.array([row["x"] for row in rows], pa.int32())}
        made = path.with_suffix(".parquet")
        pq.write_table(pa.table(columns), made)
        os.utime(made, (path.stat().st_mtime,) * 2)
        path.unlink()
    with Engine(spark) as engine:
        engine.execute(script(folder, "parquet", "ts TIMESTAMP, x INT", "ts"))
        return told(engine)


def script(folder: Path, format_: str, columns: str, time: str) -> str:
    options = f"(path '{folder}', maxFilesPerTrigger '1')"
    return f"CREATE STREAM s ({columns}) USING {format_} OPTIONS {options} TIMESTAMP BY {time} KEEP '1 h'; {QUERIES}"


@pytest.mark.parametrize(
    ("format_", "way", "time"),
    [
        ("json", "native", "timestamp_millis(ms) AS ts"),
        ("json", "auto", "to_timestamp(at, 'dd/MM/yyyy HH:mm:ss') AS ts"),
        ("parquet", "auto", "CAST(ms / 1000 AS TIMESTAMP) AS ts"),
    ],
)
def test_as_a_column(
    spark: SparkSession, expected: dict[str, Any], format_: str, way: str, time: str, tmp_path: Path
) -> None:
    column, type_ = ("at", "STRING") if "(at" in time else ("ms", "BIGINT")
    write(tmp_path / "events", format_, column)
    with Engine(spark, way=way) as engine:
        engine.execute(script(tmp_path / "events", format_, f"{column} {type_}, x INT", time))
        found = told(engine)
    assert found == expected
    assert found["late"] == [10] and found["malformed"] == 1


def test_dataframes_and_times_in_another_unit(spark: SparkSession) -> None:
    with Engine(spark) as engine:
        frame = spark.sql("SELECT id AS at, CAST(id AS INT) AS x FROM range(1700000000, 1700000005)")
        engine.stream("s", frame, time="timestamp_seconds(at)")
        engine.stream("odd", frame, time="timestamp_micros(at) AS t")
        engine.query("SELECT count(*) AS n, max(event_time) AS t FROM s [RANGE '5 s' SLIDE '5 s']", name="q")
        engine.query("SELECT count(*) AS n FROM odd [RANGE '5 s' SLIDE '5 s'] GROUP BY x", name="p")
        engine.run()
        assert engine.results("q").to_arrow()["n"].to_pylist() == [5]
        assert not engine.counts["s"].odd_times
        assert "look like seconds" in engine.counts["odd"].odd_times


def test_times_far_ahead(spark: SparkSession) -> None:
    with Engine(spark) as engine:
        frame = spark.sql("SELECT id AS at FROM range(1700000000000, 1700000000005)")
        engine.stream("s", frame, time="timestamp_seconds(at)")
        later = spark.sql("SELECT id AS at FROM range(2700000000, 2700000005)")
        engine.stream("later", later, time="timestamp_seconds(at)")
        engine.query("SELECT count(*) AS n FROM s [RANGE '5 s' SLIDE '5 s']", name="q")
        engine.query("SELECT count(*) AS n FROM later [RANGE '5 s' SLIDE '5 s']", name="p")
        engine.run()
        assert engine.counts["s"].events == 0
        # The year 55840 is none of Spark's timestamps, so these have no time at all.
        assert engine.counts["s"].malformed + engine.counts["s"].ahead == 5
        # The year 2055 is one, thirty years from now.
        assert engine.counts["later"].ahead == 5 and not engine.counts["later"].events
        assert "more than ten years ahead of the clock" in engine.counts["later"].odd_times
