"""Queries that come and go while batches run: nobody else notices, and each answers exactly its own windows."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mullion import reference
from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.errors import NotSupported
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, DOUBLE, STRING, TIMESTAMP
from mullion.testing import Crash, Replay, crash_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECOND = 1_000_000
STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", DOUBLE), ("n", BIGINT)), "ts", 2 * SECOND)
STAY = {
    "total": "SELECT sum(x) AS total, count(*) AS c FROM s [RANGE '10 s' SLIDE '4 s']",
    "some": "SELECT max(x) AS m, sum(n) AS t FROM s [RANGE '6 s' SLIDE '3 s'] WHERE x > 2.5",
    "groups": "SELECT k, avg(x) AS a FROM s [RANGE '8 s' SLIDE '8 s'] WHERE n < 70 GROUP BY k",
}
JOIN = {
    "late_total": "SELECT sum(x) AS total FROM s [RANGE '9 s' SLIDE '5 s']",
    "late_groups": "SELECT k, count(*) AS c, min(x) AS m FROM s [RANGE '7 s' SLIDE '3 s'] WHERE x < 7 GROUP BY k",
    "same_slot": "SELECT sum(n) AS t FROM s [RANGE '6 s' SLIDE '3 s'] WHERE x > 2.5",
}


def batches(number: int = 7, *, late: bool = False) -> list[list[dict[str, Any]]]:
    """About 30 events in 5 seconds each, out of order within the lateness; some beyond it when asked for."""
    rng = random.Random(5)
    made = []
    for i in range(number):
        times = [i * 5 * SECOND + rng.randrange(5 * SECOND) for _ in range(30)]
        if late and i in (2, 4):
            times += [max(0, t - 9 * SECOND) for t in times[:3]]
        made.append([{"ts": t, "k": rng.choice("abc"), "x": rng.random() * 10, "n": rng.randrange(100)} for t in times])
    return made


def write(directory: Path, made: list[list[dict[str, Any]]]) -> Replay:
    replay = Replay(directory)
    for events in made:
        replay.add([{**e, "ts": _text(e["ts"])} for e in events])
    return replay


def _text(micros: int) -> str:
    return f"1970-01-01 00:{micros // 60_000_000:02d}:{micros // SECOND % 60:02d}.{micros % SECOND:06d}"


def open_engine(spark: SparkSession, replay: Replay, **options: Any) -> Engine:
    engine = Engine(spark, **options)
    engine.execute(
        f"CREATE STREAM s (ts TIMESTAMP, k STRING, x DOUBLE, n BIGINT) USING json OPTIONS ({replay.options}) "
        "TIMESTAMP BY ts LATENESS '2 seconds'"
    )
    for name, text in STAY.items():
        engine.query(text, name=name)
    return engine


def rows(engine: Engine, name: str) -> list[Any]:
    table = engine.results(name).to_arrow()
    return sorted(tuple(row.values()) for row in table.to_pylist())


def answers(text: str, events: list[dict[str, Any]]) -> list[Any]:
    """By the reference, windows as times."""
    found = reference.answer(parse_query(text), STREAM, events)
    return sorted(found.rows)


def comparable(rows: list[Any]) -> list[Any]:
    return [tuple(round(v, 7) if isinstance(v, float) else v for v in row) for row in rows]


def micros(rows: list[Any]) -> list[Any]:
    return [tuple(_micros(v) for v in row) for row in rows]


def _micros(value: Any) -> Any:
    return round(value.timestamp() * SECOND) if hasattr(value, "timestamp") else value


def in_time(made: list[list[dict[str, Any]]]) -> tuple[list[dict[str, Any]], list[int]]:
    """The events that are not late, and the newest event time after each batch."""
    kept: list[dict[str, Any]] = []
    newest: list[int] = []
    for events in made:
        limit = newest[-1] - 2 * SECOND if newest else None
        kept += [e for e in events if limit is None or e["ts"] >= limit]
        newest.append(max([e["ts"] for e in events] + newest[-1:]))
    return kept, newest


def churn(engine: Engine, plan: dict[int, Callable[[Engine], None]]) -> None:
    done = 0

    def after_batch(running: Engine) -> None:
        nonlocal done
        done += 1
        if done in plan:
            plan[done](running)

    engine.on_batch = after_batch
    engine.run(close=True)


@pytest.fixture(autouse=True)
def two_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mullion.runtime.sharding_choice.SHARDS", 2)


WAYS: dict[str, dict[str, Any]] = {
    "auto": {},
    "kernel": {"way": "kernel"},
    "on executors": {"shard_above": 1},
    "on executors by kernel": {"way": "kernel", "shard_above": 1},
}


@pytest.mark.parametrize(
    ("way", "late"),
    [("auto", False), ("auto", True), ("kernel", False), ("on executors", False), ("on executors by kernel", True)],
)
def test_entering_leaving_and_backfilling(way: str, late: bool, spark: SparkSession, tmp_path: Path) -> None:
    made = batches(late=late)
    events, newest = in_time(made)
    replay = write(tmp_path / "events", made)
    with open_engine(spark, replay, **WAYS[way]) as alone:
        alone.run()
        undisturbed = {name: rows(alone, name) for name in STAY}

    def join(engine: Engine) -> None:
        for name, text in JOIN.items():
            engine.query(text, name=name)
            engine.query(f"CREATE QUERY {name}_back BACKFILL AS {text}")

    told: dict[str, str] = {}

    def look(engine: Engine) -> None:
        told.update({name: str(engine.explain(f"{name}_back")) for name in JOIN})

    with open_engine(spark, replay, **WAYS[way]) as engine:
        churn(engine, {3: join, 4: look, 5: lambda e: e.drop("late_groups")})
        assert {name: rows(engine, name) for name in STAY} == undisturbed
        for name in ("late_total", "same_slot"):
            wanted = answers(f"CREATE QUERY q START AT TIMESTAMP '{_text(newest[2])}' AS {JOIN[name]}", events)
            assert comparable(micros(rows(engine, name))) == comparable(wanted), name
        for name, text in JOIN.items():
            wanted = answers(f"CREATE QUERY q START AT TIMESTAMP '{_text(newest[2])}' BACKFILL AS {text}", events)
            assert comparable(micros(rows(engine, f"{name}_back"))) == comparable(wanted), name
    assert "by reading the files of" in told["late_groups"]
    assert "sub-windows that other queries keep" in told["same_slot"]


@pytest.mark.parametrize("above", [1, 1000])
@pytest.mark.parametrize("step", ["before answers", "before commit", "after commit"])
def test_a_crash_while_queries_come_and_go(step: str, above: int, spark: SparkSession, tmp_path: Path) -> None:
    made = batches()
    replay = write(tmp_path / "events", made)
    options: dict[str, Any] = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", "shard_above": above}
    late = {f"{name}_back": f"CREATE QUERY {name}_back BACKFILL AS {text}" for name, text in JOIN.items()}

    def join(engine: Engine) -> None:
        for text in late.values():
            engine.query(text)

    with pytest.raises(Crash), crash_at(step, 4), open_engine(spark, replay, **options) as engine:
        churn(engine, {2: join})
    with open_engine(spark, replay, **options) as engine:
        join(engine)
        engine.run(close=True)
        found = {name: rows(engine, name) for name in [*STAY, *late]}
    with open_engine(spark, replay, out=tmp_path / "other") as engine:
        churn(engine, {2: join})
        assert found == {name: rows(engine, name) for name in [*STAY, *late]}


def test_a_source_that_cannot_be_read_twice(spark: SparkSession, tmp_path: Path) -> None:
    replay = write(tmp_path / "events", batches(4))
    schema = "ts TIMESTAMP, k STRING, x DOUBLE, n BIGINT"
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").json(str(replay.directory))
    refused: list[str] = []

    def join(engine: Engine) -> None:
        engine.query(f"CREATE QUERY kept BACKFILL AS {STAY['total']}")
        try:
            engine.query(f"CREATE QUERY lost BACKFILL AS {JOIN['late_groups']}")
        except NotSupported as problem:
            refused.append(str(problem))

    with Engine(spark) as engine:
        engine.stream("s", frame, time="ts", lateness="2 s")
        engine.query(STAY["total"], name="total")
        churn(engine, {2: join})
        assert set(rows(engine, "kept")) < set(rows(engine, "total"))
    assert "cannot be read twice" in refused[0]
