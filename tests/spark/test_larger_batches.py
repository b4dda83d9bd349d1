"""Batches that the user keeps small become larger while the run is behind, and small again."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.language.types import INT, TIMESTAMP
from mullion.memory import GB, Memory
from mullion.spark.larger_batches import larger_batches


def write(folder: Path, number: int) -> None:
    folder.mkdir(exist_ok=True)
    times = pa.array([number * 10 + i for i in range(10)], pa.timestamp("us", "UTC"))
    path = folder.parent / f"{number:03d}.parquet"
    pq.write_table(pa.table({"ts": times, "x": pa.array(range(10), pa.int32())}), path)
    os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))  # Spark takes files in this order
    path.rename(folder / path.name)


@pytest.mark.parametrize(
    ("option", "times", "larger"),
    [
        ("maxfilespertrigger", 4, "8"),
        ("maxfilespertrigger", 1, None),
        ("maxbytespertrigger", 2, "4"),
        ("recursivefilelookup", 4, None),
    ],
)
def test_limits_grow(tmp_path: Path, option: str, times: int, larger: str | None) -> None:
    write(tmp_path / "s", 0)
    options = (("path", str(tmp_path / "s")), (option, "2"))
    stream = Stream("s", (("ts", TIMESTAMP), ("x", INT)), "ts", 0, "parquet", options)
    assert larger_batches(stream, times, Memory.divided(2 * GB)) == ({} if larger is None else {option: larger})


def test_memory_is_the_limit(tmp_path: Path) -> None:
    write(tmp_path / "s", 0)
    options = (("path", str(tmp_path / "s")), ("maxfilespertrigger", "2"))
    stream = Stream("s", (("ts", TIMESTAMP), ("x", INT)), "ts", 0, "parquet", options)
    grown = larger_batches(stream, 1 << 40, Memory.divided(2 * GB))
    assert 2 < int(grown["maxfilespertrigger"]) < 1 << 40


def test_a_run_goes_on_with_larger_batches(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / "s", number)
    sizes: list[int] = []

    def saw(engine: Engine) -> None:
        run = engine.runs["s"]
        sizes.append(run.counts.events - sum(sizes))
        if run.counts.batches == 3:
            run.overload.monitor.steps["enlarge"] = 2
            for number in range(3, 40):
                write(tmp_path / "s", number)

    with Engine(spark, on_batch=saw, checkpoint=tmp_path / "state") as engine:
        engine.execute(
            f"CREATE STREAM s (ts TIMESTAMP, x INT) USING parquet OPTIONS (path '{tmp_path / 's'}', maxFilesPerTrigger "
            "'1') TIMESTAMP BY ts; CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 10 us SLIDE 10 us]"
        )
        engine.start(follow=True)
        assert engine.runs["s"].source.can_enlarge
        until = time.monotonic() + 60
        while sum(sizes) < 400 and time.monotonic() < until:
            engine.wait(0.2)
        engine.stop()
        answers = engine.results("q").to_arrow().column("n").to_pylist()
    assert sum(sizes) == 400 and sizes[:3] == [10, 10, 10] and max(sizes) >= 40
    assert answers == [10] * 39
