"""What the parts of the flights benchmark have in common: sizes, files, queries, engines made ready."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.flights_data import COLUMNS, write_flights
from benchmarks.flights_queries import MINUTE, Aggregate, FlightQuery, query_set
from benchmarks.measuring import Stopwatch, Task
from benchmarks.mullion_runs import name_of, quoted
from benchmarks.report import Report
from mullion.engine import Engine

SEED = 13
TUMBLING = FlightQuery(
    ("origin",), 60 * MINUTE, 60 * MINUTE, "", (Aggregate("avg", "delay"), Aggregate("count")), None, None
)
SLIDING = FlightQuery(
    ("origin",), 360 * MINUTE, 20 * MINUTE, "", (Aggregate("avg", "delay"), Aggregate("count")), None, None
)


@dataclass(frozen=True)
class Size:
    rows: int = 3_000_000
    files: int = 12
    sets: tuple[int, ...] = (1, 8, 24, 96, 256)
    timed: int = 24
    """Of so many queries DuckDB's time is taken; that of larger sets is reckoned from it."""
    polars: int = 96
    """The largest set that polars is asked."""
    backlog: int = 10
    """How many times as many events the backlog has."""
    compared: int = 8
    """Of so many queries the answers over the backlog are compared with DuckDB's."""
    groups: int = 2_000
    batches: int = 90
    """Micro-batches with one due window each."""
    predicates: tuple[int, int] = (1024, 8192)
    repeat: int = 3


FULL = Size()
QUICK = Size(
    rows=60_000, files=3, sets=(1, 6), timed=6, polars=6, backlog=2, compared=3, groups=50, batches=6,
    predicates=(16, 64), repeat=1,
)  # fmt: skip


@dataclass
class FlightsLab:
    size: Size
    session: Any
    folder: Path
    watch: Stopwatch
    report: Report
    times: dict[str, dict[int, float]] = field(default_factory=dict)
    """Seconds of each system by the number of queries."""
    right: list[pa.Table] = field(default_factory=list)
    """DuckDB's answers of the first queries."""

    def __post_init__(self) -> None:
        self.queries = query_set(max(self.size.sets), seed=SEED)
        self.files = self.folder / "flights"
        write_flights(self.files, files=self.size.files, rows=self.size.rows)
        self._engine: Engine | None = None

    def took(self, system: str, number: int, seconds: float) -> None:
        self.times.setdefault(system, {})[number] = seconds

    def engine(self, queries: Sequence[FlightQuery]) -> Engine:
        """An engine with these queries, which has read nothing yet; the one before is closed."""
        self.close()
        engine = self._engine = Engine(spark=self.session, keep_answers=None)
        engine.execute(stream_text(self.files))
        for i, query in enumerate(queries):
            engine.query(query.mullion(), name=name_of(i))
        return engine

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None
            gc.collect()  # the parts of an engine know each other

    def mullion_task(self, queries: Sequence[FlightQuery], name: str = "") -> Task:
        return Task(name or f"Mullion, {counted(len(queries))}", run, lambda: self.engine(queries))


def stream_text(files: Path) -> str:
    return f"CREATE STREAM flights {COLUMNS} USING parquet OPTIONS (path {quoted(files)}) TIMESTAMP BY ts"


def run(engine: Engine) -> Engine:
    engine.run()
    return engine


def counted(number: int) -> str:
    return "1 query" if number == 1 else f"{number:,} queries"
