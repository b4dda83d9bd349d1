"""Row windows that are asked on demand: what `python -m benchmarks lookups` measures (wang-freschl 5 and 6.5).

Rows come in, in batches; after every so many of them somebody asks one of the registered windows for its max. The
response time is that of all rows and all lookups together. Needs no Spark.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks import plot as pictures
from benchmarks import report
from benchmarks.course import draw_to, warn_if_busy
from benchmarks.lookup_ways import (
    Bounds,
    ByInterval,
    ByOrderedSharing,
    ByTimeGram,
    CompiledNaive,
    Course,
    Naive,
    NaiveSum,
    Step,
    Way,
)
from benchmarks.measuring import Stopwatch, Task, Timing
from benchmarks.report import Bar, Grid, Report
from mullion.errors import MullionError

SEED = 2005
CHECKED = 100_000
"""Answers of one measurement that are checked, about."""
UNIFORM, SKEWED = "uniform", "skewed"
SHARED: tuple[type[Way], ...] = (ByTimeGram, ByOrderedSharing)
DRAWN: tuple[type[Way], ...] = (Naive, *SHARED, ByInterval)
Maker = Callable[[Course], Way]


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rows: int = 100_000
    largest: int = 10_000
    batch: int = 1000
    ratios: tuple[int, ...] = (1, 10, 100, 1000)
    numbers: tuple[int, ...] = (1, 10, 100, 1000, 10_000)
    many: int = 1000
    """Registered windows while the ratio varies."""
    evaluations: int = 1_000_000
    """Of the naive way, a query upon a row; its time is that of so many, scaled to all rows."""
    repeat: int = 5


FULL = Size()
QUICK = Size(
    rows=2000,
    largest=200,
    batch=100,
    ratios=(1, 10),
    numbers=(1, 10, 200),
    many=20,
    evaluations=20_000,
    repeat=1,
)


@dataclass
class Lab:
    size: Size
    watch: Stopwatch
    report: Report
    series: dict[str, dict[str, dict[int, float]]] = field(default_factory=dict)
    """Seconds by panel, way, and ratio or number of windows."""
    scaled: dict[str, float] = field(default_factory=dict)
    """By how much the times of what was measured over the first rows only are multiplied."""

    def __post_init__(self) -> None:
        rng = np.random.default_rng(SEED)
        length = self.size.largest + self.size.rows
        self.data = {UNIFORM: rng.uniform(-100, 100, length), SKEWED: rng.normal(0, 10, length)}

    def course(self, data: str, number: int, ratio: int, rows: int, batch: int, *, everyone: bool = False) -> Course:
        """`number` registered windows of different sizes; each lookup asks one of them at random, or every one."""
        rng, largest = np.random.default_rng(SEED + number), self.size.largest
        sizes = np.append(rng.choice(np.arange(1, largest), number - 1, replace=False), largest)
        at = np.arange(ratio, rows + 1, ratio)
        which = np.tile(np.arange(number), len(at)) if everyone else rng.integers(0, number, len(at))
        at = np.repeat(at, number) if everyone else at
        before, values = self.data[data][:largest], self.data[data][largest : largest + rows]
        steps = []
        for begin in range(0, rows, batch):
            own = slice(*np.searchsorted(at, [begin, begin + batch], side="right"))
            steps.append(Step(values[begin : begin + batch], at[own] - begin, which[own]))
        return Course(sizes, before, steps, max(1, len(which) // CHECKED))

    def measure(
        self,
        name: str,
        makers: Sequence[Maker],
        *,
        data: str = UNIFORM,
        number: int,
        ratio: int = 1,
        batch: int | None = None,
        rows: int | None = None,
        everyone: bool = False,
        sums: bool = False,
    ) -> list[Timing]:
        """The ways in turn over the same rows; the naive over the first of them, and scaled."""
        wanted = batch or self.size.batch
        make = partial(self.course, data, number, ratio, batch=wanted, everyone=everyone)
        all_rows, few = rows or self.size.rows, min(wanted, ratio * 10)
        own = [min(all_rows, self._rows(maker, number, ratio)) for maker in makers]
        made = {rows: make(rows=rows) for rows in set(own)}
        courses = [made[rows] for rows in own]
        tasks = [
            Task(
                f"{_name(maker)}, {name}",
                lambda way: way.run(),
                partial(maker, course),
                partial(_warm, maker, make(few)),
            )
            for maker, course in zip(makers, courses, strict=True)
        ]
        found = []
        for maker, course, timing in zip(makers, courses, self.watch.measure(tasks), strict=True):
            check(timing.name, course, timing.result, sums=sums)
            factor = all_rows / course.rows
            if factor > 1:
                self.scaled[timing.name] = factor
            timing.result = None
            found.append(timing.times(factor, _name(maker)))
        return found

    def _rows(self, maker: Maker, number: int, ratio: int) -> int:
        if maker not in (Naive, NaiveSum):
            return self.size.rows
        return max(100, self.size.evaluations // number) // ratio * ratio


def run(console: Console, *, json: Path | None = None, plot: Path | None = None, quick: bool = False) -> Report:
    """Measure everything; `quick` tries all ways on few rows and judges nothing."""
    size = QUICK if quick else FULL
    made, machine = Report(judged=not quick), report.machine()
    warn_if_busy(console, machine["load_average"])
    watch = Stopwatch(console, size.repeat)
    lab = Lab(size, watch, made)
    said = f"{size.rows:,} rows, windows of up to {size.largest:,} rows, the best of {size.repeat} after warming up"
    console.print(said, highlight=False)
    # Garbage is collected before every time that is taken: what was there before need not be gone through again.
    gc.freeze()
    for data in (UNIFORM, SKEWED):
        by_ratio(lab, data)
        by_number(lab, data)
    for part in (compiled, one_at_a_time, everyone, sums):
        part(lab)
    gc.unfreeze()
    made.timings = watch.timings
    made.facts = {
        "benchmark": "lookups",
        "machine": machine,
        "versions": report.versions(),
        "size": asdict(size),
        "series": lab.series,
        "scaled_by": lab.scaled,
    }
    made.finish(console, json)
    parts = f"{min(lab.scaled.values()):,.0f} to {max(lab.scaled.values()):,.0f}"
    console.print(f"\nNaive: measured over the first rows, and scaled by {parts}.", highlight=False)
    draw_to(console, plot, partial(_draw, lab))
    return made


def by_ratio(lab: Lab, data: str) -> None:
    """Figures 3 and 5. The naive way evaluates upon every row, whatever the ratio: it is measured once."""
    size = lab.size
    lines: dict[str, dict[int, float]] = {way.name: {} for way in DRAWN}
    for ratio in size.ratios:
        name, ways = f"{size.many:,} windows, {ratio}:1, {data}", DRAWN if ratio == 1 else DRAWN[1:]
        for timing in lab.measure(name, ways, data=data, number=size.many, ratio=ratio):
            lines[timing.name][ratio] = timing.best
    naive = lines[Naive.name][1]
    lines[Naive.name] = dict.fromkeys(size.ratios, naive)
    for way in SHARED:
        for ratio in (size.ratios[0], size.ratios[-1]):
            what = f"{way.name}, {size.many:,} windows, {ratio}:1, {data}: faster than naive by"
            lab.report.add(Bar(what, naive / lines[way.name][ratio], 50, ">="))
    lab.series[f"{size.many:,} windows, {data} data"] = lines
    lab.report.grids.append(_grid(f"{data}, {size.many:,} windows, s", lines, "{}:1"))


def by_number(lab: Lab, data: str) -> None:
    """Figures 4, 6, 9 and 10, with a lookup after every row."""
    size = lab.size
    lines: dict[str, dict[int, float]] = {way.name: {} for way in DRAWN}
    for number in size.numbers:
        for timing in lab.measure(f"{_windows(number)}, {data}", DRAWN, data=data, number=number):
            lines[timing.name][number] = timing.best
    few, most = size.numbers[1], size.numbers[-1]
    for way in SHARED:
        what = f"{way.name}, 1:1, {data}: {most:,} windows against {few}"
        lab.report.add(Bar(what, lines[way.name][most] / lines[way.name][few], 3, "<="))
    lab.series[f"a lookup after every row, {data} data"] = lines
    lab.report.grids.append(_grid(f"{data}, 1:1, windows, s", lines, "{:,}"))


def one_at_a_time(lab: Lab) -> None:
    """A call from Python for each row and its lookup: what is left when nothing comes in batches."""
    size = lab.size
    name, ways = f"{size.many:,} windows, 1:1, a row a batch", _with(Naive)
    naive, *shared = lab.measure(name, ways, number=size.many, batch=1, rows=size.rows // 10)
    for timing in shared:
        what = f"{timing.name}, {size.many:,} windows, 1:1, a row a batch: faster than naive by"
        lab.report.add(Bar(what, naive.best / timing.best))


def everyone(lab: Lab) -> None:
    """Every registered window is asked after every row, as the naive way answers them: what is left for sharing."""
    size = lab.size
    name, ways = f"all of {size.many:,} windows asked, 1:1", _with(Naive, CompiledNaive)
    naive, compiled, *shared = lab.measure(name, ways, number=size.many, batch=10, everyone=True, rows=size.rows // 10)
    for timing in shared:
        what = f"{timing.name}, all of {size.many:,} windows asked after every row: faster than naive by"
        note = f"than naive in compiled code: {compiled.best / timing.best:.2f} x"
        lab.report.add(Bar(what, naive.best / timing.best, note=note))


def compiled(lab: Lab) -> None:
    """Against the naive way in compiled code."""
    size = lab.size
    name, ways = f"{size.many:,} windows, 1:1, compiled", _with(CompiledNaive)
    naive, *shared = lab.measure(name, ways, number=size.many)
    for timing in shared:
        what = f"{timing.name}, {size.many:,} windows, 1:1: faster than naive in compiled code by"
        lab.report.add(Bar(what, naive.best / timing.best, 50, ">="))


def sums(lab: Lab) -> None:
    """The timegram's bounds for sums."""
    size = lab.size
    makers: tuple[Maker, ...] = (NaiveSum, _sum_by_timegram)
    naive, gram = lab.measure(f"{size.many:,} windows, 1:1", makers, number=size.many, sums=True)
    what = f"TimeGram, sums of {size.many:,} windows, 1:1: faster than naive by"
    lab.report.add(Bar(what, naive.best / gram.best))


def check(name: str, course: Course, told: Sequence[Bounds], *, sums: bool = False) -> None:
    """Every answer handed out against its window, computed from scratch: inside the bounds, and equal if they are."""
    values = np.concatenate((course.before, *(step.values for step in course.steps)))
    begins = np.cumsum([len(course.before), *(len(step.values) for step in course.steps)])
    checked = range(0, len(course.steps), course.told)
    if len(told) != len(checked):
        raise MullionError(f"{name}: {len(told)} batches were answered instead of {len(checked)}")
    # Sums are rounded differently from scratch.
    slack = 1e-6 if sums else 0.0
    for i, (low, high) in zip(checked, told, strict=True):
        step = course.steps[i]
        ends, sizes = begins[i] + step.at, course.sizes[step.which]
        if len(low) != len(ends):
            raise MullionError(f"{name}: {len(low)} windows were answered instead of {len(ends)}")
        windows = (values[end - size : end] for end, size in zip(ends, sizes, strict=True))
        right = np.array([window.sum() if sums else window.max() for window in windows])
        wrong = ~((low - slack <= right) & (right <= high + slack))
        if wrong.any():
            j = int(np.argmax(wrong))
            raise MullionError(
                f"{name}: the last {sizes[j]} rows after row {ends[j]} gave {low[j]} to {high[j]}, not {right[j]}"
            )


def _with(*ways: type[Way]) -> tuple[type[Way], ...]:
    return (*ways, *SHARED)


def _sum_by_timegram(course: Course) -> Way:
    return ByTimeGram(course, "sum")


def _name(maker: Maker) -> str:
    return maker.name if isinstance(maker, type) and issubclass(maker, Way) else "TimeGram, sum"


def _warm(maker: Maker, course: Course) -> None:
    maker(course).run()


def _windows(number: int) -> str:
    return "1 window" if number == 1 else f"{number:,} windows"


def _grid(title: str, lines: dict[str, dict[int, float]], head: str) -> Grid:
    columns = list(next(iter(lines.values())))
    rows = [(name, *(f"{line[column]:.3f}" for column in columns)) for name, line in lines.items()]
    return Grid((title, *(head.format(column) for column in columns)), rows)


def _draw(lab: Lab, path: Path) -> None:
    title = f"Response time of {lab.size.rows:,} rows and the lookups between them; windows of up to "
    title += f"{lab.size.largest:,} rows; naive from the first rows"
    axes = ("rows for each lookup", "registered windows") * 2
    pictures.draw_panels(path, lab.series, axes, title)
