"""A run that is killed at any moment and started again gives the answers of an uninterrupted one, each once."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from mullion.engine import Engine
from mullion.errors import CheckpointError
from mullion.testing import STEPS, Crash, Replay, crash_at
from spark.killed_run import write_questions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BATCHES = 10
QUERIES = """
CREATE QUERY total AS SELECT sum(price) AS total, count(*) AS n, max(price) AS hi
  FROM trades [RANGE '40 s' SLIDE '10 s'];
CREATE QUERY by_symbol AS SELECT symbol, sum(volume) AS volume, stddev_pop(volume) AS spread
  FROM trades [RANGE '30 s' SLIDE '30 s'] WHERE volume > 20 GROUP BY symbol HAVING count(*) > 1;
CREATE QUERY hops AS SELECT count(*) AS n, count(DISTINCT symbol) AS d
  FROM trades [RANGE '7 s' SLIDE '20 s' OFFSET '3 s'];
CREATE QUERY last_rows AS SELECT median(price) AS m, first(symbol) AS f, count(*) AS n FROM trades [ROWS 5 SLIDE 3];
CREATE QUERY pairs AS SELECT t.symbol AS symbol, t.price AS price, q.price AS quoted
  FROM trades [RANGE '20 s'] t, quotes [RANGE '10 s'] q WHERE t.symbol = q.symbol AND t.volume < q.volume;
CREATE QUERY unquoted AS SELECT symbol, price FROM trades [RANGE '20 s' SLIDE '5 s'] t
  WHERE NOT EXISTS (SELECT 1 FROM quotes [RANGE '6 s'] q WHERE q.symbol = t.symbol AND q.volume > 60);
CREATE QUERY symbols AS SELECT DISTINCT symbol FROM quotes [RANGE '4 s'];
CREATE QUERY quoted AS SELECT t.symbol AS symbol, count(*) AS n, sum(q.volume) AS volume
  FROM trades [ROWS 7] t, quotes [RANGE '10 s' SLIDE '10 s'] q WHERE t.symbol = q.symbol GROUP BY t.symbol;
"""
RELATIONS = ("pairs", "unquoted", "symbols", "quoted")


def script(batches: Replay, queries: str = QUERIES) -> str:
    columns = "ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT"
    source = f"({columns}) USING json OPTIONS ({batches.options}) TIMESTAMP BY ts LATENESS '5 s'"
    synopses = (
        "CREATE SYNOPSIS best ON trades(price) USING ordered_sharing (rows 30);"
        "CREATE SYNOPSIS grams ON trades(price) USING timegram (buckets 8, rows 30);"
        "CREATE SUMMARY often ON trades(symbol) WITH GRANULARITY '4 s' AND COLLAPSE (2, 6);"
        "CREATE SUMMARY short ON trades(price) WITH GRANULARITY '2 s' AND COLLAPSE (2, 6) MEMORY '200 B';"
        "CREATE SUMMARY quoted ON quotes(symbol) WITH GRANULARITY '4 s' AND COLLAPSE (2, 2) MEMORY '1 GB';"
        "CREATE SUMMARY sketched ON trades(volume) WITH GRANULARITY '4 s' AND COLLAPSE (2, 2) USING count_sketch;"
    )
    streams = f"CREATE STREAM trades {source} KEEP '1 min';\nCREATE STREAM quotes {source};"
    return f"{streams}\n{synopses}\n{queries}"


def replay(directory: Path, *, number: int, seed: int = 1, clean: bool = False) -> Replay:
    """Batches of trades, a little disordered; unless clean, now and then too late or malformed."""
    rnd = random.Random(seed)
    batches, now = Replay(directory), 1_700_000_000.0
    for _ in range(number):
        events: list[dict[str, Any]] = []
        for _ in range(rnd.randrange(1, 30)):
            now += rnd.random() * 2
            ts = now - rnd.choice([0, 0, 0, rnd.random() * 4, 0 if clean else 60 * (rnd.random() < 0.1)])
            text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ts)) + f".{int(ts % 1 * 1e6):06d}"
            event = {"ts": text, "symbol": rnd.choice("abc"), "price": rnd.random() * 100, "volume": rnd.randrange(99)}
            events.append(event if clean or rnd.random() > 0.02 else {"ts": "no time", "volume": "x"})
        batches.add(events)
    return batches


def answers(out: Path) -> dict[str, list[dict[str, Any]]]:
    """Everything that was written, query by query, late and malformed records too."""
    found: dict[str, list[dict[str, Any]]] = {}
    for folder in sorted(out.glob("[!.]*")):
        rows = [row for file in folder.glob("*.parquet") for row in pq.read_table(file).to_pylist()]
        found[folder.name] = sorted(rows, key=repr)
    return found


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    return replay(tmp_path_factory.mktemp("events") / "trades", number=BATCHES)


@pytest.fixture(scope="module")
def uninterrupted(
    spark: SparkSession, batches: Replay, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("whole")
    with Engine(spark, out=out) as engine:
        engine.execute(script(batches))
        engine.run()
        write_questions(engine, out)
    found = answers(out)
    assert found["_late"] and found["_malformed"]
    assert all(found[name] for name in ("total", "by_symbol", "hops", "last_rows", *RELATIONS))
    assert len(found["questions"]) == 10
    return found


@pytest.mark.parametrize("step", STEPS)
def test_crash_at_each_step(
    step: str, spark: SparkSession, batches: Replay, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    for occurrence in (1, 2, 5):
        with Engine(spark, out=tmp_path / "out", checkpoint=tmp_path / "checkpoint") as engine:
            engine.execute(script(batches))
            with crash_at(step, occurrence), pytest.raises(Crash):
                engine.run(close=True)
    with Engine(spark, out=tmp_path / "out", checkpoint=tmp_path / "checkpoint") as engine:
        engine.execute(script(batches))
        engine.run(close=True)
        write_questions(engine, tmp_path / "out")
    assert answers(tmp_path / "out") == uninterrupted


def test_starting_a_finished_run_again_changes_nothing(
    spark: SparkSession, batches: Replay, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    for close in (True, False, True):
        with Engine(spark, out=tmp_path / "out", checkpoint=tmp_path / "checkpoint") as engine:
            engine.execute(script(batches))
            engine.run(close=close)
            write_questions(engine, tmp_path / "out")
        assert answers(tmp_path / "out") == uninterrupted


def test_changed_stream_is_refused(spark: SparkSession, batches: Replay, tmp_path: Path) -> None:
    with Engine(spark, out=tmp_path / "out", checkpoint=tmp_path / "checkpoint") as engine:
        engine.execute(script(batches))
        engine.run()
    with Engine(spark, out=tmp_path / "out", checkpoint=tmp_path / "checkpoint") as engine:
        engine.execute(script(batches).replace("LATENESS '5 s'", "LATENESS '6 s'"))
        with pytest.raises(CheckpointError, match="stream 'trades' is not the one"):
            engine.run()
    with Engine(spark, out=tmp_path / "out", checkpoint=tmp_path / "checkpoint") as engine:
        engine.execute(script(batches).replace("SLIDE '10 s'", "SLIDE '20 s'"))
        with pytest.raises(CheckpointError, match="query 'total' is not the one"):
            engine.run()


def test_a_query_may_join_and_leave_between_runs(
    spark: SparkSession, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    """A query that is new to a checkpoint answers windows that start after what was read; the others go on."""
    whole = replay(tmp_path / "whole", number=BATCHES)
    part = replay(tmp_path / "part", number=BATCHES // 2)
    files = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    with Engine(spark, **files) as engine:  # type: ignore[arg-type]
        engine.execute(script(part))
        engine.start(follow=True)
        while engine.counts.get("trades") is None or engine.counts["trades"].batches < BATCHES // 2:
            time.sleep(0.05)
        engine.stop()
        newest = engine.runs["trades"].newest
    for file in sorted(whole.directory.glob("*.json"))[BATCHES // 2 :]:
        file.rename(part.directory / file.name)
    more = QUERIES.replace("CREATE QUERY hops", "CREATE QUERY hops_again")
    with Engine(spark, **files) as engine:  # type: ignore[arg-type]
        engine.execute(script(part, more))
        engine.run(close=True)
    found = answers(tmp_path / "out")
    assert found["total"] == uninterrupted["total"]
    assert found["by_symbol"] == uninterrupted["by_symbol"]
    assert newest is not None
    expected = [row for row in uninterrupted["hops"] if row["window_start"].timestamp() * 1e6 > newest]
    assert found["hops_again"] == expected != []
