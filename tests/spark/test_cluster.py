"""On a cluster, with a machine lost on the way, a script has the answers that it has here."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mullion.engine import Engine
from mullion.testing import Replay
from processes import kill_session, wait_for
from standalone import Cluster, runs_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc"),
]

BATCHES = 6
FILES_A_BATCH = 4
SMALL = {"spark.executor.memory": "500m", "spark.cores.max": "2"}


def script(events: Path) -> str:
    """100 queries: windows that overlap, tumble and leave gaps, some grouped, most with a condition of their own."""
    stream = (
        "CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT) USING json"
        f" OPTIONS (path '{events}', maxFilesPerTrigger '{FILES_A_BATCH}') TIMESTAMP BY ts LATENESS '5 s'"
    )
    queries = [stream]
    for i in range(100):
        window = f"[RANGE '{7 + i % 13 * 5} s' SLIDE '{5 + i % 7 * 5} s']"
        where = "" if i % 4 == 0 else f" WHERE volume > {i}" if i % 4 < 3 else f" WHERE price < {i}.5 OR symbol = 'a'"
        what = ("sum(price) AS a, count(*) AS b", "avg(price) AS a, max(symbol) AS b", "sum(volume) AS a")[i % 3]
        by = ("symbol, ", " GROUP BY symbol") if i % 5 < 2 else ("", "")
        queries.append(f"CREATE QUERY q{i:02d} AS SELECT {by[0]}{what} FROM trades {window}{where}{by[1]}")
    return ";\n".join(queries)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The events and the script."""
    folder = tmp_path_factory.mktemp("cluster")
    rnd, now = random.Random(7), 1_700_000_000.0
    replay = Replay(folder / "events")
    for _ in range(BATCHES * FILES_A_BATCH):
        events = []
        for _ in range(40):
            now += rnd.random() * 0.2
            ts = datetime.fromtimestamp(now - rnd.random() * 4, UTC)
            price, volume = rnd.random() * 100, rnd.randrange(150)
            events.append({"ts": str(ts), "symbol": rnd.choice("abcde"), "price": price, "volume": volume})
        replay.add(events)
    (folder / "script.sql").write_text(script(folder / "events"))
    return folder


@pytest.fixture(scope="module")
def local(spark: SparkSession, world: Path) -> dict[str, pa.Table]:
    """The answers of a local run."""
    with Engine(spark, out=world / "local") as engine:
        engine.execute((world / "script.sql").read_text())
        engine.run()
    found = answers(world / "local")
    assert len(found) == 100
    assert sum(len(table) > 0 for table in found.values()) == 100
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("standalone")) as started:
        started.add_worker()
        yield started


def answers(out: Path) -> dict[str, pa.Table]:
    """What was written for each query, in an order that does not depend on who wrote it."""
    found = {}
    for folder in sorted(out.glob("[!.]*")):
        table = pa.concat_tables(pq.read_table(file) for file in sorted(folder.glob("*.parquet")))
        found[folder.name] = table.sort_by([(name, "ascending") for name in table.schema.names])
    return found


def run_and_lose_a_worker(cluster: Cluster, command: list[str], world: Path, checkpoint: str) -> str:
    """Run a program on two workers, and kill one with its executor in the midst of work; returns what was printed."""
    victim = cluster.add_worker()
    commits = world / checkpoint / "streams" / "trades" / "commits"

    def under_way() -> bool:
        assert process.poll() is None, process.communicate()
        done = [int(file.name[:12]) for file in commits.glob("[0-9]*")] if commits.exists() else []
        return max(done, default=-1) >= 1 and runs_python(victim)

    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, *command], cwd=world, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            wait_for(under_way, seconds=180, what="the second batch")
            kill_session(victim)
            assert not (commits / f"{BATCHES - 1:012d}.0").exists(), "the worker was killed too late"
            out, errors = process.communicate(timeout=180)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, "")
    return str(out)


def test_the_command_line(cluster: Cluster, world: Path, local: dict[str, pa.Table]) -> None:
    command = ["-m", "mullion", "run", "script.sql", "--master", cluster.url, "--stats", "stats.json"]
    command += ["--out", "out", "--checkpoint", "checkpoint", "--close", "--quiet", "--shard-above", "2"]
    command += [part for key, value in SMALL.items() for part in ("--conf", f"{key}={value}")]
    assert run_and_lose_a_worker(cluster, command, world, "checkpoint") == ""
    told = json.loads((world / "stats.json").read_text())
    assert told["streams"]["trades"]["batches"] == BATCHES
    assert '"way": "kernel"' in json.dumps(told["explanation"])
    assert list((world / "checkpoint").rglob("*shard*")), "the state of groups is on the executors"
    assert list(cluster.folder.rglob("mullion-*.zip")), "they got the package, and need no other"
    assert differing(answers(world / "out"), local) == set()


def differing(found: dict[str, pa.Table], expected: dict[str, pa.Table]) -> set[str]:
    return {name for name in expected if name not in found or not found[name].equals(expected[name])}
