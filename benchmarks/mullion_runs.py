"""Engines made ready, so that only their work is timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.answers import Answer, answer, group_keys
from mullion.engine import Engine

OnBatch = Callable[[Engine], None]


def over_frame(session: Any, frame: Any, texts: Sequence[str], *, tables: str = "", **options: str) -> Engine:
    """An engine with these queries over a static DataFrame. `tables` is a script that makes what they join."""
    engine = Engine(spark=session, **options)  # type: ignore[arg-type]
    engine.stream("trades", frame, time="ts")
    return _with_queries(engine, tables, texts)


def over_files(
    session: Any, directory: Path, texts: Sequence[str], *, tables: str = "", on_batch: OnBatch | None = None
) -> Engine:
    """An engine with these queries over files that arrive one in a batch."""
    engine = Engine(spark=session, on_batch=on_batch)
    options = f"OPTIONS (path {quoted(directory)}, maxFilesPerTrigger '1')"
    engine.execute(f"CREATE STREAM trades USING parquet {options} TIMESTAMP BY ts LATENESS '0 s'")
    return _with_queries(engine, tables, texts)


def quoted(path: Path) -> str:
    """A path as a string of Mullion's SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def _with_queries(engine: Engine, tables: str, texts: Sequence[str]) -> Engine:
    if tables:
        engine.execute(tables)
    for i, text in enumerate(texts):
        engine.query(text, name=name_of(i))
    return engine


def run(engine: Engine) -> Engine:
    engine.run()
    return engine


def name_of(i: int) -> str:
    return f"q{i}"


def answer_of(engine: Engine, i: int) -> Answer:
    """What the i-th query answered, without the windows that hold nothing."""
    table = _filled(engine, i)
    return answer(table["window_start"].cast(pa.int64()).to_numpy(), table["total"].to_numpy())


def answer_by_group(engine: Engine, i: int, groups: pa.Array) -> Answer:
    """What the i-th query answered for each symbol, numbered as in `groups`."""
    table = _filled(engine, i)
    codes = pc.index_in(table["symbol"], groups).to_numpy()
    return answer(group_keys(table["window_start"].cast(pa.int64()).to_numpy(), codes), table["total"].to_numpy())


def _filled(engine: Engine, i: int) -> pa.Table:
    table = engine.results(name_of(i)).to_arrow()
    return table.filter(pc.is_valid(table["total"]))
