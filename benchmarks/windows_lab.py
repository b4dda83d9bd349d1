"""What the measurements of many windows use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks import mullion_runs
from benchmarks.answers import Answer, check
from benchmarks.lab import Lab, Size
from benchmarks.measuring import Task
from benchmarks.questions import Question
from benchmarks.workloads import Window, sum_query, workload_a
from mullion.engine import Engine
from mullion.errors import MullionError

SEED = 1


@dataclass(frozen=True)
class WindowsSize(Size):
    many: int = 1000
    stream_files: int = 60


FULL = WindowsSize()
QUICK = WindowsSize(events=20_000, queries=16, many=32, jobs=2, files=4, stream_files=4, warm=1, repeat=1, checked=4)


@dataclass
class WindowsLab(Lab):
    size: WindowsSize

    def __post_init__(self) -> None:
        super().__post_init__()
        self.windows = workload_a(self.size.queries, seed=SEED)
        self.questions = [Question(window) for window in self.windows]
        self.expected = [self.oracle.answer(window) for window in self.windows]

    def engine_task(self, name: str, windows: Sequence[Window], **options: str) -> Task:
        texts = [sum_query(window) for window in windows]
        prepare = partial(mullion_runs.over_frame, self.session, self.frame, texts, **options)
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
