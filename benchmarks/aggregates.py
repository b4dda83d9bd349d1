"""Other aggregates and other windows: what `python -m benchmarks aggregates` measures.

Holistic aggregates, exact and approximate; windows over the last events and after every event; wide windows by each
synopsis; and panes against tuples as in li 2005, Figure 3. T1, the unit of most bars, is one plain Spark tumbling sum
over the same files. Answers are compared with those that numpy finds by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import (
    aggregate_questions,
    duckdb_baselines,
    measures,
    mullion_runs,
    pane_grid,
    plot,
    report,
    spark_baselines,
)
from benchmarks.aggregate_questions import ValueQuestion, row_windows
from benchmarks.aggregates_lab import FULL, QUICK, AggregatesLab, rows_by_start, totals_in_time
from benchmarks.course import EXTRA, conduct, draw_to
from benchmarks.lab import T1
from benchmarks.measuring import Task, Timing
from benchmarks.pane_grid import PAPER, PAPER_RATIO, Cell, Measured
from benchmarks.report import Bar, Grid, Report
from benchmarks.workloads import Window, range_slide
from mullion.engine import Engine
from mullion.slices.interval import Interval
from mullion.slices.sequence import SYNOPSES
from mullion.surface.trades import SECOND

WIDE: Window = (3600 * SECOND, 10 * SECOND)
RECENT = 240 * SECOND

EXACT, APPROXIMATE, ROWS = "exact aggregates of volumes", "approximate aggregates of prices", "windows over events"
WIDE_SPARK = "Spark, max and count, 60 min every 10 s"


@dataclass(frozen=True)
class Wide:
    """One aggregate over the wide window, by one synopsis."""

    call: str
    how: str
    reduce: Any
    forced: bool = False
    """Whether the engine would choose another synopsis."""

    @property
    def name(self) -> str:
        return f"{self.call.partition('(')[0]}, 60 min every 10 s, by {self.how}"

    def text(self) -> str:
        return f"SELECT {self.call} AS total FROM trades [{range_slide(WIDE)}]"


WIDES = (
    Wide("max(price)", "intervals", np.max),
    Wide("count(*)", "differences", len),
    Wide("count(*)", "intervals", len, forced=True),
)

RECENTS = {"max(price)": np.max, "sum(price * volume)": np.sum}
"""What is asked after every event."""


def run(console: Console, *, json: Path | None = None, plot: Path | None = None, quick: bool = False) -> Report:
    """Measure everything; `quick` tries all paths on little data and judges nothing."""
    size = QUICK if quick else FULL
    parts = (in_one_pass, values_in_spark, rows_elsewhere, wide_in_spark, after_events, panes)
    lab = conduct(console, "aggregates", AggregatesLab, size, parts, judged=not quick, json=json)
    draw_to(console, plot, partial(_draw, lab))
    return lab.report


def in_one_pass(lab: AggregatesLab) -> None:
    """T1 and all that is compared with it, in turn."""
    size = lab.size
    exact, approximate = aggregate_questions.exact(size.queries), aggregate_questions.approximate(size.queries)
    windows = row_windows(size.queries)
    t1_task = Task(T1, lambda _: spark_baselines.tumbling(lab.session))
    for _ in range(size.warm):
        t1_task.warm_up()
    sets = {EXACT: exact, APPROXIMATE: approximate}
    lacking = measures.missing([question.measure for question in approximate])
    if lacking:
        del sets[APPROXIMATE]
        lab.report.left_out.append(f"{APPROXIMATE}: this version has no {', '.join(lacking)}")
    texts = {name: [q.text() for q in asked] for name, asked in sets.items()} | {ROWS: [w.text() for w in windows]}
    many = [lab.engine_task(_named(lab, name), asked) for name, asked in texts.items()]
    wide = [_wide_task(lab, one) for one in WIDES]
    t1, *found = lab.watch.measure([t1_task, *many, *wide], warm=size.heavy_warm)
    lab.check_t1(t1)
    timings = dict(zip(texts, found, strict=False))
    for name, asked in sets.items():
        lab.check_values(_named(lab, name), timings[name].result, asked)
    lab.check_row_engine(_named(lab, ROWS), timings[ROWS].result, windows)
    for name, timing in timings.items():
        lab.count(name, timing)
        lab.report.add(Bar(f"{size.queries} {name} against T1", timing.best / t1.best, _AGAINST_T1[name], "<="))
    for one, timing in zip(WIDES, found[len(texts) :], strict=True):
        _check_wide(lab, one, rows_by_start(timing.result, 0))
        lab.report.add(Bar(f"{one.name} against T1", timing.best / t1.best, 2, "<="))
    for timing in found:
        timing.result = None


_AGAINST_T1 = {EXACT: 4, APPROXIMATE: 6, ROWS: 3}


def _wide_task(lab: AggregatesLab, one: Wide) -> Task:
    task = lab.engine_task(f"Mullion, {one.name}", [one.text()])

    def run_by_intervals(engine: Engine) -> Engine:
        with by_intervals():
            return mullion_runs.run(engine)

    return replace(task, run=run_by_intervals) if one.forced else task


@contextmanager
def by_intervals() -> Iterator[None]:
    """Every state in a tree of intervals."""
    usual = dict(SYNOPSES)
    SYNOPSES.update(dict.fromkeys(usual, Interval))
    try:
        yield
    finally:
        SYNOPSES.update(usual)


def _check_wide(lab: AggregatesLab, one: Wide, got: Sequence[tuple[int, Any]]) -> None:
    lab.check_wide(one.name, WIDE, got, one.reduce, lab.columns["price"])


def values_in_spark(lab: AggregatesLab) -> None:
    """One Spark job for each query over values: some are timed, and stand for all."""
    size = lab.size
    for name, asked, bar in (
        (EXACT, aggregate_questions.exact(size.queries), 50),
        (APPROXIMATE, aggregate_questions.approximate(size.queries), None),
    ):
        ours = lab.watch.timings.get(_named(lab, name))
        if ours is None:
            continue
        jobs = _value_jobs(lab, name, asked[: size.jobs])
        all_jobs = _scaled(lab, jobs, size.jobs, f"Spark, {size.queries} jobs, {name} (from {size.jobs})")
        what = f"{size.queries} {name} against as many Spark jobs: faster by"
        lab.report.add(Bar(what, all_jobs.best / ours.best, bar, "" if bar is None else ">="))


def _value_jobs(lab: AggregatesLab, name: str, few: Sequence[ValueQuestion]) -> Timing:
    ask = partial(spark_baselines.value_jobs, lab.session)
    (jobs,) = lab.watch.measure([_asking(f"Spark, {len(few)} jobs, {name}", ask, few, few[:4])])
    for question, got in zip(few, jobs.result, strict=True):
        lab.check_question(jobs.name, question, got)
    jobs.result = None
    return jobs


def _scaled(lab: AggregatesLab, timing: Timing, measured: int, name: str) -> Timing:
    """What all queries would take, of which so many were measured."""
    scaled = timing.times(lab.size.queries / measured, name)
    lab.watch.timings[name] = scaled
    return scaled


def rows_elsewhere(lab: AggregatesLab) -> None:
    """Windows over the last events, one by one, in Spark and in DuckDB: some are timed, and stand for all."""
    size = lab.size
    few = row_windows(size.queries)[: size.row_jobs]
    ways = {"Spark": partial(spark_baselines.row_jobs, lab.session)}
    if duckdb_baselines.is_installed():
        ways["DuckDB"] = partial(duckdb_baselines.row_windows, duckdb_baselines.read(lab.files))
    else:
        lab.report.left_out.append(f"DuckDB, which is not installed: {EXTRA}")
    for other, ask in ways.items():
        (timing,) = lab.watch.measure([_asking(f"{other}, {len(few)} {ROWS}", ask, few, few[:1])])
        lab.check_rows(timing.name, few, timing.result)
        everything = _scaled(lab, timing, len(few), f"{other}, {size.queries} {ROWS} (from {len(few)})")
        ratio = everything.best / lab.watch[_named(lab, ROWS)].best
        lab.report.add(Bar(f"{size.queries} {ROWS} against {other}, one by one: faster by", ratio))


def wide_in_spark(lab: AggregatesLab) -> None:
    """Spark copies every event into each of 360 windows; it is measured once, max and count in one job."""
    few = WIDES[:2]
    task = Task(WIDE_SPARK, lambda _: spark_baselines.wide_jobs(lab.session, WIDE, [one.call for one in few]))
    (spark,) = lab.watch.measure([task], warm=0, repeat=1)
    for one, got in zip(few, spark.result, strict=True):
        _check_wide(lab, one, got)
        ratio = spark.best / lab.watch[f"Mullion, {one.name}"].best
        lab.report.add(Bar(f"{one.name} against Spark's: faster by", ratio))


def after_events(lab: AggregatesLab) -> None:
    """An answer after every event, over those of the last four minutes."""
    size, prices = lab.size, lab.columns["price"]
    values = {"max(price)": prices, "sum(price * volume)": lab.oracle.values}
    tasks = [
        lab.engine_task(_after(call), [f"SELECT {call} AS total FROM trades [RANGE '4 min' SLIDE 1 TUPLE]"])
        for call in RECENTS
    ]
    for (call, reduce), timing in zip(RECENTS.items(), lab.watch.measure(tasks, warm=size.heavy_warm), strict=True):
        lab.check_after_events(timing.name, totals_in_time(timing.result, 0), RECENT, reduce, values[call])
        lab.count(timing.name, timing)
        timing.result = None
        what = f"{call} over 4 min after every event: answers a second"
        lab.report.add(Bar(what, size.events / timing.best, 200_000, ">=", "/s"))
    _after_events_elsewhere(lab, values)


def _after_events_elsewhere(lab: AggregatesLab, values: dict[str, Any]) -> None:
    few = lab.size.spark_tuples
    for call in RECENTS:
        ask = partial(spark_baselines.after_events, lab.session, call, RECENT)
        task = _asking(f"Spark, {call} after each of {few:,} events", ask, few, 1000)
        (spark,) = lab.watch.measure([task], repeat=1)
        what = f"Spark, {call} over 4 min after each of the first {few:,} events: answers a second"
        lab.report.add(Bar(what, few / spark.best, unit="/s"))
    if not duckdb_baselines.is_installed():
        return
    connection = duckdb_baselines.read(lab.files)
    for call, reduce in RECENTS.items():
        after = partial(duckdb_baselines.after_events, connection, range_=RECENT)
        asked = call.replace("price * volume", "value")
        (duckdb,) = lab.watch.measure([_asking(f"DuckDB, {call} after every event", after, asked, asked)])
        lab.check_after_events(duckdb.name, duckdb.result, RECENT, reduce, values[call])
        what = f"DuckDB, {call} over 4 min after every event: answers a second"
        lab.report.add(Bar(what, lab.size.events / duckdb.best, unit="/s"))


def panes(lab: AggregatesLab) -> None:
    """Li's Figure 3, for an aggregate without an inverse and one with."""
    size = lab.size
    for kind in pane_grid.KINDS:
        found = pane_grid.measure(
            kind,
            tuples=size.grid_tuples,
            repeat=size.grid_repeat,
            tuples_per_pane=size.tuples_per_pane,
            panes_per_window=size.panes_per_window,
        )
        lab.grids.append(found)
        right, decided, cells = len(found.right), len(found.decided), len(found.cells)
        what = f"panes, {kind.name}: cells on the predicted side, of {decided} decided ones of {cells}"
        lab.report.add(Bar(what, right, decided, "==", ""))
        cell = found.at(PAPER)
        if cell is not None:
            at = f"panes, {kind.name}: {PAPER.tuples_per_pane} tuples per pane, {PAPER.panes} panes per window"
            note = f"the paper: about {PAPER_RATIO:.2f} x" if kind is pane_grid.MAX else ""
            lab.report.add(Bar(f"{at}, against no panes", cell.ratio, note=note))
        lab.report.grids.append(_ratios(found))


def _ratios(found: Measured) -> Grid:
    """Measured, predicted and counted, for every cell."""
    columns = (f"{panes:g} P/W" for panes in found.panes_per_window)
    header = (f"{found.kind.name}: with panes / without (predicted; steps)", *columns)
    cells = {cell.extent: cell for cell in found.cells}

    def text(cell: Cell) -> str:
        return f"{cell.ratio:.2f} ({found.predicted(cell):.2f}; {cell.steps_ratio:.2f})"

    rows = [
        (
            f"{tuples:g} tuples per pane",
            *(text(cells[pane_grid.Extent(p, tuples)]) for p in found.panes_per_window),
        )
        for tuples in found.tuples_per_pane
    ]
    return Grid(header, rows)


# Names and figures


def _named(lab: AggregatesLab, name: str) -> str:
    return f"Mullion, {lab.size.queries} {name}"


def _asking(name: str, ask: Callable[[Any], Any], asked: Any, warm: Any) -> Task:
    """A task that asks a baseline; it is warmed up with a part of what is asked."""
    return Task(name, lambda _: ask(asked), warm=lambda: ask(warm))


def _after(call: str) -> str:
    return f"Mullion, {call} after every event"


def _draw(lab: AggregatesLab, path: Path) -> None:
    title = f"Aggregates and windows over {lab.size.events:,} events on {report.cores()} cores"
    plot.draw_aggregates(path, picture_rows(lab.report), lab.grids, title, reference=lab.watch[T1].best)


def picture_rows(made: Report) -> list[tuple[str, float]]:
    """What the picture shows, from the top: T1, and everything that answers all of a kind."""
    return [
        (name, timing.best)
        for name, timing in made.timings.items()
        if name.startswith(("Mullion", "DuckDB, max", "DuckDB, sum")) or "(from" in name or name in (T1, WIDE_SPARK)
    ]
