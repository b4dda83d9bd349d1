"""Windows that slide while they are read: what `python -m benchmarks isolation` measures.

First the experiment of golab 7.5 in its own terms (`isolation_lab`): four schedulers, n = 10 to 100 sub-windows of one
and of five seconds, periodic queries alone and with questions. Then an engine with 256 standing queries that is asked
meanwhile (`isolation_engine`). Needs no Spark.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks import report
from benchmarks.course import draw_to, warn_if_busy
from benchmarks.isolation_engine import LEVELS, Beside, EngineSize, measured
from benchmarks.isolation_lab import READS, SCHEDULERS, Course, Setting, calibrated, packets, play
from benchmarks.report import Bar, Grid, Report

SEED = 7


@dataclass(frozen=True)
class Size:
    numbers: tuple[int, ...] = (10, 40, 70, 100)
    """Of sub-windows."""
    packets: int = 50_000
    """Of a second, on average."""
    repeat: int = 2
    """Of the runs with sub-windows of one second, which are short."""
    engine: EngineSize = field(default_factory=EngineSize)


FULL = Size()
QUICK = Size(
    (5, 10),
    2_000,
    1,
    EngineSize(queries=8, events=300, filled=40, pairs=3, questions=20, rounds=2, alone=3, pause=0.002),
)

Courses = Mapping[tuple[str, int], list[Course]]
"""By scheduler and number of sub-windows."""


@dataclass(frozen=True)
class Workload:
    title: str
    t: int
    queries: int
    questions: float = 0.0


WORKLOADS = (
    Workload("t = 1 s, 40 queries", 1, 40),
    Workload("t = 5 s, 100 queries", 5, 100),
    Workload("t = 5 s, with questions", 5, 100, 1.0),
)


def courses(workload: Workload, size: Size) -> tuple[Courses, float]:
    """All schedulers in turns, and how long a second of the paper is here."""
    dice = np.random.default_rng(SEED)
    pool = [packets(dice, size.packets * workload.t) for _ in range(max(size.numbers) // (workload.t * 2) + 8)]
    second = READS * calibrated(pool) / workload.t
    found: dict[tuple[str, int], list[Course]] = {(name, n): [] for n in size.numbers for name in SCHEDULERS}
    gc.collect()
    gc.disable()
    try:
        for seed in range(size.repeat if workload.t == 1 else 1):
            for n in size.numbers:
                setting = Setting(n, workload.t, workload.queries, workload.questions)
                for name in SCHEDULERS:
                    found[name, n].append(play(name, setting, second, pool, seed))
    finally:
        gc.enable()
    return found, second


def lines(found: Courses, of: Callable[[Course], float]) -> dict[str, dict[int, float]]:
    """A figure of each scheduler by the number of sub-windows, the mean of its runs; none where nothing was counted."""
    made: dict[str, dict[int, float]] = {name: {} for name in SCHEDULERS}
    for (name, n), runs in found.items():
        figure = float(np.mean([of(run) for run in runs]))
        if not np.isnan(figure):
            made[name][n] = figure
    return made


def _mean(seconds: list[float], unit: float) -> float:
    return float(np.mean(seconds)) / unit if seconds else float("nan")


def _shown(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.2f}"


def panels(found: Mapping[Workload, tuple[Courses, float]]) -> dict[str, tuple[dict[str, dict[int, float]], str]]:
    """The figures of the paper, in its seconds."""
    made = {}
    for workload, (runs, second) in found.items():
        title = workload.title

        def in_seconds(of: Callable[[Course], list[float]], unit: float = second) -> Callable[[Course], float]:
            return lambda run: _mean(of(run), unit)

        if workload.questions:
            made[f"7.12 response of questions, {title}"] = lines(runs, in_seconds(lambda r: r.responses)), "seconds"
            of_questions = in_seconds(lambda r: r.question_staleness)
            made[f"7.13 staleness of questions, {title}"] = lines(runs, of_questions), "seconds"
            made[f"7.14 staleness of queries, {title}"] = lines(runs, in_seconds(lambda r: r.staleness)), "seconds"
            made[f"7.8 aborted, {title}"] = lines(runs, lambda r: r.aborted), "% of all tries"
        else:
            made[f"7.8 aborted, {title}"] = lines(runs, lambda r: r.aborted), "% of all tries"
            made[f"7.9 staleness, {title}"] = lines(runs, in_seconds(lambda r: r.staleness)), "seconds"
            made[f"7.10 inter-execution, {title}"] = lines(runs, in_seconds(lambda r: r.between)), "seconds"
            throughput = lines(runs, lambda r, unit=second: r.throughput * unit)  # type: ignore[misc]
            made[f"7.11 throughput, {title}"] = throughput, "executions a second"
    return made


def judge_paper(made: Report, found: Mapping[Workload, tuple[Courses, float]]) -> None:
    first = WORKLOADS[0]
    runs, _ = found[first]
    most = max(n for _, n in runs)
    aborted = lines(runs, lambda r: r.aborted)
    made.add(Bar(f"LWS aborts, n = {most}, {first.title}", aborted["LWS"][most], 50.0, ">=", "%"))
    of_ttu = [run for of, _ in found.values() for (name, _), some in of.items() if name == "TTU" for run in some]
    ttu = sum(run.restarts for run in of_ttu)
    made.add(Bar("TTU aborts, all runs together", ttu, 0, "==", ""))
    shares = []
    for workload, (courses_, _) in found.items():
        throughput = lines(courses_, lambda r: r.throughput)
        if not workload.questions:
            shares += [throughput["TTU"][n] / throughput["Serial"][n] for n in throughput["TTU"]]
    made.add(Bar("throughput of TTU against Serial, mean of all n and t", float(np.mean(shares)), 0.96, ">="))
    made.add(Bar("throughput of TTU against Serial, the worst of these", min(shares)))
    stale = lines(runs, lambda r: _mean(r.staleness, 1.0))
    for better, worse, bar in (("TTU", "LWS", 1.0), ("LWS", "Serial", 1.0), ("Serial", "WS", 1.0)):
        share = stale[better][most] / stale[worse][most]
        made.add(Bar(f"staleness of {better} against {worse}, n = {most}, {first.title}", share, bar, "<"))


def judge_engine(made: Report, found: Beside) -> None:
    at_rest = float(np.median(found.batch_with) / np.median(found.batch_without))
    made.add(Bar("a batch with isolation at rest against one without", at_rest, 1.02, "<="))
    rows = []
    for level in LEVELS:
        idle, beside = np.percentile(found.idle[level], [50, 99]), np.percentile(found.beside[level], [50, 99])
        batch = float(np.mean(found.batch_beside[level]) / np.mean(found.batch_alone[level]))
        is_judged = level == LEVELS[0]
        what = f"{level}: p99 of a question beside batches against that of an idle engine"
        made.add(Bar(what, float(beside[1] / idle[1]), 2.0 if is_judged else None, "<" if is_judged else ""))
        what = f"{level}: a batch beside questions against one without"
        made.add(Bar(what, batch, 1.1 if is_judged else None, "<=" if is_judged else ""))
        figures = (*idle, *beside, np.mean(found.batch_alone[level]), np.mean(found.batch_beside[level]))
        rows.append((level, *(f"{1000 * float(seconds):.2f} ms" for seconds in figures)))
    header = ("questions", "idle p50", "idle p99", "beside p50", "beside p99", "batch alone", "batch beside")
    made.grids.append(Grid(header, rows))


def run(console: Console, *, json: Path | None = None, plot: Path | None = None, quick: bool = False) -> Report:
    """Measure everything; `quick` tries it on little and judges nothing."""
    size = QUICK if quick else FULL
    made, machine = Report(judged=not quick), report.machine()
    warn_if_busy(console, machine["load_average"])
    found = {}
    for workload in WORKLOADS:
        console.print(workload.title, highlight=False)
        found[workload] = courses(workload, size)
    judge_paper(made, found)
    drawn = panels(found)
    for title, (series, unit) in drawn.items():
        header = (f"{title} ({unit})", *(f"n = {n}" for n in size.numbers))
        rows = [(name, *(_shown(line.get(n)) for n in size.numbers)) for name, line in series.items()]
        made.grids.append(Grid(header, rows))
    console.print(f"{size.engine.queries} standing queries, asked while they run", highlight=False)
    judge_engine(made, measured(size.engine))
    made.facts = {
        "benchmark": "isolation",
        "machine": machine,
        "versions": report.versions(),
        "size": asdict(size),
        "seconds_of_a_second": {workload.title: second for workload, (_, second) in found.items()},
        "figures_of_the_paper": {title: series for title, (series, _) in drawn.items()},
    }
    made.finish(console, json)

    def draw(path: Path) -> None:
        from benchmarks import isolation_plot

        isolation_plot.draw(path, drawn)

    draw_to(console, plot, draw)
    return made
