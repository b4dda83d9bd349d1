"""Relations that have more instants than there is time for: with SLIDE the run falls further and further behind, with
SLIDE AT MOST their periods stretch until it keeps up.

Little comes, and what costs time is answers: DISTINCT lists 500 keys at every instant, a thousand of them a second. The
number of queries is chosen so that a second of them takes about `LOAD` seconds of this machine.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.overload_burst import Course, Length, follow, write
from mullion.engine import Engine

LOAD = 2.0
"""Seconds of work in a second of events, were every instant answered."""
RATE = 10_000
"""Events a second."""
TRIED = 8
"""Queries that the load of one is measured with."""
KEPT = 10_000
"""Answers that stay in memory."""


def statements(folder: Path, slide: str, number: int) -> str:
    columns = "(ts TIMESTAMP, k INT, x DOUBLE)"
    stream = f"CREATE STREAM s {columns} USING parquet OPTIONS (path '{folder}') TIMESTAMP BY ts"
    window = f"[RANGE 4 s {slide} 1 ms]"
    least = (20 * i / number for i in range(number))
    asked = (f"CREATE QUERY q{i} AS SELECT DISTINCT k FROM s {window} WHERE x > {x:.3f}" for i, x in enumerate(least))
    return "; ".join([stream, *asked])


def enough_queries(spark: Any, base: Path) -> int:
    """How many of them take `LOAD` seconds for a second of events."""
    took = []
    for number, seconds in enumerate((4, 4, 8)):  # the first is to warm up
        folder = base / f"load-{number}"
        write(folder, [RATE // 4] * (4 * seconds), 0.25)
        with Engine(spark, keep_answers=KEPT) as engine:
            engine.execute(statements(folder, "SLIDE", TRIED))
            began = time.perf_counter()
            engine.run()
            took.append(time.perf_counter() - began)
    each = max(0.01, took[2] - took[1]) / 4 / TRIED
    return max(1, round(LOAD / each))


def play(spark: Any, base: Path, slide: str, number: int, length: Length, seconds: float) -> Course:
    """Events as they happen, for so many seconds."""
    ticks = [int(RATE * length.tick)] * int(seconds / length.tick)
    ready = write(base / "ready", ticks, length.tick)
    course = Course(burst=seconds)
    folder = base / "s"
    folder.mkdir()
    began = time.perf_counter()
    with follow(spark, ready, folder, statements(folder, slide, number), course, length, kept=KEPT) as engine:
        while time.perf_counter() - began < seconds + 1 and not engine.failed:
            engine.wait(0.5)
    return course
