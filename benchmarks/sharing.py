"""Many windows and predicates against one: what `python -m benchmarks sharing` measures.

The workloads are those of krishnamurthy 2006, section 6. Every time comes from one run on one machine, and every path's
answers are compared with an oracle's. T1, the unit of most bars, is one plain Spark tumbling sum over the same files.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from rich.console import Console

from benchmarks import (
    duckdb_baselines,
    flink_baselines,
    mullion_runs,
    paper,
    plot,
    polars_baselines,
    report,
    spark_baselines,
)
from benchmarks.course import EXTRA, conduct, draw_to
from benchmarks.lab import T1
from benchmarks.measuring import Task, Timing
from benchmarks.questions import (
    C_LOW,
    C_REGULAR,
    WORKLOADS,
    A,
    B,
    Question,
    Workload,
    signature_cardinality,
)
from benchmarks.report import Bar, Grid, Report
from benchmarks.sharing_lab import FULL, GROUP, QUICK, SharingLab
from benchmarks.workloads import write_trades
from mullion.engine import Engine
from mullion.errors import MullionError
from mullion.runtime.counts import StreamCounts

FILES = "Mullion"
ROWS = "Mullion, rows through Spark"
OFF = "Mullion, sharing off"
JOBS = "Spark, a job a query"
POLARS = "polars, one by one"
TOGETHER = "polars, all at once"
DUCKDB = "DuckDB, one by one"

LINES = (FILES, ROWS, OFF, POLARS, JOBS)
"""What the picture shows beside T1."""

BY_SYMBOL = "Spark, 1 tumbling sum by symbol"
EMPTY_TRIGGERS = "Spark, empty triggers"

PREDICATED = (B, C_REGULAR, C_LOW)
GAIN = {"B": 20, "C regular": 15, "C low": 10}
"""Over no sharing."""
KEPT = {"A": 0.9, "B": 0.7, "C low": 0.6}
"""Of the throughput of one query."""
OVER_POLARS = {"B": 3.0, "C low": 3.0}
"""How many times faster than the better of its two ways."""
MEMORY = 4.0
"""Gigabytes that the driver may take for the largest query set."""


def run(
    console: Console,
    *,
    json: Path | None = None,
    plot: Path | None = None,
    quick: bool = False,
    flink: Path | None = None,
) -> Report:
    """Measure everything; `quick` tries all paths on little data and judges nothing."""
    parts = (
        very_many,
        in_one_pass,
        growth,
        unshared,
        spark_jobs,
        conditional_sums,
        polars,
        duckdb,
        flink_sql,
        grouped,
        micro_batches,
        operations,
    )
    make_lab = partial(SharingLab, flink=flink)
    lab = conduct(console, "sharing", make_lab, QUICK if quick else FULL, parts, judged=not quick, json=json)
    draw_to(console, plot, partial(_draw, lab))
    return lab.report


def very_many(lab: SharingLab) -> None:
    """First, because what the process takes at most is asked of the system, which never forgets."""
    size = lab.size
    alone = replace(_shared(lab, A, 1), name=f"{_named(FILES, A, 1)}, beside {A.called(size.many)}")
    tasks = [alone, _shared(lab, A, size.many)]
    one, many = lab.watch.measure(tasks, warm=min(3, size.warm))
    lab.check_engine(many.name, many.result, lab.questions(A, size.many))
    lab.series[FILES][A.name][size.many] = many.best
    lab.report.add(
        Bar(f"{A.called(size.many)} against {A.called(1)}: events a second", one.best / many.best, 0.5, ">="),
        Bar(f"{A.called(size.many)}: memory of the driver's Python", peak_gigabytes(), MEMORY, "<=", "GiB"),
    )


def peak_gigabytes() -> float:
    """What this process has taken at most so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) / (1 << 30 if sys.platform == "darwin" else 1 << 20)


def in_one_pass(lab: SharingLab) -> None:
    """T1 and the shared passes that are compared with it or with one another: in turn."""
    size = lab.size
    sets = [(workload, n) for workload in WORKLOADS for n in (1, size.queries, size.large)]
    files = [_shared(lab, workload, n) for workload, n in sets]
    rows = [_shared(lab, workload, size.queries, ROWS) for workload in WORKLOADS]
    tasks = [Task(T1, lambda _: spark_baselines.tumbling(lab.session)), *files, *rows]
    t1, *found = lab.watch.measure(tasks, warm=size.warm)
    lab.check_t1(t1)
    for (workload, n), timing in zip(sets, found, strict=False):
        _keep(lab, FILES, workload, n, timing)
    for workload, timing in zip(WORKLOADS, found[len(sets) :], strict=True):
        _keep(lab, ROWS, workload, size.queries, timing)
    for workload in PREDICATED:
        called = workload.called(size.queries)
        through, direct = (lab.series[path][workload.name][size.queries] for path in (ROWS, FILES))
        lab.report.add(
            Bar(f"{called}, rows through Spark, against T1", through / t1.best, 2.5, "<="),
            Bar(f"{called} against T1", direct / t1.best, 1.3, "<="),
        )
    for workload in (A, B, C_LOW):
        line = lab.series[FILES][workload.name]
        what = f"{workload.called(size.large)} against {workload.called(1)}: events a second"
        lab.report.add(Bar(what, line[1] / line[size.large], KEPT[workload.name], ">="))


def growth(lab: SharingLab) -> None:
    """The shared passes of the other sizes, for the picture."""
    for workload in WORKLOADS:
        for path in (FILES, ROWS):
            missing = [n for n in lab.numbers(workload) if n not in lab.series[path][workload.name]]
            found = lab.watch.measure([_shared(lab, workload, n, path) for n in missing])
            for n, timing in zip(missing, found, strict=True):
                _keep(lab, path, workload, n, timing)


def unshared(lab: SharingLab) -> None:
    """The same queries, each for itself, in the same engine: some are timed, and stand for all."""
    size = lab.size

    def task(name: str, asked: Sequence[Question]) -> Task:
        whole = lab.engine_task(name, asked, sharing="off")
        return Task(name, whole.run, whole.prepare, lab.engine_task(name, asked[:2], sharing="off").warm_up)

    def verify(timing: Timing, asked: Sequence[Question]) -> None:
        lab.check_engine(timing.name, timing.result, asked)
        lab.count(timing.name, timing)

    for workload in WORKLOADS:
        for n in lab.numbers(workload):
            lab.sample(OFF, workload, n, size.unshared, task, verify)
    for workload in PREDICATED:
        seconds, note = lab.series[OFF][workload.name][size.queries], f"the paper: {paper.FASTER[workload.name]:.1f} x"
        _faster(lab, workload, "no sharing", seconds, GAIN[workload.name], note)


def spark_jobs(lab: SharingLab) -> None:
    """One Spark job for each query: some are timed, and stand for all."""
    size = lab.size

    def task(name: str, asked: Sequence[Question]) -> Task:
        warm = partial(spark_baselines.jobs, lab.session, asked[:2])
        return Task(name, lambda _: spark_baselines.jobs(lab.session, asked), warm=warm)

    def verify(timing: Timing, asked: Sequence[Question]) -> None:
        lab.check_some(timing.name, asked, timing.result)

    for workload in WORKLOADS:
        for n in lab.numbers(workload):
            lab.sample(JOBS, workload, n, size.jobs, task, verify)
    for workload in PREDICATED:
        seconds = lab.series[JOBS][workload.name][size.queries]
        _faster(lab, workload, f"{size.queries} Spark jobs", seconds, 100)


def conditional_sums(lab: SharingLab) -> None:
    """What an expert writes for workload B: one Spark job with a sum for each query."""
    asked = lab.questions(B, lab.size.queries)
    name = f"Spark, 1 job with {len(asked)} conditional sums"
    (job,) = lab.watch.measure([Task(name, lambda _: spark_baselines.conditional_sums(lab.session, asked))], warm=2)
    lab.check_some(name, asked, job.result)
    _faster(lab, B, f"one Spark job with {len(asked)} conditional sums", job.best, 6)


def polars(lab: SharingLab) -> None:
    """Polars with the data in memory after one read and join, which is counted as Mullion's own is."""
    size = lab.size
    if not polars_baselines.is_installed():
        lab.report.left_out.append(f"polars, which is not installed: {EXTRA}")
        return
    places = (lab.files, lab.close, lab.index)
    (join,) = lab.watch.measure([Task("polars, reading and joining once", lambda _: polars_baselines.join(*places))])
    ways = {POLARS: polars_baselines.one_by_one, TOGETHER: polars_baselines.all_at_once}

    def verify(timing: Timing, asked: Sequence[Question]) -> None:
        lab.check_some(timing.name, asked, polars_baselines.answers(timing.result), part=True)

    for workload in WORKLOADS:
        for path, way in ways.items():
            for n in lab.numbers(workload) if path == POLARS else (size.queries,):
                lab.sample(path, workload, n, size.polars, _asking(partial(way, join.result)), verify)
                lab.series[path][workload.name][n] += join.best
    for workload in PREDICATED:
        seconds = {path: lab.series[path][workload.name][size.queries] for path in ways}
        _faster(lab, workload, POLARS, seconds[POLARS], 6)
        _faster(lab, workload, "polars, the better of two ways", min(seconds.values()), OVER_POLARS.get(workload.name))


def duckdb(lab: SharingLab) -> None:
    """DuckDB with the data in memory after one read and join; some queries are timed, and stand for all."""
    size = lab.size
    if not duckdb_baselines.is_installed():
        lab.report.left_out.append(f"DuckDB, which is not installed: {EXTRA}")
        return
    places = (lab.files, lab.close, lab.index)
    (join,) = lab.watch.measure([Task("DuckDB, reading and joining once", lambda _: duckdb_baselines.join(*places))])

    def verify(timing: Timing, asked: Sequence[Question]) -> None:
        lab.check_some(timing.name, asked, timing.result)

    for workload in PREDICATED:
        ask = _asking(partial(duckdb_baselines.one_by_one, join.result))
        seconds = join.best + lab.sample(DUCKDB, workload, size.queries, size.duckdb, ask, verify)
        lab.series[DUCKDB][workload.name][size.queries] = seconds
        _faster(lab, workload, DUCKDB, seconds)


def flink_sql(lab: SharingLab) -> None:
    """Flink in batch mode, queries of workload B in one statement set, in a process of its own."""
    if lab.flink is None:
        lab.report.left_out.append("Flink, for which --flink names a Python that has apache-flink")
        return
    asked = lab.questions(B, lab.size.flink)
    name = f"Flink, {len(asked)} statements in a set"
    try:
        found = flink_baselines.statement_set(lab.flink, lab.folder / "flink", lab.market, asked)
    except MullionError as error:
        lab.report.left_out.append(f"Flink: {error}")
        return
    lab.watch.add(Timing(name, [found.seconds]))
    lab.check_some(name, asked, found.answers)
    _faster(lab, B, name, found.seconds, n=len(asked))


def grouped(lab: SharingLab) -> None:
    """A total for each symbol, of many windows and predicates, against one plain Spark sum for each symbol."""
    asked = lab.questions(C_LOW, lab.size.grouped)
    what = f"{C_LOW.called(len(asked))} by {GROUP}"
    tasks = [
        Task(BY_SYMBOL, lambda _: spark_baselines.tumbling_by_symbol(lab.session)),
        lab.engine_task(f"{FILES}, {what}", asked, group=GROUP),
    ]
    spark, ours = lab.watch.measure(tasks, warm=min(3, lab.size.warm))
    lab.check_t1(spark)
    lab.check_grouped(ours.name, ours.result, asked)
    lab.count(what, ours)
    lab.report.add(Bar(f"{what} against one Spark sum by {GROUP}", ours.best / spark.best, 6, "<="))


def micro_batches(lab: SharingLab) -> None:
    """From batch to batch, Spark's own work included, against a foreachBatch that does nothing."""
    size, asked = lab.size, lab.questions(C_LOW, lab.size.queries)
    files = write_trades(lab.folder / "stream", files=max(3, size.events // size.batch), table=lab.trades)
    few = write_trades(lab.folder / "warm", files=3, table=lab.trades.slice(0, 3 * size.batch))
    texts = [question.text() for question in asked]
    stamps: list[float] = []

    def stamp(_: Engine) -> None:
        stamps.append(time.perf_counter())

    def engine(directory: Path) -> Engine:
        stamps.clear()
        make = mullion_runs.over_files
        return make(lab.session, directory, texts, tables=lab.tables(), on_batch=stamp)

    def nothing(directory: Path) -> list[float]:
        return spark_baselines.empty_triggers(lab.session, directory)

    streamed = f"{FILES}, streaming, {C_LOW.called(size.queries)}"
    tasks = [
        Task(EMPTY_TRIGGERS, lambda _: nothing(files), warm=lambda: nothing(few)),
        Task(streamed, mullion_runs.run, lambda: engine(files), lambda: mullion_runs.run(engine(few))),
    ]
    empty, ours = lab.watch.measure(tasks, warm=2)
    lab.check_engine(ours.name, ours.result, asked)
    lab.count(streamed, ours)
    batch, trigger = _between(stamps[: lab.counts[streamed].batches]), _between(empty.result)
    lab.report.add(
        Bar(f"a micro-batch with {C_LOW.called(size.queries)} against an empty one", batch / trigger, 2, "<"),
        Bar(f"a micro-batch with {C_LOW.called(size.queries)}, median", batch, unit="s"),
        Bar("an empty micro-batch, median", trigger, unit="s"),
    )


def _between(stamps: Sequence[float]) -> float:
    """The median time from one batch to the next."""
    return statistics.median(b - a for a, b in pairwise(stamps))


def operations(lab: SharingLab) -> None:
    """What was counted beside what the paper counted."""
    n = lab.size.queries
    cardinality = signature_cardinality(lab.questions(B, n), lab.market)
    fragments = lab.counts[_named(ROWS, B, n)].fragments
    lab.report.add(
        Bar(f"{B.called(n)}: queries that count an average event", cardinality, unit="", note=_told(paper.SIGNATURE)),
        Bar(f"{B.called(n)}: fragments", fragments, unit="", note=_told(paper.FRAGMENTS)),
    )
    header = ("operations", "partial", "the paper", "final", "the paper", "fragments", "slices in windows")
    rows = [
        _operations(_named(path, workload, n), lab.counts[_named(path, workload, n)], paper.SHARED[workload.name])
        for workload in WORKLOADS
        for path in (FILES, ROWS)
    ]
    first = min(n, lab.size.unshared)
    for workload in WORKLOADS:
        counts = lab.counts[lab.sampled(OFF, workload, n, first).name]
        name = f"{_named(OFF, workload, n)} (from {first})"
        rows.append(_operations(name, counts, paper.UNSHARED[workload.name], n // first))
    lab.report.grids.append(Grid(header, rows))


def _operations(name: str, counts: StreamCounts, right: paper.Operations, times: int = 1) -> tuple[str, ...]:
    partial, final = counts.partial_operations * times, counts.final_operations * times
    numbers = (partial, right.partial, final, right.final, counts.fragments, counts.window_slices * times)
    return (name, *(f"{number:,}" for number in numbers))


def _told(number: int) -> str:
    return f"the paper: {number:,}"


# Names and figures


def _shared(lab: SharingLab, workload: Workload, n: int, path: str = FILES) -> Task:
    options = {"way": "kernel"} if path == ROWS else {}
    return lab.engine_task(_named(path, workload, n), lab.questions(workload, n), **options)


def _named(path: str, workload: Workload, n: int) -> str:
    return f"{path}, {workload.called(n)}"


def _keep(lab: SharingLab, path: str, workload: Workload, n: int, timing: Timing) -> None:
    lab.check_engine(timing.name, timing.result, lab.questions(workload, n))
    lab.count(timing.name, timing)
    lab.series[path][workload.name][n] = timing.best
    timing.result = None


def _asking(ask: Callable[[Sequence[Question]], object]) -> Callable[[str, Sequence[Question]], Task]:
    return lambda name, asked: Task(name, lambda _: ask(asked))


def _faster(
    lab: SharingLab,
    workload: Workload,
    other: str,
    seconds: float,
    bar: float | None = None,
    note: str = "",
    n: int | None = None,
) -> None:
    n = n or lab.size.queries
    what = f"{workload.called(n)} against {other}: faster by"
    ratio = seconds / lab.series[FILES][workload.name][n]
    lab.report.add(Bar(what, ratio, bar, "" if bar is None else ">=", note=note))


def _draw(lab: SharingLab, path: Path) -> None:
    panels = {
        workload.title: {line: lab.series[line][workload.name] for line in LINES if lab.series[line][workload.name]}
        for workload in WORKLOADS
    }
    title = f"Queries over {lab.size.events:,} events on {report.cores()} cores"
    plot.draw_growth(path, panels, title, reference=lab.watch[T1].best)
