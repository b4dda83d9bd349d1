"""Windows with gaps between them: what lies in none answers nothing and makes no groups, and time goes on in it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from mullion.engine import Engine
from mullion.spark import native
from spark.every_window import SECOND, batches, check, create, text_of, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GROUPED = {
    "short": "SELECT k, count(*) AS n, sum(x) AS s FROM s [RANGE 2 s SLIDE 10 s] GROUP BY k",
    "within": "SELECT k, max(v) AS h FROM s [RANGE 1 s SLIDE 20 s] WHERE x > 0 GROUP BY k",
}
ALONE = {
    "whole": "SELECT count(*) AS n, min(x) AS l FROM s [RANGE 3 s SLIDE 11 s]",
    "without": "SELECT x, median(v) AS m FROM s [RANGE 3 s SLIDE 7 s] WHERE x <> 2 GROUP BY x",
}


def events(seed: int, number: int = 120) -> list[dict[str, Any]]:
    """Three events a second, in disorder within the lateness."""
    dice = random.Random(seed)
    made = []
    for i, ts in enumerate(sorted(dice.randrange(number // 3 * SECOND) for _ in range(number))):
        k, x = dice.choice(("a", "b", "c", "d", None)), dice.choice((1, 2, 3, -4, None))
        made.append({"ts": ts, "k": k, "x": x, "v": dice.choice((0.5, 1.5, None)), "seq": i})
    return sorted(made, key=lambda event: event["ts"] + dice.randrange(2 * SECOND))


@pytest.mark.parametrize("way", ["native", "kernel", "direct"])
@pytest.mark.parametrize("shards", [False, True])
def test_every_way(way: str, shards: bool, spark: SparkSession, tmp_path: Path) -> None:
    made = events(1)
    late = [{"ts": ts, "k": "late", "x": 1, "v": 0.5, "seq": 0} for ts in (9 * SECOND, 5 * SECOND)]
    parts = batches(made)
    folder = write(tmp_path / "in", "parquet", [*parts[:3], [*parts[3], *late]])
    queries = GROUPED if shards else {**GROUPED, **ALONE}
    with Engine(spark, way=way, shard_above=1 if shards else 1_000_000) as engine:
        engine.execute(create(folder))
        for name, text in queries.items():
            engine.query(text, name=name)
        engine.run(close=True)
        check(engine, queries, made)
        counts = engine.counts["s"]
        assert (counts.events, counts.late) == (len(made), 2)
        assert counts.late_by_query.get("short") == 1, "the other one lies in no window"


def test_events_in_gaps_make_no_groups(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 s with five keys each second, those of 8 s are in windows: the others are one row a slice."""
    tables, typed = list[pa.Table](), native.with_partial_types
    monkeypatch.setattr(native, "with_partial_types", lambda *of: (tables.append(typed(*of)), tables[-1])[1])
    made = [{"ts": i * SECOND // 5, "k": "abcde"[i % 5], "x": 1, "v": 0.5, "seq": i} for i in range(200)]
    text = "SELECT k, count(*) AS n FROM s [RANGE 2 s SLIDE 10 s] GROUP BY k"
    folder = write(tmp_path / "in", "parquet", [made])
    with Engine(spark, way="native") as engine:
        engine.execute(create(folder))
        engine.query(text, name="q")
        engine.run(close=True)
        check(engine, {"q": text}, made)
        newest = engine.runs["s"].newest
    (table,) = tables
    kept = [row for row in table.to_pylist() if row["s0_0"]]
    gaps = [row for row in table.to_pylist() if not row["s0_0"]]
    assert newest == 199 * SECOND // 5
    assert {row["slice"] % (10 * SECOND) for row in kept} == {8 * SECOND}
    assert len(kept) == 4 * 5 and sum(row["events"] for row in gaps) == 160
    assert len(gaps) == len({row["slice"] for row in gaps}) and all(row["k0"] is None for row in gaps)


@pytest.mark.parametrize("way", ["native", "direct"])
def test_queries_that_enter_beside_gaps(way: str, spark: SparkSession, tmp_path: Path) -> None:
    """A query whose windows lie in the gaps of those that are there, and one whose windows lie in theirs."""
    made = events(2)
    folder = write(tmp_path / "in", "parquet", batches(made))
    entering = {
        "in_gaps": "SELECT k, count(*) AS n FROM s [RANGE 4 s SLIDE 5 s] GROUP BY k",
        "inside": "SELECT k, sum(x) AS s FROM s [RANGE 2 s SLIDE 20 s] GROUP BY k",
    }
    seen = list[int]()

    def enter(engine: Engine) -> None:
        if engine.counts["s"].batches == 2 and not seen:
            seen.append(engine.runs["s"].newest or 0)
            for name, text in entering.items():
                engine.query(text, name=name)

    with Engine(spark, way=way, on_batch=enter) as engine:
        engine.execute(create(folder))
        for name, text in GROUPED.items():
            engine.query(text, name=name)
        engine.run(close=True)
        check(engine, GROUPED, made)
        at = text_of(seen[0])
        check(engine, {n: f"CREATE QUERY {n} START AT TIMESTAMP '{at}' AS {t}" for n, t in entering.items()}, made)
