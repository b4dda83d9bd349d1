"""How often Spark goes through a batch."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mullion import Engine
from mullion.spark.events import SparkEvents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = {
    "periodic": "SELECT sum(x) AS n FROM s [RANGE 10 s SLIDE 10 s]",
    "rows": "SELECT sum(x) AS n FROM s [ROWS 2]",
    "distinct": "SELECT DISTINCT k FROM s [RANGE 10 s SLIDE 10 s]",
}


def write(folder: Path, number: int, *seconds: int) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"ts": f"2024-01-01 00:00:{at:02d}", "k": "ab"[at % 2], "x": at}) for at in seconds]
    path = folder / f"{number}.json"
    path.write_text("\n".join(lines))
    os.utime(path, (1_700_000_000 + number,) * 2)


@pytest.fixture
def selects(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[str]]]:
    """The number of the batch and the columns of each statement over the events of a batch."""
    found: list[tuple[int, list[str]]] = []
    select = SparkEvents.select

    def noted(self: SparkEvents, columns: Sequence[str], **around: Any) -> Any:
        found.append((self.number, list(columns)))
        return select(self, columns, **around)

    monkeypatch.setattr(SparkEvents, "select", noted)
    return found


def test_rows_partials_and_late_events_come_from_one_pass(
    spark: SparkSession, tmp_path: Path, selects: list[tuple[int, list[str]]]
) -> None:
    """The size of the first batch is not known, so that its partials are a pass of their own."""
    write(tmp_path / "in", 0, 1, 12, 14)
    write(tmp_path / "in", 1, 13, 3, 25)
    write(tmp_path / "in", 2, 36)
    with Engine(spark) as engine:
        engine.execute(
            "CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) USING json "
            f"OPTIONS (path '{tmp_path / 'in'}', maxFilesPerTrigger '1') TIMESTAMP BY ts LATENESS '5 s' KEEP '1 hour'"
        )
        for name, text in QUERIES.items():
            engine.query(text, name=name)
        engine.run()
        assert [batch for batch, _ in selects] == [0, 0, 1, 2]
        assert engine.counts["s"].late == 1
        assert [row["x"] for table in engine.aside("late") for row in table.to_pylist()] == [3]
        assert [row["n"] for row in engine.results("periodic").to_arrow().to_pylist()] == [1, 39, 25, 36]
        assert engine.ask("SELECT count(*) AS n FROM s [RANGE 40 s]").to_arrow()["n"].to_pylist() == [6]


def test_partials_alone_are_one_pass(spark: SparkSession, tmp_path: Path, selects: list[tuple[int, list[str]]]) -> None:
    write(tmp_path / "in", 0, 1, 12, 14)
    write(tmp_path / "in", 1, 13, 25)
    with Engine(spark) as engine:
        engine.execute(
            "CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) USING json "
            f"OPTIONS (path '{tmp_path / 'in'}', maxFilesPerTrigger '1') TIMESTAMP BY ts LATENESS '5 s'"
        )
        engine.query(QUERIES["periodic"], name="periodic")
        engine.run()
    assert [batch for batch, _ in selects] == [0, 0, 1], "the first one is sampled, since its size is not known"


@pytest.mark.parametrize("malformed", [False, True])
def test_what_is_set_aside_of_parquet_files_is_read_without_spark_unless_records_have_no_time(
    spark: SparkSession, tmp_path: Path, selects: list[tuple[int, list[str]]], malformed: bool
) -> None:
    """Spark writes what a record without a time holds. The late ones are the same, whoever reads them."""
    for number, seconds in enumerate(([1, 12, 14], [13, 3, 25, *([None] if malformed else [])], [36, 2])):
        times = pa.array([None if at is None else at * 1_000_000 for at in seconds], pa.timestamp("us", "UTC"))
        folder = tmp_path / "in"
        folder.mkdir(exist_ok=True)
        table = pa.table({"ts": times, "k": ["a"] * len(seconds), "x": pa.array(range(len(seconds)), pa.int32())})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=2)
        os.utime(folder / f"{number}.parquet", (1_700_000_000 + number,) * 2)
    with Engine(spark) as engine:
        engine.execute(
            "CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) USING parquet "
            f"OPTIONS (path '{tmp_path / 'in'}', maxFilesPerTrigger '1') TIMESTAMP BY ts LATENESS '5 s'"
        )
        engine.query(QUERIES["periodic"], name="periodic")
        engine.run()
        assert [batch for batch, _ in selects] == ([1] if malformed else [])
        late = [(row["ts"].second, row["k"], row["x"]) for table in engine.aside("late") for row in table.to_pylist()]
        assert late == [(3, "a", 1), (2, "a", 1)]
        assert engine.counts["s"].malformed == malformed == sum(map(len, engine.aside("malformed")))
