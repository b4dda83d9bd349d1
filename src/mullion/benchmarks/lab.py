"""What all measurements share: how much is measured, the data, the session and the right answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from mullion.benchmarks import mullion_runs, spark_baselines
from mullion.benchmarks.answers import Answer, Oracle, check
from mullion.benchmarks.measuring import Stopwatch, Task
from mullion.benchmarks.report import Report
from mullion.benchmarks.workloads import EVENTS, Window, workload_a, write_trades
from mullion.engine import Engine
from mullion.errors import MullionError

SEED = 1


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    events: int = EVENTS
    queries: int = 256
    many: int = 1000
    jobs: int = 32
    """Spark jobs that are timed for all queries' jobs."""
    files: int = 12
    stream_files: int = 60
    warm: int = 10
    """Rounds of warming up for what takes less than a second: the JVM compiles for about ten runs."""
    repeat: int = 3
    checked: int = 16
    """Of more queries than have a baseline, how many are compared with the oracle."""


FULL = Size()
QUICK = Size(events=20_000, queries=16, many=32, jobs=2, files=4, stream_files=4, warm=1, repeat=1, checked=4)


@dataclass
class Lab:
    """What all measurements use."""

    session: Any
    size: Size
    folder: Path
    trades: pa.Table
    watch: Stopwatch
    report: Report

    def __post_init__(self) -> None:
        self.files = write_trades(self.folder / "static", files=self.size.files, table=self.trades)
        self.frame = spark_baselines.read_trades(self.session, self.files)
        self.oracle = Oracle(self.trades)
        self.windows = workload_a(self.size.queries, seed=SEED)
        self.expected = [self.oracle.answer(window) for window in self.windows]
        self.counts: dict[str, Any] = {}

    def engine_task(self, name: str, windows: Sequence[Window], **options: str) -> Task:
        prepare = partial(mullion_runs.over_frame, self.session, self.frame, windows, **options)
        return Task(name, mullion_runs.run, prepare)

    def check_all(self, what: str, got: Sequence[Answer], *, part: bool = False) -> None:
        """Answers of the workload's windows, or of the first of them."""
        if not got:
            raise MullionError(f"{what}: no answers")
        for window, one, right in zip(self.windows, got, self.expected, strict=False):
            check(what, window, one, right, part=part)

    def check_engine(self, what: str, engine: Engine, windows: Sequence[Window], number: int | None = None) -> None:
        """The engine's answers to all windows, or to `number` of them, evenly chosen."""
        step = max(1, len(windows) // (number or len(windows)))
        for i in range(0, len(windows), step):
            check(what, windows[i], mullion_runs.answer_of(engine, i), self.oracle.answer(windows[i]))
