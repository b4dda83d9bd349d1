"""A gap of a year in the input: a query that would fill it with millions of answers is stopped, the others are not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from mullion.engine import Engine
from mullion.runtime import portions
from mullion.slices import limits
from mullion.testing import Crash, Replay, crash_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = """
CREATE QUERY fine AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '1 ms'];
CREATE QUERY daily AS SELECT count(*) AS n, sum(v) AS s FROM trades [RANGE '1 day' SLIDE '1 day'];
CREATE QUERY groups AS SELECT k, count(*) AS n FROM trades [RANGE '1 day' SLIDE '1 day'] GROUP BY k;
CREATE QUERY joined AS SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '1 ms'] t, trades [RANGE '1 s'] u
  WHERE t.k = u.k;
CREATE QUERY pairs AS SELECT t.k AS k FROM trades [RANGE '1 s'] t, trades [RANGE '1 s'] u WHERE t.k = u.k;
"""


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    made = Replay(tmp_path_factory.mktemp("events") / "trades")
    for day in ("2023-01-01", "2023-01-02", "2024-01-02", "2024-01-03"):
        made.add([{"ts": f"{day} 00:00:00.{i}00", "k": i % 2, "v": i} for i in range(3)])
    return made


def run(spark: SparkSession, events: Replay, out: Path, checkpoint: Path, queries: str = QUERIES) -> dict[str, str]:
    with Engine(spark, out=out, checkpoint=checkpoint, most_answers=5000) as engine:
        source = f"(ts TIMESTAMP, k INT, v INT) USING json OPTIONS ({events.options}) TIMESTAMP BY ts"
        engine.execute(f"CREATE STREAM trades {source};{queries}")
        engine.run(close=True)
        return engine.stopped


def answers(out: Path, name: str) -> list[dict[str, Any]]:
    found = [row for file in (out / name).glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    return sorted(found, key=repr)


def test_only_the_query_that_answers_too_much_is_stopped(spark: SparkSession, events: Replay, tmp_path: Path) -> None:
    stopped = run(spark, events, tmp_path / "out", tmp_path / "checkpoint")
    assert sorted(stopped) == ["fine", "joined"]
    assert all("more than 5,000 answers" in reason for reason in stopped.values())
    fine = answers(tmp_path / "out", "fine")
    assert len({row["window_end"] for row in fine}) == len(fine) == 200 + 5000, "a first batch, then what is allowed"
    others = "".join(f"{q};" for q in QUERIES.split(";") if "fine" not in q and "joined" not in q)
    assert run(spark, events, tmp_path / "alone", tmp_path / "checkpoint of others", others) == {}
    for name in ("daily", "groups", "pairs"):
        assert answers(tmp_path / "out", name) == answers(tmp_path / "alone", name) != []
    assert len(answers(tmp_path / "out", "daily")) == 368


@pytest.mark.parametrize(("step", "occurrence"), [("after answers", 3), ("before answers", 5), ("after commit", 3)])
def test_a_kill_between_portions_repeats_nothing(
    step: str, occurrence: int, spark: SparkSession, events: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PORTION", 700)
    monkeypatch.setattr(portions, "PORTION", 700)
    queries = QUERIES.split("CREATE QUERY groups")[0]
    wanted = run(spark, events, tmp_path / "whole", tmp_path / "checkpoint of whole", queries)
    with crash_at(step, occurrence), pytest.raises(Crash):
        run(spark, events, tmp_path / "out", tmp_path / "checkpoint", queries)
    assert run(spark, events, tmp_path / "out", tmp_path / "checkpoint", queries) == wanted
    assert sorted(wanted) == ["fine"]
    for name in ("fine", "daily"):
        assert answers(tmp_path / "out", name) == answers(tmp_path / "whole", name) != []
