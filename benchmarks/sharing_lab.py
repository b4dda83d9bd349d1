"""What the measurements of many windows and predicates use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks import mullion_runs, spark_baselines
from benchmarks.answers import Answer, check
from benchmarks.lab import Lab, Size
from benchmarks.market import INDEXES, generate_market, write_table
from benchmarks.measuring import Task, Timing
from benchmarks.questions import C_REGULAR, Question, Workload
from mullion.engine import Engine
from mullion.errors import MullionError

GROUP = "symbol"


@dataclass(frozen=True)
class SharingSize(Size):
    numbers: tuple[int, ...] = (1, 16, 32, 64, 128, 256, 1024)
    squares: tuple[int, ...] = (1, 16, 36, 64, 144, 256, 1024)
    """Of the regular workload."""
    large: int = 1024
    many: int = 10_000
    grouped: int = 64
    jobs: int = 8
    unshared: int = 32
    """Queries that are timed without sharing for all."""
    polars: int = 256
    duckdb: int = 32
    flink: int = 64
    """Statements in Flink's set, of which each takes it seconds."""
    batch: int = 20_000
    """Events in a micro-batch."""


FULL = SharingSize()
QUICK = SharingSize(
    events=20_000,
    files=4,
    queries=16,
    warm=1,
    repeat=1,
    checked=4,
    numbers=(1, 4, 16, 64),
    squares=(1, 4, 16, 64),
    large=64,
    many=100,
    grouped=4,
    jobs=2,
    unshared=4,
    polars=16,
    duckdb=4,
    flink=4,
    batch=5_000,
)


@dataclass
class SharingLab(Lab):
    size: SharingSize
    flink: Path | None = None
    """A Python that has apache-flink."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.close = write_table(self.folder / "close.parquet", self.market.close)
        self.index = write_table(self.folder / "idx.parquet", self.market.index)
        spark_baselines.read_tables(self.session, self.close, self.index)
        self.series: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        self.questions = cache(self._questions)
        self.expected = cache(self._expected)
        self._samples: dict[tuple[str, tuple[Question, ...]], Timing] = {}

    def make_trades(self) -> pa.Table:
        self.market = generate_market(self.size.events)
        return self.market.trades

    def facts(self) -> dict[str, Any]:
        """The lines of the picture: seconds by path, workload and number of queries."""
        return {"series": {path: dict(lines) for path, lines in self.series.items()}}

    def numbers(self, workload: Workload) -> tuple[int, ...]:
        return self.size.squares if workload is C_REGULAR else self.size.numbers

    def _questions(self, workload: Workload, n: int) -> list[Question]:
        return workload.make(n, self.market)

    # Mullion

    def tables(self) -> str:
        """A script that makes the tables of the template."""
        flags = ", ".join(f"{name} BOOLEAN" for name in INDEXES)
        close, index = mullion_runs.quoted(self.close), mullion_runs.quoted(self.index)
        return (
            f"CREATE TABLE close (symbol STRING, cp DOUBLE) USING parquet OPTIONS (path {close});"
            f"CREATE TABLE idx (symbol STRING, {flags}) USING parquet OPTIONS (path {index})"
        )

    def engine_task(
        self, name: str, questions: Sequence[Question], *, group: str | None = None, **options: str
    ) -> Task:
        texts, tables = [question.text(group) for question in questions], self.tables()
        prepare = partial(mullion_runs.over_frame, self.session, self.frame, texts, tables=tables, **options)
        return Task(name, mullion_runs.run, prepare)

    # Samples

    def sample(
        self,
        path: str,
        workload: Workload,
        n: int,
        limit: int,
        make_task: Callable[[str, Sequence[Question]], Task],
        verify: Callable[[Timing, Sequence[Question]], None],
    ) -> float:
        """The seconds of all queries of a set, from the first of them. The same sample is not measured twice."""
        first = tuple(self.questions(workload, n)[:limit])
        if (path, first) not in self._samples:
            of = "" if len(first) == n else f"{len(first)} of "
            (found,) = self.watch.measure([make_task(f"{path}, {of}{workload.called(n)}", first)])
            verify(found, first)
            found.result = None
            self._samples[path, first] = found
        seconds = self._samples[path, first].best * n / len(first)
        self.series[path][workload.name][n] = seconds
        return seconds

    def sampled(self, path: str, workload: Workload, n: int, limit: int) -> Timing:
        """What was measured for a set of queries."""
        return self._samples[path, tuple(self.questions(workload, n)[:limit])]

    # Answers

    def mask(self, question: Question) -> npt.NDArray[np.bool_] | None:
        return None if question.predicate is None else question.predicate.holds(self.market.columns)

    def _expected(self, question: Question) -> Answer:
        return self.oracle.answer(question.window, self.mask(question))

    def check(self, what: str, question: Question, got: Answer, *, part: bool = False) -> None:
        where = "" if question.predicate is None else f", {question.predicate.text()}"
        check(f"{what}{where}", question.window, got, self.expected(question), part=part)

    def check_some(
        self, what: str, questions: Sequence[Question], got: Sequence[Answer], *, part: bool = False
    ) -> None:
        if len(got) != len(questions):
            raise MullionError(f"{what}: {len(got)} answers to {len(questions)} questions")
        for i in self._chosen(len(questions)):
            self.check(what, questions[i], got[i], part=part)

    def check_engine(self, what: str, engine: Engine, questions: Sequence[Question]) -> None:
        for i in self._chosen(len(questions)):
            self.check(what, questions[i], mullion_runs.answer_of(engine, i))

    def check_grouped(self, what: str, engine: Engine, questions: Sequence[Question]) -> None:
        groups = self.market.close[GROUP].combine_chunks()
        for i in self._chosen(len(questions)):
            question = questions[i]
            right = self.oracle.by_group(question.window, self.market.codes, self.mask(question))
            check(what, question.window, mullion_runs.answer_by_group(engine, i, groups), right)

    def _chosen(self, number: int) -> range:
        """As many as are checked, evenly chosen."""
        return range(0, number, max(1, number // self.size.checked))
