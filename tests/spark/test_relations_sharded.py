"""Relations in shards on executors answer as on the driver, also when a run is interrupted and goes on."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from mullion.engine import Engine
from mullion.testing import Crash, Replay, crash_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = {
    "pairs": "SELECT o.id AS id, o.price AS price, p.price AS paid "
    "FROM orders [RANGE '9 s'] o, payments [RANGE '5 s'] p WHERE o.id = p.id AND o.price <= p.price",
    "unpaid": "SELECT id, price FROM orders [RANGE '8 s' SLIDE '2 s'] o "
    "WHERE NOT EXISTS (SELECT 1 FROM payments [RANGE '6 s'] p WHERE p.id = o.id)",
    "seen": "SELECT DISTINCT o.id AS id FROM orders [RANGE '4 s'] o, payments [RANGE '4 s'] p WHERE o.id = p.id",
    "sums": "SELECT o.id AS id, count(*) AS n, sum(p.price) AS paid "
    "FROM orders [RANGE '9 s' SLIDE '3 s'] o, payments [RANGE '5 s'] p WHERE o.id = p.id GROUP BY o.id",
    "all_pairs": "SELECT count(*) AS n FROM orders [RANGE '9 s' SLIDE '3 s'] o, payments [RANGE '5 s'] p "
    "WHERE o.id = p.id",
}
SHARDED = {"pairs", "unpaid", "seen", "sums"}
"""One group of everything can't be split."""


def replay(directory: Path, seed: int) -> Replay:
    """Three batches; half of the events have one key."""
    dice, batches, now = random.Random(seed), Replay(directory), 0.0
    for _ in range(3):
        events = []
        for _ in range(30):
            now += dice.random() * 0.4
            number = dice.choice(["hot", "hot", "a", "b", "c", None])
            events.append({"ts": f"2024-01-01 00:00:{now:09.6f}", "id": number, "price": dice.randrange(9)})
        batches.add(events)
    return batches


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    base = tmp_path_factory.mktemp("events")
    text = ""
    for seed, name in enumerate(("orders", "payments")):
        options = replay(base / name, seed).options
        text += f"CREATE STREAM {name} (ts TIMESTAMP, id STRING, price INT) USING json OPTIONS ({options}) "
        text += "TIMESTAMP BY ts;\n"
    return text + "".join(f"CREATE QUERY {name} AS {query};\n" for name, query in QUERIES.items())


@pytest.fixture(scope="module")
def on_the_driver(spark: SparkSession, script: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("driver")
    with Engine(spark, out=out) as engine:
        engine.execute(script)
        engine.run()
        assert in_shards(engine) == set()
    found = answers(out)
    assert all(found.values())
    return found


def in_shards(engine: Engine) -> set[str]:
    """The queries that are computed in shards on executors."""
    shards = [run.shards for run in engine.relations.runs.values() if run.shards is not None]
    assert all(len(own.standing) == 8 for own in shards)
    return {name for own in shards for name in own.names}


def answers(out: Path) -> dict[str, list[Any]]:
    found = {}
    for name in QUERIES:
        rows = [row for file in (out / name).glob("*.parquet") for row in pq.read_table(file).to_pylist()]
        found[name] = sorted(rows, key=repr)
    return found


def test_shards_answer_as_the_driver_does(
    spark: SparkSession, script: str, on_the_driver: dict[str, Any], tmp_path: Path
) -> None:
    with Engine(spark, out=tmp_path / "out", compact=False, shard_above=0) as engine:
        engine.execute(script)
        engine.run()
        assert in_shards(engine) == SHARDED
        (run,) = engine.relations.runs.values()
        assert run.counts.answers == sum(len(rows) for rows in on_the_driver.values())
    assert answers(tmp_path / "out") == on_the_driver
    assert list((tmp_path / "out/pairs").glob("*-shard-*.parquet")), "shards write by themselves"


def test_a_run_in_shards_that_is_interrupted_goes_on(
    spark: SparkSession, script: str, on_the_driver: dict[str, Any], tmp_path: Path
) -> None:
    """The second start has too few events for shards, and goes on in them because the first did."""
    steps = [("before commit", 8, 0), ("after answers", 2, 10_000), (None, 0, 10_000)]
    for step, occurrence, above in steps:
        where = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
        with Engine(spark, **where, shard_above=above) as engine:
            engine.execute(script)
            if step is None:
                engine.run(close=True)
                assert in_shards(engine) == SHARDED
            else:
                with crash_at(step, occurrence), pytest.raises(Crash):
                    engine.run(close=True)
    assert answers(tmp_path / "out") == on_the_driver
