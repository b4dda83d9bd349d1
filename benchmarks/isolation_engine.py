"""Questions to an engine that answers 256 standing queries meanwhile. Batches come one after the other, without Spark:
in its place stands what the tests have there."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

SECOND = 1_000_000
BEGIN = 20 * 365 * 86_400 * SECOND
STREAM = """
CREATE STREAM packets (ts TIMESTAMP, host INT, size INT) USING parquet OPTIONS (path 'nowhere')
TIMESTAMP BY ts LATENESS '0 s';
CREATE QUERY longest AS SELECT host, sum(size) AS total, max(size) AS top
FROM packets [RANGE '90 s' SLIDE '1 s'] GROUP BY host;
"""
QUESTION = """
SELECT host, sum(size) AS total, max(size) AS top FROM packets [RANGE '30 s' SLIDE '1 s'] GROUP BY host
"""
LEVELS = ("snapshot", "latest", "serial")


@dataclass(frozen=True)
class EngineSize:
    queries: int = 256
    events: int = 5_000
    """Of a batch, which is a second of event time."""
    filled: int = 95
    pairs: int = 60
    """Batches with isolation, and as many without, in turns."""
    questions: int = 600
    """Of each level, to an idle engine and beside batches."""
    rounds: int = 10
    """In which batches alone, an idle engine and both together take turns, so that a machine's drift hits all alike."""
    alone: int = 60
    """Batches of a round beside which nobody asks."""
    pause: float = 0.02
    """Seconds between two questions."""


@dataclass
class Beside:
    """Seconds."""

    batch_with: list[float] = field(default_factory=list)
    batch_without: list[float] = field(default_factory=list)
    idle: dict[str, list[float]] = field(default_factory=dict)
    beside: dict[str, list[float]] = field(default_factory=dict)
    batch_alone: dict[str, list[float]] = field(default_factory=dict)
    batch_beside: dict[str, list[float]] = field(default_factory=dict)


def script(size: EngineSize) -> str:
    dice = np.random.default_rng(size.queries)
    text = STREAM
    for i in range(size.queries):
        length = int(dice.integers(5, 60))
        slide = int(dice.integers(1, length // 2 + 1))
        text += f"CREATE QUERY q{i} AS SELECT host, sum(size) AS total, max(size) AS top "
        text += f"FROM packets [RANGE '{length} s' SLIDE '{slide} s'] GROUP BY host;\n"
    return text


def events(batch: int, size: EngineSize) -> pa.Table:
    dice = np.random.default_rng(batch)
    times = BEGIN + batch * SECOND + np.sort(dice.integers(0, SECOND, size.events))
    return pa.table(
        {
            "#t": times,
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "host": pa.array(dice.integers(0, 20, size.events), pa.int32()),
            "size": pa.array(dice.integers(1, 101, size.events), pa.int32()),
        }
    )


def engine_without_spark(text: str) -> Any:
    tests = str(Path(__file__).parent.parent / "tests")
    if tests not in sys.path:
        sys.path.append(tests)
    return import_module("without_spark").local_engine(text, keep_answers=1_000)


@contextmanager
def without_isolation(engine: Any) -> Iterator[None]:
    """Views are put in their places, and that is all. Nobody asks, so that there is nobody to give way to either."""
    published = engine._runs.published
    published.publish = lambda put: put()
    yield
    del published.publish


def measured(size: EngineSize) -> Beside:
    found = Beside()
    with engine_without_spark(script(size)) as engine:
        number = 0

        def deliver() -> float:
            nonlocal number
            batch = events(number, size)
            began = time.perf_counter()
            engine.deliver("packets", batch, number)
            number += 1
            return time.perf_counter() - began

        for _ in range(size.filled):
            deliver()
        for _ in range(size.pairs):
            found.batch_with.append(deliver())
            with without_isolation(engine):
                found.batch_without.append(deliver())
        for level in LEVELS:
            _ask(engine, level, 50, 0.0)
            idle, alone, beside, answers = (list[float]() for _ in range(4))
            for _ in range(size.rounds):
                number_of_questions = size.questions // size.rounds
                idle += _ask(engine, level, number_of_questions, size.pause / 4)
                alone += [deliver() for _ in range(size.alone)]

                def ask(level: str = level, answers: list[float] = answers, number: int = number_of_questions) -> None:
                    answers += _ask(engine, level, number, size.pause)

                asking = threading.Thread(target=ask)
                asking.start()
                while asking.is_alive():
                    beside.append(deliver())
                asking.join()
            found.idle[level], found.batch_alone[level] = idle, alone
            found.beside[level], found.batch_beside[level] = answers, beside
    return found


def _ask(engine: Any, isolation: str, number: int, pause: float) -> list[float]:
    seconds = []
    for _ in range(number):
        time.sleep(pause)
        began = time.perf_counter()
        engine.ask(QUESTION, isolation=isolation)
        seconds.append(time.perf_counter() - began)
    return seconds
