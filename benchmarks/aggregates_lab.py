"""What the measurements of other aggregates and windows use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks import mullion_runs
from benchmarks.aggregate_questions import RowWindow, ValueQuestion
from benchmarks.answers import TOLERANCE, windows_of
from benchmarks.lab import Lab, Size
from benchmarks.measuring import Task
from benchmarks.pane_grid import PANES, TUPLES, Measured
from benchmarks.workloads import Window
from mullion.engine import Engine
from mullion.errors import MullionError

Floats = npt.NDArray[np.float64]
Rows = Sequence[tuple[int, Any]]
"""The start of every window and its answer."""


@dataclass(frozen=True)
class AggregatesSize(Size):
    jobs: int = 8
    row_jobs: int = 4
    """Spark jobs and DuckDB statements over row windows that are timed for all."""
    spark_tuples: int = 20_000
    """Events for which Spark answers after every one: its time grows with their square."""
    looked_at: int = 1000
    """Answers after events that are compared with the oracle."""
    heavy_warm: int = 3
    """Rounds of warming up for what takes seconds."""
    grid_tuples: int = 100_000
    grid_repeat: int = 60
    tuples_per_pane: tuple[int, ...] = TUPLES
    panes_per_window: tuple[int, ...] = PANES


FULL = AggregatesSize()
QUICK = AggregatesSize(
    events=20_000,
    files=4,
    queries=16,
    jobs=4,
    row_jobs=1,
    warm=1,
    heavy_warm=1,
    repeat=1,
    checked=16,
    spark_tuples=2_000,
    looked_at=100,
    grid_tuples=5_000,
    grid_repeat=3,
    tuples_per_pane=(1, 5, 20),
    panes_per_window=(1, 2, 5, 10),
)


@dataclass
class AggregatesLab(Lab):
    size: AggregatesSize
    grids: list[Measured] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.columns = {name: self.trades[name].to_numpy() for name in ("price", "volume")}

    def facts(self) -> dict[str, Any]:
        return {"panes": {measured.kind.name: measured.to_dict() for measured in self.grids}}

    def engine_task(self, name: str, texts: Sequence[str], **options: str) -> Task:
        prepare = partial(mullion_runs.over_frame, self.session, self.frame, texts, **options)
        return Task(name, mullion_runs.run, prepare)

    # Answers

    def check_values(self, what: str, engine: Engine, questions: Sequence[ValueQuestion]) -> None:
        """The engine's answers to as many questions as are checked, evenly chosen among all kinds."""
        for i in self._chosen(len(questions)):
            table = engine.results(mullion_runs.name_of(i)).to_arrow()
            starts = table["window_start"].cast(pa.int64()).to_pylist()
            self.check_question(what, questions[i], list(zip(starts, table["total"].to_pylist(), strict=True)))

    def check_question(self, what: str, question: ValueQuestion, got: Rows) -> None:
        values = self.columns[question.column]
        starts, low, high = windows_of(self.oracle.times, question.window)
        found = dict(got)
        if len(found) != len(got) or sorted(found) != starts.tolist():
            raise MullionError(f"{what}: {question.text()} has {len(got)} answers, {len(starts)} are right")
        for start, a, b in zip(starts.tolist(), low, high, strict=True):
            if not question.measure.is_right(values[a:b], found[start]):
                raise MullionError(f"{what}: {question.text()} is wrong at {start}: {found[start]!r}")

    def check_rows(self, what: str, windows: Sequence[RowWindow], got: Sequence[Floats]) -> None:
        """Totals of row windows in the order of time."""
        if len(windows) != len(got):
            raise MullionError(f"{what}: {len(got)} answers to {len(windows)} questions")
        for window, totals in zip(windows, got, strict=True):
            ends = np.arange(window.slide, len(self.trades) + 1, window.slide)
            starts = np.maximum(ends - window.rows, 0)
            right = np.array([self.oracle.values[a:b].sum() for a, b in zip(starts, ends, strict=True)])
            check_totals(f"{what}: {window.text()}", totals, right)

    def check_row_engine(self, what: str, engine: Engine, windows: Sequence[RowWindow]) -> None:
        chosen = self._chosen(len(windows))
        self.check_rows(what, [windows[i] for i in chosen], [totals_in_time(engine, i) for i in chosen])

    def check_wide(self, what: str, window: Window, got: Rows, reduce: Any, values: npt.NDArray[Any]) -> None:
        """All windows of one query, each reduced anew."""
        starts, low, high = windows_of(self.oracle.times, window)
        found = dict(got)
        if sorted(found) != starts.tolist():
            raise MullionError(f"{what} has {len(got)} answers, {len(starts)} are right")
        right = np.array([reduce(values[a:b]) for a, b in zip(low, high, strict=True)], np.float64)
        check_totals(what, np.array([found[start] for start in starts.tolist()], np.float64), right)

    def check_after_events(self, what: str, totals: Floats, range_: int, reduce: Any, values: Floats) -> None:
        """Answers after every event; some are computed anew."""
        times = self.oracle.times
        if len(totals) != len(times):
            raise MullionError(f"{what}: {len(totals):,} answers after {len(times):,} events")
        chosen = np.unique(np.linspace(0, len(times) - 1, self.size.looked_at).astype(int))
        low = np.searchsorted(times, times[chosen] - range_, "right")
        right = np.array([reduce(values[a : b + 1]) for a, b in zip(low, chosen, strict=True)])
        check_totals(what, totals[chosen], right)

    def _chosen(self, number: int) -> list[int]:
        """As many as are checked. A step that is no multiple of 2 or 3 meets every kind of a mix."""
        step = max(1, number // self.size.checked)
        while step > 1 and (step % 2 == 0 or step % 3 == 0):
            step -= 1
        return list(range(0, number, step))[: self.size.checked]


def check_totals(what: str, got: Floats, right: Floats) -> None:
    if len(got) != len(right):
        raise MullionError(f"{what} has {len(got)} answers, {len(right)} are right")
    wrong = ~np.isclose(got, right, rtol=TOLERANCE, atol=0)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise MullionError(f"{what} is wrong at answer {i}: {got[i]!r} instead of {right[i]!r}")


def totals_in_time(engine: Engine, i: int) -> Floats:
    """What the i-th query answered, in the order of its windows' ends."""
    table = engine.results(mullion_runs.name_of(i)).to_arrow()
    order = np.argsort(table["window_end"].cast(pa.int64()).to_numpy(), kind="stable")
    return np.asarray(table["total"].to_numpy()[order], np.float64)


def rows_by_start(engine: Engine, i: int) -> Rows:
    table = engine.results(mullion_runs.name_of(i)).to_arrow()
    return list(zip(table["window_start"].cast(pa.int64()).to_pylist(), table["total"].to_pylist(), strict=True))
