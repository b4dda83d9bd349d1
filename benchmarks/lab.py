"""What all measurements share: how much is measured, the data, the session and the right answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import spark_baselines
from benchmarks.answers import Oracle
from benchmarks.measuring import Stopwatch, Timing
from benchmarks.report import Report
from benchmarks.workloads import write_trades
from mullion.errors import MullionError
from mullion.surface.trades import EVENTS, generate_trades

T1 = "Spark, 1 tumbling sum (T1)"


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    events: int = EVENTS
    files: int = 12
    queries: int = 256
    """Of the query sets that most bars are about."""
    jobs: int = 32
    """Spark jobs that are timed for all queries' jobs."""
    warm: int = 10
    """Rounds of warming up for what takes less than a second: the JVM compiles for about ten runs."""
    repeat: int = 3
    checked: int = 16
    """Of more queries than have a baseline, how many are compared with the oracle."""


@dataclass
class Lab:
    """What all measurements of a benchmark use."""

    session: Any
    size: Size
    folder: Path
    watch: Stopwatch
    report: Report

    def __post_init__(self) -> None:
        self.trades = self.make_trades()
        self.files = write_trades(self.folder / "static", files=self.size.files, table=self.trades)
        self.frame = spark_baselines.read_trades(self.session, self.files)
        self.oracle = Oracle(self.trades)
        self.counts: dict[str, Any] = {}

    def make_trades(self) -> pa.Table:
        return generate_trades(self.size.events)

    def facts(self) -> dict[str, Any]:
        """What the report tells beside times and bars."""
        return {}

    def count(self, name: str, timing: Timing) -> None:
        """Keep what the engine of the last run counted."""
        self.counts[name] = timing.result.counts["trades"]

    def check_t1(self, timing: Timing) -> None:
        found, expected = sum(row["total"] for row in timing.result), float(self.oracle.values.sum())
        if abs(found - expected) > 1e-9 * expected:
            raise MullionError(f"{timing.name}: {found!r} instead of {expected!r}")
