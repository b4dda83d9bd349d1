"""What a batch costs when one window of each query is due: what `python -m benchmarks due` measures.

A second of events comes in as one batch, and one window of each query ends with it, of thousands of groups. The window
is a minute long, or ten, or an hour: the batch should cost the same. A batch is all that is done between its events and
its answers, commits left out. Needs no Spark.
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
COLUMNS = (("ts", TIMESTAMP), ("sensor", STRING), ("volume", BIGINT), ("price", DOUBLE), ("state", STRING))
STREAM = Stream("readings", COLUMNS, "ts")


@dataclass(frozen=True)
class Case:
    """Queries of which each has one window due in every batch."""

    items: str
    queries: int = 1
    """They differ in their conditions, and an event satisfies four of them."""
    batches: int = 3600
    """So many are measured at the most, the length of the window otherwise."""

    def texts(self, length: int) -> list[str]:
        source = f"SELECT sensor, {self.items} FROM readings [RANGE {length} s SLIDE 1 s]"
        if self.queries == 1:
            return [f"{source} GROUP BY sensor"]
        step = 1000 / self.queries
        bounds = [(int(i * step), int((i + 4) * step)) for i in range(self.queries)]
        return [f"{source} WHERE volume >= {low} AND volume < {high} GROUP BY sensor" for low, high in bounds]


TOTALS = "count(*) AS n, sum(volume) AS total"
CASES = {
    "totals": Case(TOTALS),
    "extremes and doubles": Case("max(volume) AS top, avg(price) AS mean"),
    "totals of 20 conditions": Case(TOTALS, queries=20, batches=300),
    "totals of 256 conditions": Case(TOTALS, queries=256, batches=100),
    "largest text": Case("max(state) AS top", batches=60),
    "median": Case("median(volume) AS middle", batches=30),
}
AT_MOST = 1.5
"""A batch with the longest windows against one with the shortest."""


PIECE = 20
"""Seconds of events that are taken at once to fill a window."""
SETTLING = 5
"""Batches before those that are measured."""


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
    """Seconds of processor time that batches took, and the answers that they gave."""

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
        "state": pa.array(dice.integers(0, 100_000, size.events)).cast(pa.string()),
    }
    return pa.table(columns)


class Course:
    """Batches of some queries over one stream."""

    def __init__(self, texts: Sequence[str], size: Size) -> None:
        streams = {"readings": STREAM}
        bound = [relations.bind(parse_query(text, name=f"q{i}"), streams) for i, text in enumerate(texts)]
        self._plan = make_plan(STREAM, [query for query in (sliced(own, streams) for own in bound) if query])
        groupings = self._plan.groupings
        windows = (self._plan.windows,) * len(groupings)
        self._job = Job(groupings, self._plan.methods, windows, Input(STREAM.types), self._plan.slicing)
        self._size, self._names = size, sensors(size)
        self._tier, self.work = WindowTier(), Work()

    def fill(self, length: int) -> None:
        """The events of a window, some seconds at once, of which nothing is answered."""
        for second in range(0, length, PIECE):
            seconds = range(second, min(second + PIECE, length))
            self._take(pa.concat_tables([events_of(each, self._size, self._names) for each in seconds]))
            end = seconds.stop * SECOND
            for grouping in self._plan.answering:
                self._tier.due(grouping, 0, end - 1, end)
            self._tier.forget(self._plan, end)

    def batch(self, second: int) -> tuple[float, int]:
        """How many seconds of processor time a batch takes, and the answers that it gives."""
        events, end = events_of(second, self._size, self._names), (second + 1) * SECOND
        began, answers = time.process_time(), 0
        self._take(events)
        for grouping in self._plan.answering:
            due = self._tier.due(grouping, 0, end - 1, end)
            counting = self._plan.counting(grouping)
            found = self._tier.answer(grouping, due.portions(1000), self.work, counting)
            answers += sum(len(some.table) for some in found)
        self._tier.forget(self._plan, end)
        return time.process_time() - began, answers

    def _take(self, events: pa.Table) -> None:
        for made, grouping in zip(partials(events, self._job), self._plan.groupings, strict=True):
            self._tier.add_slices(tally(made, grouping).slices)
            self._tier.absorb(PartialSubWindows.of(made, grouping))


def course(case: Case, length: int, size: Size) -> Batches:
    """A window is filled, some batches settle what is kept of it, and the others are measured."""
    own = Course(case.texts(length), size)
    own.fill(length)
    found = [own.batch(length + i) for i in range(SETTLING + min(length, case.batches))][SETTLING:]
    return Batches([seconds for seconds, _ in found], sum(answers for _, answers in found), own.work.final)


def run(console: Console, *, json: Path | None = None, plot: Path | None = None, quick: bool = False) -> Report:
    """Measure everything; `quick` tries it on little and judges nothing."""
    size = QUICK if quick else FULL
    made, machine = Report(judged=not quick), report.machine()
    warn_if_busy(console, machine["load_average"])
    console.print(f"{size.events:,} events of {size.groups:,} groups a second, a batch a second", highlight=False)
    course(CASES["totals"], size.ranges[0], size)
    rows, series = [], {}
    for name, case in CASES.items():
        found = {length: course(case, length, size) for length in size.ranges}
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
