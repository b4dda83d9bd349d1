"""How often Spark goes through a batch."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
