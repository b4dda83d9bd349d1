"""Engines made ready, so that only their work is timed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from mullion.benchmarks.answers import Answer, answer
from mullion.benchmarks.workloads import Window, sum_query
from mullion.engine import Engine


def over_frame(session: Any, frame: Any, windows: Sequence[Window], **options: str) -> Engine:
    """An engine with a query for each window over a static DataFrame."""
    engine = Engine(spark=session, **options)  # type: ignore[arg-type]
    engine.stream("trades", frame, time="ts")
    return _with_queries(engine, windows)


def over_files(session: Any, directory: Path, windows: Sequence[Window]) -> Engine:
    """An engine with a query for each window over files that arrive one in a batch."""
    engine = Engine(spark=session)
    path = str(directory).replace("'", "''")
    options = f"OPTIONS (path '{path}', maxFilesPerTrigger '1')"
    engine.execute(f"CREATE STREAM trades USING parquet {options} TIMESTAMP BY ts LATENESS '0 s'")
    return _with_queries(engine, windows)


def _with_queries(engine: Engine, windows: Sequence[Window]) -> Engine:
    for i, window in enumerate(windows):
        engine.query(sum_query(window), name=name_of(i))
    return engine


def run(engine: Engine) -> Engine:
    engine.run()
    return engine


def name_of(i: int) -> str:
    return f"q{i}"


def answer_of(engine: Engine, i: int) -> Answer:
    """What the i-th query answered."""
    table = engine.results(name_of(i)).to_arrow()
    return answer(table["window_start"].cast(pa.int64()).to_numpy(), table["total"].to_numpy())
