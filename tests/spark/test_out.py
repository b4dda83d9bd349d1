"""Engines and their directories: one run at a time, and nobody's answers but their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mullion import Engine
from mullion.errors import MullionError
from mullion.sinks import compaction
from mullion.sinks.files import write_table
from mullion.storage.lock import InUse
from mullion.testing import COMPACTION_STEPS, Crash, Replay, crash_at

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


def read_all(engine: Engine) -> None:
    """Let a followed stream answer what is there."""
    for feed in engine._operation._feeds.values():
        assert feed._query is not None
        feed._query.processAllAvailable()


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
        again.run(close=True)
    assert [row["total"] for row in rows(out)] == [31] * 3


def test_nobody_removes_the_answers_of_another(spark: SparkSession, batches: Replay, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for checkpoint in (tmp_path / "a", tmp_path / "a"):
        with engine_over(spark, batches, out=out, checkpoint=checkpoint) as engine:
            engine.run(close=True)
    before = rows(out)
    for checkpoint in (None, tmp_path / "b"):
        with engine_over(spark, batches, out=out, checkpoint=checkpoint) as engine:
            with pytest.raises(MullionError, match=f"{out} holds answers of the checkpoint {tmp_path / 'a'}"):
                engine.run(close=True)
            assert rows(out) == before
    with engine_over(spark, batches, out=tmp_path / "free", checkpoint=tmp_path / "b") as engine:
        engine.run(close=True)
    assert rows(tmp_path / "free") == before, "a refused run leaves its checkpoint as it was"
    with engine_over(spark, batches, "SELECT count(*) AS n", out=out, overwrite=True) as engine:
        engine.run(close=True)
    assert [row["n"] for row in rows(out)] == [2] * 3


MANY = """
CREATE STREAM s (ts TIMESTAMP, x INT) USING json OPTIONS ({options}) TIMESTAMP BY ts;
CREATE QUERY q AS SELECT sum(x) AS total FROM s [RANGE '1 min' SLIDE '1 min'];
CREATE QUERY by_x AS SELECT x, count(*) AS n FROM s [RANGE '2 min' SLIDE '1 min'] GROUP BY x;
CREATE QUERY late AS SELECT a.x AS x FROM s [RANGE '1 min'] AS a, s [RANGE '1 min'] AS b WHERE a.x = b.x;
"""


@pytest.mark.parametrize("sharded", [False, True])
def test_crashes_while_files_are_merged(
    sharded: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MANY", 1)
    batches = Replay(tmp_path / "events")
    for minute in range(3 if sharded else 5):
        batches.add([{"ts": f"2024-01-01 00:0{minute}:{second:02d}", "x": second} for second in (1, 30)])
    options: dict[str, Any] = {"shard_above": 1} if sharded else {}
    with Engine(spark, out=tmp_path / "whole", compact=False, **options) as engine:
        engine.execute(MANY.format(options=batches.options))
        engine.run()
    places = {"out": tmp_path / "out", "checkpoint": tmp_path / "state"}
    steps = ("between swaps",) if sharded else COMPACTION_STEPS
    for step in (*steps, None):
        with Engine(spark, **places, **options) as engine:
            engine.execute(MANY.format(options=batches.options))
            if step is None:
                engine.run(close=True)
                assert engine.missing_answers == {}
            else:
                with crash_at(step), pytest.raises(Crash):
                    engine.run()
    for name in ("q", "by_x", "late"):
        key = repr
        assert sorted(rows(tmp_path / "out", name), key=key) == sorted(rows(tmp_path / "whole", name), key=key)
        assert len(list((tmp_path / "out" / name).glob("*.parquet"))) <= 8
    assert (tmp_path / "out" / "q").is_symlink()
    for path in (tmp_path / "out" / "q", tmp_path / "out" / "q" / "*.parquet"):
        assert spark.read.parquet(str(path)).count() == len(rows(tmp_path / "whole"))


def test_answers_that_are_gone_are_told_once(spark: SparkSession, tmp_path: Path) -> None:
    batches, places = Replay(tmp_path / "events"), {"out": tmp_path / "out", "checkpoint": tmp_path / "state"}

    def more(minutes: range) -> dict[str, int]:
        for minute in minutes:
            batches.add([{"ts": f"2024-01-01 00:0{minute}:{second:02d}", "x": second} for second in (1, 30)])
        with Engine(spark, **places) as engine:
            engine.execute(MANY.format(options=batches.options))
            engine.start(follow=True)
            read_all(engine)
            engine.stop()
            return engine.missing_answers

    assert more(range(3)) == {}
    assert more(range(3, 5)) == {}
    before = {name: len(rows(tmp_path / "out", name)) for name in ("q", "by_x", "late")}
    for name in ("q", "late"):
        for file in (tmp_path / "out" / name).glob("*.parquet"):
            file.unlink()
    told = more(range(5, 7))
    assert told == {"q": before["q"], "late": before["late"]}
    assert more(range(7, 8)) == {}


def test_another_query_of_the_same_name(spark: SparkSession, batches: Replay, tmp_path: Path) -> None:
    """Never two kinds of rows in one folder, and the rows of the first query stay."""
    out = tmp_path / "out"
    with engine_over(spark, batches, out=out, checkpoint=tmp_path / "state") as engine:
        engine.start(follow=True)
        read_all(engine)
        first = rows(out)
        engine.drop("q")
        engine.query("SELECT x, count(*) AS n FROM s [RANGE '1 min' SLIDE '1 min'] GROUP BY x", name="q")
        assert len(engine.results("q")) == 0, "the answers that are there are not its own"
        for minute in range(5, 9):
            batches.add([{"ts": f"2024-01-01 00:0{minute}:01", "x": minute}])
        read_all(engine)
        engine.stop()
        assert set(engine.results("q").to_arrow().column_names) == {"window_start", "window_end", "x", "n"}
    assert rows(out) and all("n" in row for row in rows(out))
    assert rows(out / "_earlier" / "q", "000000") == first


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_spark_reads_every_type_of_answers(spark: SparkSession, tmp_path: Path, vectorized: str) -> None:
    instant = pa.timestamp("us", tz="UTC")
    types = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), instant, pa.float64(), pa.string()]
    numbers = [None if i % 7 == 0 else i % 100 for i in range(1000)]
    table = pa.table(
        {
            f"c{i}": pa.array(numbers).cast(pa.int32()).cast(kind)
            if pa.types.is_date(kind)
            else pa.array(numbers).cast(kind)
            for i, kind in enumerate(types)
        }
    )
    write_table(tmp_path / "q.parquet", table)
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    found = session.read.parquet(str(tmp_path / "q.parquet")).toArrow()
    assert found.cast(table.schema).equals(table)
