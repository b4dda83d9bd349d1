"""Time, schedules and keys that end, on Spark: what streams say besides their events."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from mullion.engine import Engine
from mullion.testing import Replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def source(batches: Replay, *clauses: str) -> str:
    columns = "ts TIMESTAMP, k STRING, x INT"
    return f"CREATE STREAM s ({columns}) USING json OPTIONS ({batches.options}) TIMESTAMP BY ts {' '.join(clauses)}"


def event(second: int, k: str = "a", x: int = 1) -> dict[str, Any]:
    return {"ts": f"2024-01-01 00:{second // 60:02d}:{second % 60:02d}", "k": k, "x": x}


def ends(engine: Engine, name: str) -> list[tuple[int, int]]:
    found = engine.results(name).to_arrow().to_pylist()
    return [(60 * row["window_end"].minute + row["window_end"].second, row["n"]) for row in found]


def test_the_last_window_of_a_silent_stream_is_answered(spark: SparkSession, tmp_path: Path) -> None:
    """The watermark is at 12 s, and the window up to 15 s is answered without another event."""
    batches = Replay(tmp_path / "in")
    batches.add([event(3), event(12)])
    with Engine(spark, checkpoint=tmp_path / "state") as engine:
        engine.execute(source(batches, "IDLE AFTER '1 s'"))
        engine.query("SELECT count(*) AS n FROM s [RANGE 15 s SLIDE 15 s]", name="q")
        engine.start(follow=True)
        for _ in range(60):
            engine.wait(0.5)
            if ends(engine, "q"):
                break
        assert ends(engine, "q") == [(15, 2)]
        assert engine.counts["s"].late == 0
        engine.stop()


@pytest.mark.parametrize("runs", [1, 3])
def test_scheduled_queries_are_answered_together_and_exactly(spark: SparkSession, tmp_path: Path, runs: int) -> None:
    """Every answer is that of its instant, and at most the period lies between two, however many runs there are."""
    batches, found = Replay(tmp_path / "in"), {}
    for run in range(runs):
        for number in range(3 * run // runs, 3 * (run + 1) // runs):
            batches.add([event(second) for second in range(20 * number, 20 * number + 20)])
        with Engine(spark, out=tmp_path / "out", checkpoint=tmp_path / "state") as engine:
            engine.execute(source(batches))
            engine.query("SELECT max(x) AS m, count(*) AS n FROM s [RANGE 20 s SLIDE AT MOST 4 s]", name="often")
            engine.query("SELECT max(x) AS m, count(*) AS n FROM s [RANGE 10 s SLIDE AT MOST 6 s]", name="rarely")
            engine.run(close=run == runs - 1)
            found = {name: ends(engine, name) for name in ("often", "rarely")}
    for name, length, period in (("often", 20, 4), ("rarely", 10, 6)):
        instants = [end for end, _ in found[name]]
        assert all(after - before <= period for before, after in pairwise(instants))
        assert instants[0] <= period and instants[-1] >= 60
        assert found[name] == [(end, min(end, 60) - max(end - length, 0)) for end in instants]


def test_keys_that_are_over_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Events after the end of their key are set aside, in the same batch and in later runs, in slices and joins."""
    batches = Replay(tmp_path / "in")

    def run(*, close: bool = False) -> dict[str, list[tuple[int, int]]]:
        with Engine(spark, out=tmp_path / "out", checkpoint=tmp_path / "state") as engine:
            engine.execute(source(batches, "PUNCTUATE ON k WHEN x = 0"))
            engine.query("SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]", name="counts")
            joined = (
                "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] l, s [RANGE 10 s SLIDE 10 s] r WHERE l.k = r.k"
            )
            engine.query(joined, name="pairs")
            engine.run(close=close)
            return {name: ends(engine, name) for name in ("counts", "pairs")}

    batches.add([event(1), event(2, x=0), event(3), event(4, "b"), event(11, "b")])
    assert run() == {"counts": [(10, 3)], "pairs": [(10, 5)]}
    batches.add([event(12), event(13, "b")])
    assert run(close=True) == {"counts": [(10, 3), (20, 2)], "pairs": [(10, 5), (20, 4)]}
    broken = pq.read_table(tmp_path / "out" / "_broken").sort_by("ts").to_pylist()
    assert [(row["ts"].second, row["k"]) for row in broken] == [(3, "a"), (12, "a")]
