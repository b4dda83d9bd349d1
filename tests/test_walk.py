"""The two queries of docs/architecture.md are run, and go through every step that the page names."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import mullion
from without_spark import EngineWithoutSpark, local_engine

SOURCE = Path(mullion.__file__).parent
PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
TRADES = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT)
    USING json OPTIONS (path 'x') TIMESTAMP BY ts;
"""
PAID = """
CREATE STREAM orders (ts TIMESTAMP, id INT) USING json OPTIONS (path 'x') TIMESTAMP BY ts;
CREATE STREAM payments (ts TIMESTAMP, order_id INT, amount DOUBLE) USING json OPTIONS (path 'x') TIMESTAMP BY ts;
"""
SECOND, MINUTE, NOON = 1_000_000, 60_000_000, 1_700_000_000_000_000

OF_SPARK = {"spark.batch.SparkBatch.partials", "spark.pipeline.collect_partials", "spark.native.native_partials"}
SAID_BY_OTHERS = {"runtime.sink.Sink.write", "operators.base.Operator.advance"}
"""Protocols: those that implement them are called."""
VALUES = {"planner.sliced.SlicedAggregation", "algebra.update_pattern.Pattern"}
"""They are made, but nothing of theirs is called."""
OTHER_QUERIES = {
    "slices.sequence.RowSequence.answer",
    "slices.running.Running.between",
    "slices.kept_window.KeptWindow.slide",
    "slices.kept_counts.KeptCounts.slide",
    "algebra.nodes.join_synopsis.JoinSynopsis",
    "operators.join_synopsis.JoinSynopsisOperator",
    "operators.probed.ProbedOperator",
    "slices.combined_groups.CombinedGroups",
    "slices.covered_window.CoveredWindow",
    "slices.axis.AxisSet",
    "planner.schedules.schedulers.scheduler_of",
    "runtime.timetable.Timetable",
    "runtime.relation_shards.InShards",
    "runtime.shard_step.ShardedStep",
}
"""What larger or other queries take instead, which the page tells beside."""


@contextmanager
def noting(called: set[str]) -> Iterator[None]:
    """Note which functions of Mullion are called, also in threads that begin meanwhile."""

    def note(frame: FrameType, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(f"{SOURCE}/"):
            module = file.removeprefix(f"{SOURCE}/").removesuffix(".py").replace("/", ".")
            called.add(f"{module}.{frame.f_code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


def walked(heading: str, streams: str, deliver: Callable[[EngineWithoutSpark], None], tmp_path: Path) -> set[str]:
    """The steps of a section that its query does not take."""
    section = PAGE.partition(heading)[2].partition("\n## ")[0]
    (query,) = re.findall(r"^```sql\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    steps = {name for name in re.findall(r"`([a-z_]+(?:\.\w+)+)`", section) if not name.endswith(".py")}
    assert len(steps) > 20
    called: set[str] = set()
    with noting(called):
        places = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
        with local_engine(f"{streams} CREATE QUERY q AS {query};", **places) as engine:
            deliver(engine)
            assert len(engine.results("q")) > 0
    return {step for step in steps if not any(name == step or name.startswith(f"{step}.") for name in called)}


@pytest.mark.slow
def test_the_aggregate(tmp_path: Path) -> None:
    def deliver(engine: EngineWithoutSpark) -> None:
        for batch in range(4):
            times = range(NOON + 7 * batch * MINUTE, NOON + 7 * batch * MINUTE + 40 * SECOND, SECOND)
            trades = [{"ts": t, "symbol": "ab"[i % 2], "price": 1.5, "volume": 80 + i} for i, t in enumerate(times)]
            engine.deliver("trades", trades, batch)
        engine.end("trades")

    assert walked("## One aggregate", TRADES, deliver, tmp_path) <= OF_SPARK | SAID_BY_OTHERS | VALUES | OTHER_QUERIES


@pytest.mark.slow
def test_the_join(tmp_path: Path) -> None:
    def deliver(engine: EngineWithoutSpark) -> None:
        for batch in range(3):
            begin = NOON + batch * MINUTE
            engine.deliver("orders", [{"ts": begin + i, "id": i} for i in range(20)], batch)
            paid = [{"ts": begin + SECOND + i, "order_id": i, "amount": 95.0 + i} for i in range(20)]
            engine.deliver("payments", paid, batch)
        engine.end("orders")
        engine.end("payments")

    assert walked("## One join", PAID, deliver, tmp_path) <= SAID_BY_OTHERS | VALUES | OTHER_QUERIES
