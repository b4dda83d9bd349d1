"""Engines and their directories: one run at a time, and nobody's answers but their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mullion import Engine
from mullion.errors import MullionError
from mullion.storage.lock import InUse
from mullion.testing import Replay

pytestmark = pytest.mark.spark


@pytest.fixture
def batches(tmp_path: Path) -> Replay:
    batches = Replay(tmp_path / "events")
    for minute in range(3):
        batches.add([{"ts": f"2024-01-01 00:0{minute}:{second:02d}", "x": second} for second in (1, 30)])
    return batches


def engine_over(spark: SparkSession, batches: Replay, query: str = "SELECT sum(x) AS total", **options: Any) -> Engine:
    engine = Engine(spark, **options)
    source = f"(ts TIMESTAMP, x INT) USING json OPTIONS ({batches.options}) TIMESTAMP BY ts"
    window = "[RANGE '1 min' SLIDE '1 min']"
    engine.execute(f"CREATE STREAM s {source}; CREATE QUERY q AS {query} FROM s {window}")
    return engine


def rows(out: Path, query: str = "q") -> list[dict[str, Any]]:
    files = sorted((out / query).glob("*.parquet"))
    found = [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
    return sorted(found, key=lambda row: row["window_end"])


def test_one_run_at_a_time_for_each_directory(spark: SparkSession, batches: Replay, tmp_path: Path) -> None:
    out, state = tmp_path / "out", tmp_path / "state"
    with engine_over(spark, batches, out=out, checkpoint=state) as first:
        first.start(follow=True)
        with pytest.raises(InUse, match=f"the checkpoint {state} is in use by process"):
            engine_over(spark, batches, out=out, checkpoint=state).start()
        with pytest.raises(InUse, match=f"the directory of answers {out} is in use by process"):
            engine_over(spark, batches, out=out, checkpoint=tmp_path / "other").start()
        first.stop()
        with pytest.raises(InUse):
            engine_over(spark, batches, out=out, checkpoint=state).start()
    with engine_over(spark, batches, out=out, checkpoint=state) as again:
        again.run()
    assert [row["total"] for row in rows(out)] == [31] * 3


def test_nobody_removes_the_answers_of_another(spark: SparkSession, batches: Replay, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for checkpoint in (tmp_path / "a", tmp_path / "a"):
        with engine_over(spark, batches, out=out, checkpoint=checkpoint) as engine:
            engine.run()
    before = rows(out)
    for checkpoint in (None, tmp_path / "b"):
        with engine_over(spark, batches, out=out, checkpoint=checkpoint) as engine:
            with pytest.raises(MullionError, match=f"{out} holds answers of the checkpoint {tmp_path / 'a'}"):
                engine.run()
            assert rows(out) == before
    with engine_over(spark, batches, out=tmp_path / "free", checkpoint=tmp_path / "b") as engine:
        engine.run()
    assert rows(tmp_path / "free") == before, "a refused run leaves its checkpoint as it was"
    with engine_over(spark, batches, "SELECT count(*) AS n", out=out, overwrite=True) as engine:
        engine.run()
    assert [row["n"] for row in rows(out)] == [2] * 3
