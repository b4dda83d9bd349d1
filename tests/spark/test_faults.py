"""A run that is killed at any moment and started again gives the answers of an uninterrupted one, each once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from conftest import QUICK_JAVA
from mullion.engine import Engine
from mullion.errors import CheckpointError
from mullion.testing import STEPS, Crash, Replay, crash_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KILLS = 40
QUERIES = """
CREATE QUERY total AS SELECT sum(price) AS total, count(*) AS n, max(price) AS hi
  FROM trades [RANGE '40 s' SLIDE '10 s'];
CREATE QUERY by_symbol AS SELECT symbol, sum(volume) AS volume, stddev_pop(volume) AS spread
  FROM trades [RANGE '30 s' SLIDE '30 s'] WHERE volume > 20 GROUP BY symbol HAVING count(*) > 1;
CREATE QUERY hops AS SELECT count(*) AS n, min(symbol) AS first FROM trades [RANGE '7 s' SLIDE '20 s' OFFSET '3 s'];
"""


def script(batches: Replay, queries: str = QUERIES) -> str:
    columns = "ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT"
    stream = f"CREATE STREAM trades ({columns}) USING json OPTIONS ({batches.options})"
    return f"{stream} TIMESTAMP BY ts LATENESS '5 s';\n{queries}"


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
    for folder in sorted(out.iterdir()):
        rows = [row for file in folder.glob("*.parquet") for row in pq.read_table(file).to_pylist()]
        found[folder.name] = sorted(rows, key=repr)
    return found


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    return replay(tmp_path_factory.mktemp("events") / "trades", number=12)


@pytest.fixture(scope="module")
def uninterrupted(
    spark: SparkSession, batches: Replay, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("whole")
    with Engine(spark, out=out) as engine:
        engine.execute(script(batches))
        engine.run()
    found = answers(out)
    assert found["_late"] and found["_malformed"] and found["total"] and found["by_symbol"] and found["hops"]
    return found


@pytest.mark.parametrize("step", STEPS)
def test_crash_at_each_step(
    step: str, spark: SparkSession, batches: Replay, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    for occurrence in (1, 2, 5):
        with Engine(spark, out=tmp_path / "out", checkpoint=tmp_path / "checkpoint") as engine:
            engine.execute(script(batches))
            with crash_at(step, occurrence), pytest.raises(Crash):
                engine.run()
    with Engine(spark, out=tmp_path / "out", checkpoint=tmp_path / "checkpoint") as engine:
        engine.execute(script(batches))
        engine.run()
    assert answers(tmp_path / "out") == uninterrupted


def test_starting_a_finished_run_again_changes_nothing(
    spark: SparkSession, batches: Replay, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    for _ in range(2):
        with Engine(spark, out=tmp_path / "out", checkpoint=tmp_path / "checkpoint") as engine:
            engine.execute(script(batches))
            engine.run()
        assert answers(tmp_path / "out") == uninterrupted


@pytest.mark.slow
def test_killed_for_real(spark: SparkSession, tmp_path: Path) -> None:
    """SIGKILL at random moments from outside, and at random steps from inside; two runs side by side.

    The input is clean and asked one thing, because most of the time goes into starting Spark 40 times.
    """
    path = tmp_path / "script.sql"
    path.write_text(script(replay(tmp_path / "events", number=12, clean=True), QUERIES.split(";")[0]))
    with Engine(spark, out=tmp_path / "whole") as engine:
        engine.execute(path.read_text())
        engine.run()
    whole = answers(tmp_path / "whole")
    with ThreadPoolExecutor(2) as pool:
        kills = pool.map(lambda seed: _kill_again_and_again(path, tmp_path, seed, whole), (1, 2))
    assert sum(kills) >= KILLS


def _kill_again_and_again(path: Path, base: Path, seed: int, uninterrupted: dict[str, Any]) -> int:
    """Start runs, kill each some times, compare each when it is through; returns how often one was killed."""
    rnd = random.Random(seed)
    kills, run = 0, 0
    while kills < KILLS // 2:
        out, checkpoint = base / f"out{seed}.{run}", base / f"checkpoint{seed}.{run}"
        command = [sys.executable, str(Path(__file__).with_name("killed_run.py")), str(path), str(out), str(checkpoint)]
        for left in reversed(range(min(KILLS // 4, KILLS // 2 - kills) + 1)):
            from_inside = rnd.random() < 0.6
            crash = [rnd.choice(STEPS), str(rnd.randrange(1, 4))] if left and from_inside else []
            quick = {**os.environ, "JDK_JAVA_OPTIONS": QUICK_JAVA}
            child = subprocess.Popen([*command, *crash], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=quick)
            assert child.stdout is not None
            if left and not from_inside:
                child.stdout.readline()
                time.sleep(rnd.random() * 1.5)
                child.kill()
            _, errors = child.communicate(timeout=180)
            if child.returncode == 0:
                break
            assert child.returncode == -signal.SIGKILL, errors.decode()
            kills += 1
        assert answers(out) == uninterrupted
        run += 1
    return kills


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
    whole = replay(tmp_path / "whole", number=12)
    part = replay(tmp_path / "part", number=6)
    files = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    with Engine(spark, **files) as engine:  # type: ignore[arg-type]
        engine.execute(script(part))
        engine.start(follow=True)
        while engine.counts.get("trades") is None or engine.counts["trades"].batches < 6:
            time.sleep(0.05)
        engine.stop()
        newest = engine.runs["trades"].newest
    for file in sorted(whole.directory.glob("*.json"))[6:]:
        file.rename(part.directory / file.name)
    more = QUERIES.replace("CREATE QUERY hops", "CREATE QUERY hops_again")
    with Engine(spark, **files) as engine:  # type: ignore[arg-type]
        engine.execute(script(part, more))
        engine.run()
    found = answers(tmp_path / "out")
    assert found["total"] == uninterrupted["total"]
    assert found["by_symbol"] == uninterrupted["by_symbol"]
    assert newest is not None
    expected = [row for row in uninterrupted["hops"] if row["window_start"].timestamp() * 1e6 > newest]
    assert found["hops_again"] == expected != []
