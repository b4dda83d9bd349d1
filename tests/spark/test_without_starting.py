"""A run over plain files starts no Java at all, and one that needs Spark after all starts it when it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mullion.spark.plain_paths import carried_columns
from mullion.spark.sources import read_columns

SCRIPT = """
CREATE STREAM s USING parquet OPTIONS (path '{folder}') TIMESTAMP BY ts;
CREATE QUERY totals AS SELECT k, sum(v) AS total FROM s [RANGE 10 s SLIDE 5 s] WHERE v > 1 GROUP BY k;
CREATE QUERY pairs AS SELECT a.k FROM s [RANGE 5 s] a, s [RANGE 5 s] b WHERE a.k = b.k AND a.v < b.v;
"""
PROGRAM = """
import sys
from pathlib import Path
from mullion.engine import Engine
from pyspark import SparkContext
with Engine() as engine:
    engine.execute(Path(sys.argv[1]).read_text())
    engine.run()
    print(len(engine.results("totals")), len(engine.results("pairs")), SparkContext._gateway is None)
    {more}
"""


def write_events(folder: Path) -> None:
    folder.mkdir()
    times = [1_700_000_000_000_000 + i * 1_000_000 for i in range(20)]
    columns = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": ["a", "b"] * 10, "v": list(range(20))}
    pq.write_table(pa.table(columns), folder / "part-0.parquet")


def ran(tmp_path: Path, script: str, more: str = "pass") -> str:
    (tmp_path / "script.sql").write_text(script)
    command = [sys.executable, "-c", PROGRAM.format(more=more), str(tmp_path / "script.sql")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("where", ["v > 1", "v > '1'", "v > CAST('1' AS INT) AND v <> CAST('Infinity' AS DOUBLE)"])
def test_plain_files_start_no_java(tmp_path: Path, where: str) -> None:
    """Nor do constants that are cast, whatever to, nor a single file."""
    write_events(tmp_path / "in")
    for path in (tmp_path / "in", *(tmp_path / "in").iterdir()):
        script = SCRIPT.format(folder=path).replace("v > 1", where)
        assert ran(tmp_path, script) == "10 34 True\n"


@pytest.mark.slow
@pytest.mark.spark
def test_answers_become_a_frame_where_spark_was_not_needed_before(tmp_path: Path) -> None:
    write_events(tmp_path / "in")
    more = 'print(engine.results("totals").to_spark().count())'
    assert ran(tmp_path, SCRIPT.format(folder=tmp_path / "in"), more) == "10 34 True\n10\n"


@pytest.mark.slow
@pytest.mark.spark
def test_what_only_spark_evaluates_starts_it(tmp_path: Path) -> None:
    write_events(tmp_path / "in")
    script = SCRIPT.format(folder=tmp_path / "in").replace("WHERE v > 1", "WHERE v > 1 AND CAST(v AS STRING) <> 'x'")
    assert ran(tmp_path, script) == "10 34 False\n"


TYPES = {
    "whole": pa.array([1], pa.int64()),
    "Small": pa.array([1], pa.int8()),
    "real": pa.array([1.5]),
    "text": pa.array(["x"]),
    "day": pa.array([1], pa.date32()),
    "price": pa.array([1], pa.decimal128(10, 2)),
    "at": pa.array([1], pa.timestamp("us", "UTC")),
    "yes": pa.array([True]),
    "raw": pa.array([b"x"]),
}


@pytest.mark.spark
def test_a_footer_tells_what_spark_finds(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table(TYPES), tmp_path / "b.parquet")
    pq.write_table(pa.table({"other": [1]}), tmp_path / "c.parquet")
    options = {"path": str(tmp_path)}
    assert carried_columns("parquet", options) == read_columns(spark, "s", "parquet", options)
    pq.write_table(pa.table({"first": [1]}), tmp_path / "a.parquet")
    assert carried_columns("parquet", options) == read_columns(spark, "s", "parquet", options)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1], pa.uint32()),
        pa.array([1], pa.timestamp("us")),
        pa.array([1], pa.timestamp("ns", "UTC")),
        pa.array([[1]]),
        pa.array([{"x": 1}]),
        pa.array([1], pa.time64("us")),
    ],
    ids=str,
)
def test_spark_says_what_is_not_plain(column: pa.Array, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1], "x": column}), tmp_path / "a.parquet")
    assert carried_columns("parquet", {"path": str(tmp_path)}) is None


@pytest.mark.parametrize("more", ["day=1", "_metadata", "inner"])
def test_folders_that_mean_more_are_left_to_spark(more: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1]}), tmp_path / "a.parquet")
    assert carried_columns("parquet", {"path": str(tmp_path)}) is not None
    assert carried_columns("parquet", {"path": str(tmp_path), "mergeschema": "true"}) is None
    (tmp_path / more).mkdir()
    assert carried_columns("parquet", {"path": str(tmp_path)}) is None
