"""What a batch costs when one window of each query is due: what `python -m benchmarks due` measures.

A second of events comes in as one batch, and one window ends with it, of thousands of groups. The window is a minute
long, or ten, or an hour: the batch should cost the same. A batch is all that is done between its events and its
answers, commits left out. Needs no Spark.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console

from benchmarks import report
from benchmarks.course import warn_if_busy
from benchmarks.report import Bar, Grid, Report
from mullion.algebra.streams import Stream
from mullion.binding import relations
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, DOUBLE, STRING, TIMESTAMP
from mullion.planner.physical import sliced
from mullion.planner.rules import make_plan
from mullion.slices.finalize import Work
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input, Job, partials
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tally import tally
from mullion.slices.tier import WindowTier

SEED = 2003
SECOND = 1_000_000
COLUMNS = (("ts", TIMESTAMP), ("sensor", STRING), ("volume", BIGINT), ("price", DOUBLE))
STREAM = Stream("readings", COLUMNS, "ts")
STATES = {
    "totals": "count(*) AS n, sum(volume) AS total",
    "extremes and doubles": "max(volume) AS top, avg(price) AS mean",
}
AT_MOST = 1.5
"""A batch with the longest windows against one with the shortest."""


@dataclass(frozen=True)
class Size:
    ranges: tuple[int, ...] = (60, 600, 3600)
    """Seconds."""
    groups: int = 2000
    events: int = 1000
    """Of a second."""


FULL = Size()
QUICK = Size(ranges=(5, 20), groups=50, events=400)


@dataclass(frozen=True)
class Batches:
    """Seconds that batches took, and the answers that they gave."""

    seconds: list[float]
    answers: int
    operations: int

    @property
    def mean(self) -> float:
        return sum(self.seconds) / len(self.seconds)


def sensors(size: Size) -> pa.Array:
    return pa.array([f"sensor {i}" for i in range(size.groups)])


def events_of(second: int, size: Size, names: pa.Array) -> pa.Table:
    dice = np.random.default_rng((SEED, second))
    times = np.sort(dice.integers(second * SECOND, (second + 1) * SECOND, size.events))
    columns = {
        TIME: times,
        "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
        "sensor": names.take(pa.array(dice.integers(0, size.groups, size.events))),
        "volume": dice.integers(1, 1000, size.events),
        "price": dice.integers(1, 10_000, size.events) / 100,
    }
    return pa.table(columns)


def course(items: str, length: int, size: Size) -> Batches:
    """Two lengths of the window: the first fills it, the second is measured."""
    text = f"SELECT sensor, {items} FROM readings [RANGE {length} s SLIDE 1 s] GROUP BY sensor"
    query = sliced(relations.bind(parse_query(text, name="q"), {"readings": STREAM}), {"readings": STREAM})
    assert query is not None
    plan = make_plan(STREAM, [query])
    (grouping,) = plan.groupings
    job = Job((grouping,), plan.methods, (plan.windows,), Input(STREAM.types), plan.slicing)
    names, tier, work = sensors(size), WindowTier(), Work()
    seconds, answers = [], 0
    for second in range(2 * length):
        events = events_of(second, size, names)
        began = time.perf_counter()
        (made,) = partials(events, job)
        tier.add_slices(tally(made, grouping).slices)
        tier.absorb(PartialSubWindows.of(made, grouping))
        watermark = (second + 1) * SECOND
        due = tier.due(grouping, 0, watermark - 1, watermark)
        given = sum(len(some.table) for some in tier.answer(grouping, due.portions(1000), work))
        tier.forget(plan, watermark)
        if second >= length:
            seconds.append(time.perf_counter() - began)
            answers += given
    return Batches(seconds, answers, work.final)


def run(console: Console, *, json: Path | None = None, plot: Path | None = None, quick: bool = False) -> Report:
    """Measure everything; `quick` tries it on little and judges nothing."""
    size = QUICK if quick else FULL
    made, machine = Report(judged=not quick), report.machine()
    warn_if_busy(console, machine["load_average"])
    console.print(f"{size.events:,} events of {size.groups:,} groups a second, a batch a second", highlight=False)
    course(STATES["totals"], size.ranges[0], size)
    rows, series = [], {}
    for name, items in STATES.items():
        found = {length: course(items, length, size) for length in size.ranges}
        rows += [_row(name, length, batches) for length, batches in found.items()]
        series[name] = {length: batches.mean for length, batches in found.items()}
        shortest, longest = size.ranges[0], size.ranges[-1]
        what = f"{name}: a batch with RANGE {longest:,} s against RANGE {shortest:,} s"
        made.add(Bar(what, found[longest].mean / found[shortest].mean, AT_MOST, "<="))
    header = ("one window due a batch", "range", "mean", "median", "longest", "answers")
    made.grids.append(Grid(header, rows))
    made.facts = {
        "benchmark": "due",
        "machine": machine,
        "versions": report.versions(),
        "size": asdict(size),
        "seconds_of_a_batch": series,
    }
    made.finish(console, json)
    if plot is not None:
        console.print("There is nothing to draw.")
    return made


def _row(name: str, length: int, batches: Batches) -> tuple[str, ...]:
    figures: Sequence[float] = (batches.mean, float(np.median(batches.seconds)), max(batches.seconds))
    answers = f"{batches.answers / len(batches.seconds):,.0f}"
    return name, f"{length:,} s", *(f"{1000 * seconds:.2f} ms" for seconds in figures), answers
