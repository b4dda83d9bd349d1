"""What it costs to speak to an engine: what `python -m benchmarks statements` measures.

Thousands of standing queries are added one by one, each parsed, bound and registered, and single windows are asked of
synopses that batches have filled. Needs no Spark.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from benchmarks import report
from benchmarks.course import warn_if_busy
from benchmarks.isolation_engine import engine_without_spark
from benchmarks.measuring import Stopwatch, Task
from benchmarks.report import Bar, Report
from mullion.errors import MullionError

SEED = 2006
SECOND = 1_000_000
BEGIN = 20 * 365 * 86_400 * SECOND
STREAM = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT) USING parquet OPTIONS (path 'nowhere')
TIMESTAMP BY ts;
"""
SYNOPSES = """
CREATE SYNOPSIS highest ON trades(price) USING ordered_sharing (rows 100000);
CREATE SYNOPSIS volumes ON trades(volume) USING timegram (buckets 64, rows 100000);
"""
QUESTIONS = {
    "ordered_sharing": "SELECT max(price) FROM trades [ROWS {rows}]",
    "timegram": "SELECT APPROX sum(volume) AS total FROM trades [ROWS {rows}]",
}
ADDS, ASKED = 5.0, 200.0
"""Seconds of all adds, microseconds of a question."""


@dataclass(frozen=True)
class Size:
    queries: int = 10_000
    rows: int = 1_000_000
    """That have come before questions are asked."""
    batch: int = 50_000
    questions: int = 2_000
    repeat: int = 3


FULL = Size()
QUICK = Size(queries=20, rows=1000, batch=500, questions=10, repeat=1)


def run(console: Console, *, json: Path | None = None, plot: Path | None = None, quick: bool = False) -> Report:
    """Measure everything; `quick` tries it on little and judges nothing."""
    size = QUICK if quick else FULL
    made, machine = Report(judged=not quick), report.machine()
    warn_if_busy(console, machine["load_average"])
    watch = Stopwatch(console, size.repeat)
    for name, by in (("windows and predicates", ""), ("the same with GROUP BY", "symbol")):
        texts = different_queries(size.queries, by)
        (timing,) = watch.measure([Task(f"{size.queries:,} queries added, {name}", _add, partial(list, texts))])
        made.add(Bar(timing.name, timing.best, ADDS, "<=", "s"))
    for name, seconds in _asked(size).items():
        made.add(Bar(f"a question to {name}, median", median(seconds) * 1e6, ASKED, "<=", "us"))
    made.timings = watch.timings
    made.facts = {"benchmark": "statements", "machine": machine, "versions": report.versions(), "size": asdict(size)}
    made.finish(console, json)
    if plot is not None:
        console.print("No picture: there are four figures.", highlight=False)
    return made


def different_queries(number: int, by: str) -> list[str]:
    """So many queries with windows and predicates of their own."""
    dice = random.Random(SEED)
    items, tail = (f"{by}, ", f" GROUP BY {by}") if by else ("", "")
    return [
        f"SELECT {items}sum(price * volume) AS total FROM trades "
        f"[RANGE '{dice.randint(600, 900)} s' SLIDE '{dice.randint(300, 600)} s'] "
        f"WHERE volume > {dice.randint(0, 100_000)} AND price < {dice.randint(1, 500)}{tail}"
        for _ in range(number)
    ]


def _add(texts: list[str]) -> None:
    """To an engine that has started with the first of them."""
    with engine_without_spark(f"{STREAM} CREATE QUERY first AS {texts[0]}") as engine:
        for i, text in enumerate(texts):
            engine.query(text, name=f"q{i}")
        if len(engine.catalog.queries) != len(texts) + 1:
            raise MullionError(f"{len(engine.catalog.queries)} queries instead of {len(texts) + 1}")


def _asked(size: Size) -> dict[str, list[float]]:
    """Seconds of questions about windows of different lengths. Each is answered by a synopsis, or this raises."""
    dice = random.Random(SEED)
    found: dict[str, list[float]] = {name: [] for name in QUESTIONS}
    with _filled(size) as (engine, values):
        for name, text in QUESTIONS.items():
            for _ in range(size.questions):
                rows = dice.randint(1, min(size.rows, 100_000))
                question = text.format(rows=rows)
                began = time.perf_counter()
                answer = engine.ask(question)
                found[name].append(time.perf_counter() - began)
                _check(name, values, rows, answer)
    return found


@contextmanager
def _filled(size: Size) -> Iterator[tuple[Any, dict[str, np.ndarray[Any, Any]]]]:
    dice = np.random.default_rng(SEED)
    values = {"price": dice.uniform(1, 500, size.rows), "volume": dice.integers(0, 100_000, size.rows, np.int32)}
    with engine_without_spark(STREAM + SYNOPSES) as engine:
        for number, first in enumerate(range(0, size.rows, size.batch)):
            own = slice(first, first + size.batch)
            times = BEGIN + np.arange(own.start, own.stop) * SECOND
            columns = {name: column[own] for name, column in values.items()}
            symbols = pa.array(["A"] * size.batch)
            ts = pa.array(times).cast(pa.timestamp("us", "UTC"))
            engine.deliver("trades", pa.table({"#t": times, "ts": ts, "symbol": symbols, **columns}), number)
        yield engine, values


def _check(name: str, values: dict[str, np.ndarray[Any, Any]], rows: int, answer: Any) -> None:
    """An exact answer is the window's, and bounds hold it."""
    (found,) = answer.to_arrow().to_pylist()
    if name == "timegram":
        right = values["volume"][-rows:].sum()
        is_right = found["total_low"] <= right <= found["total_high"]
    else:
        right = values["price"][-rows:].max()
        is_right = found["max(price)"] == right
    if not is_right:
        raise MullionError(f"{name} answered {found} of {rows:,} rows, where {right} is right")
