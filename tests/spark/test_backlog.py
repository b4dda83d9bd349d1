"""What Spark makes of the size of batches that Mullion chooses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mullion.engine import Engine
from mullion.errors import SourceError
from mullion.memory import GB, Memory
from mullion.spark import backlog
from mullion.spark.events import SparkEvents
from mullion.spark.session import heap_bytes, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COUNTS = "SELECT k, count(*) AS n FROM s [RANGE 20 s SLIDE 10 s] GROUP BY k"
KEYS = "SELECT DISTINCT k FROM s [RANGE 10 s SLIDE 10 s]"


def write(folder: Path, number: int, seconds: range) -> Path:
    folder.mkdir(exist_ok=True)
    times = pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", "UTC"))
    path = folder / f"{number}.parquet"
    pq.write_table(pa.table({"ts": times, "k": pa.array(["xy"[second % 2] for second in seconds])}), path)
    os.utime(path, (number, number))
    return path


def run(
    spark: SparkSession, base: Path, place: str, source: str | None = None, **how: Any
) -> tuple[dict[str, list[Any]], int, int]:
    options = source or f"path '{base / 's'}'"
    with Engine(spark, out=base / place / "out", checkpoint=base / place / "state") as engine:
        engine.execute(f"CREATE STREAM s (ts TIMESTAMP, k STRING) USING parquet OPTIONS ({options}) TIMESTAMP BY ts")
        engine.query(COUNTS, name="counts")
        engine.query(KEYS, name="keys")
        engine.run(**how)
        found = {name: sorted(map(repr, engine.results(name).to_arrow().to_pylist())) for name in ("counts", "keys")}
        counts = engine.counts["s"]
        return found, counts.batches, counts.late


def test_a_backlog_in_batches_answers_what_it_answers_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark keeps to the size of batches in a bounded run, over files in disorder, and a second run goes on."""
    sizes = [write(tmp_path / "s", i, range(low, low + 40)).stat().st_size for i, low in enumerate((80, 0, 40))]
    assert run(spark, tmp_path, "once")[1:] == (1, 0)
    monkeypatch.setattr(backlog, "batch_size_options", lambda *_: {"maxbytespertrigger": str(max(sizes) + 1)})
    first, batches, late = run(spark, tmp_path, "often")
    assert (batches, late) == (3, 0)
    write(tmp_path / "s", 3, range(160, 200))
    write(tmp_path / "s", 4, range(120, 160))
    often, batches, late = run(spark, tmp_path, "often", close=True)
    assert (batches, late) == (5, 0) and len(often["counts"]) > len(first["counts"]) > 0
    monkeypatch.undo()
    once, batches, late = run(spark, tmp_path, "once", close=True)
    assert (batches, late) == (2, 0) and once == often


@pytest.mark.parametrize(
    "source",
    [
        "path 'file://{}'",
        "path '{}', recursiveFileLookup 'true'",
        "path '{}', pathGlobFilter '[0-9].parquet'",
        "path '{}', pathGlobFilter '?.parquet'",
        "path '{}/[0-2].parquet'",
    ],
)
def test_a_backlog_in_batches_however_its_files_are_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """Files beside them are strangers, which hold nothing up; a pattern that only Spark understands is one batch."""
    folder = tmp_path / "s" / "deep" if "recursive" in source else tmp_path / "s"
    folder.mkdir(parents=True)
    sizes = [write(folder, i, range(low, low + 40)).stat().st_size for i, low in enumerate((80, 0, 40))]
    if "Glob" in source:
        write(folder, 10, range(30))
    options = source.format(tmp_path / "s")
    once = run(spark, tmp_path, "once", options)
    assert once[1:] == (1, 0) and once[0]["counts"]
    monkeypatch.setattr(backlog, "batch_size_options", lambda *_: {"maxbytespertrigger": str(max(sizes) + 1)})
    assert run(spark, tmp_path, "often", options) == (once[0], 1 if "Filter '[" in source else 3, 0)


@pytest.mark.parametrize("late", [False, True])
def test_a_file_larger_than_a_batch_is_aggregated_in_parts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """Also where some of its events are late, some have no time, and a part has none."""
    if late:
        write(tmp_path / "s", 0, range(60, 61))
    times = [*range(50), *([None] if late else []), *range(80, 120)]
    seconds = [None if time is None else time * 1_000_000 for time in times]
    (tmp_path / "s").mkdir(exist_ok=True)
    table = pa.table({"ts": pa.array(seconds, pa.timestamp("us", "UTC")), "k": pa.array(["x"] * len(times))})
    pq.write_table(table, tmp_path / "s" / "1.parquet")
    parts: list[int] = []
    found = SparkEvents.parts
    monkeypatch.setattr(SparkEvents, "parts", lambda self: (parts.append(len(found(self))), found(self))[1])

    def run(portion: int) -> Any:
        monkeypatch.setattr(Memory, "portion_rows", lambda self, row_bytes, tasks: portion)
        with Engine(spark, way="native") as engine:
            engine.execute(
                "CREATE STREAM s (ts TIMESTAMP, k STRING) USING parquet "
                f"OPTIONS (path '{tmp_path / 's'}', maxFilesPerTrigger '1') TIMESTAMP BY ts LATENESS '30 s'"
            )
            engine.query(COUNTS, name="counts")
            engine.run()
            counts = engine.counts["s"]
            return engine.results("counts").to_arrow().to_pylist(), counts.events, counts.late, counts.malformed

    whole = run(1_000_000)
    assert max(parts) == 1
    assert run(5) == whole and max(parts) == 5
    assert whole[1:] == ((61, 30, 1) if late else (90, 0, 0))


def test_rows_that_the_driver_cannot_hold_are_refused_before_they_are_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "s", 0, range(40))
    monkeypatch.setattr(Memory, "most_rows", lambda self, row_bytes: 39)
    with pytest.raises(SourceError, match="stream 's' has 40 events, and memory has room for 39: joins, row"):
        run(spark, tmp_path, "small")


def test_the_heap_is_a_part_of_the_limit(spark: SparkSession) -> None:
    assert settings(memory="700m")["spark.driver.memory"] == "700m"
    assert settings(memory="700m", config={"spark.driver.memory": "2g"})["spark.driver.memory"] == "2g"
    assert settings()["spark.driver.maxResultSize"] == "0"
    engine = Engine(spark, memory="8GB")
    assert engine.session is not None
    assert engine._backend.memory == Memory(8 * GB, heap_bytes(spark))
