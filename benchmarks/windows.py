"""Many windows against one: what `python -m benchmarks windows` measures.

Every time comes from one run on one machine, and every path's answers are compared with an oracle's. T1, the unit of
most bars, is one plain Spark tumbling sum over the same files.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks import mullion_runs, plot, polars_baselines, report, spark_baselines
from benchmarks.answers import check
from benchmarks.course import EXTRA, conduct, draw_to
from benchmarks.lab import T1
from benchmarks.measuring import Task, Timing
from benchmarks.report import Bar, Report
from benchmarks.windows_lab import FULL, QUICK, SEED, WindowsLab, WindowsSize
from benchmarks.workloads import (
    Window,
    sum_query,
    workload_a,
    workload_a_microseconds,
    write_trades,
)
from mullion.surface.trades import SECOND

WIDE: Window = (3600 * SECOND, 10 * SECOND)
STREAMED: Window = (720 * SECOND, 300 * SECOND)
SLICINGS = ("paired", "paned")
PAPER_FINAL = {
    "shared": 1_462_391,
    "unshared": 6_813,
    "shared, paired by the kernel": 1_462_391,
    "shared, paned by the kernel": 2_340_842,
}
"""Final operations of 256 queries (krishnamurthy 6.2), which adds up the slices of every window anew."""


ONE = "Mullion, 1 query"
WIDE_MULLION = "Mullion, 60 min every 10 s"
WIDE_SPARK = "Spark, 60 min every 10 s"
STREAM_SPARK = "Spark, streaming, 1 query"
PANES = "Spark, panes made by hand"


def run(console: Console, *, json: Path | None = None, plot: Path | None = None, quick: bool = False) -> Report:
    """Measure everything; `quick` tries all paths on little data and judges nothing."""
    size = QUICK if quick else FULL
    parts = (in_one_pass, spark_jobs, polars, unshared, slicings, wide_window, streaming)
    lab = conduct(console, "windows", WindowsLab, size, parts, judged=not quick, json=json)
    draw_to(console, plot, partial(_draw, lab.report, size))
    return lab.report


def in_one_pass(lab: WindowsLab) -> None:
    """T1, Mullion's shared passes and panes made by hand: all below a second, hence in turn."""
    size, windows = lab.size, lab.windows
    fine = workload_a_microseconds(size.queries, seed=SEED)
    many = workload_a(size.many, seed=SEED)
    tasks = [
        Task(T1, lambda _: spark_baselines.tumbling(lab.session)),
        lab.engine_task(ONE, windows[:1]),
        lab.engine_task(_queries(size.queries), windows),
        lab.engine_task(_queries(size.many), many),
        lab.engine_task(_fine(size), fine),
        lab.engine_task(WIDE_MULLION, [WIDE]),
        Task(PANES, lambda _: spark_baselines.panes(lab.session, windows)),
    ]
    t1, one, shared, thousand, microseconds, wide, panes = lab.watch.measure(tasks, warm=size.warm)
    lab.check_t1(t1)
    lab.check_engine(one.name, one.result, windows[:1])
    lab.check_engine(shared.name, shared.result, windows)
    lab.check_engine(thousand.name, thousand.result, many, size.checked)
    lab.check_engine(microseconds.name, microseconds.result, fine, size.checked)
    lab.check_engine(wide.name, wide.result, [WIDE])
    lab.check_all(panes.name, panes.result)
    lab.count("shared", shared)
    lab.report.add(
        Bar(f"{size.queries} windows against T1", shared.best / t1.best, 1.2, "<="),
        Bar(f"{size.queries} windows of microseconds against T1", microseconds.best / t1.best, 3.0, "<="),
        Bar("a window of 60 min every 10 s against T1", wide.best / t1.best, 1.2, "<="),
        Bar(f"throughput of {size.many:,} queries against 1", one.best / thousand.best, 0.9, ">="),
        Bar(f"events a second with {size.many:,} queries", size.events / thousand.best, unit="/s"),
        Bar(f"{size.queries} windows against panes made by hand", shared.best / panes.best),
    )


def spark_jobs(lab: WindowsLab) -> None:
    """One Spark job for each query: some are timed, and stand for all."""
    size = lab.size
    few = lab.windows[: size.jobs]
    name = f"Spark, {size.jobs} jobs of {size.queries}"
    warm = partial(spark_baselines.sliding, lab.session, few[:2])
    (jobs,) = lab.watch.measure([Task(name, lambda _: spark_baselines.sliding(lab.session, few), warm=warm)])
    lab.check_all(name, jobs.result)
    lab.watch.timings[_all_jobs(size)] = jobs.times(size.queries / len(few), _all_jobs(size))
    ratio = lab.watch[_all_jobs(size)].best / lab.watch[_queries(size.queries)].best
    lab.report.add(Bar(f"{size.queries} windows against as many Spark jobs: faster by", ratio, 150, ">="))


def polars(lab: WindowsLab) -> None:
    """Polars with the data in memory after one read, which is counted as Mullion's own reading is; and from files."""
    size = lab.size
    if not polars_baselines.is_installed():
        lab.report.left_out.append(f"polars, which is not installed: {EXTRA}")
        return
    frame = polars_baselines.read(lab.files)
    tasks = [
        Task("polars, reading once", lambda _: polars_baselines.read(lab.files)),
        Task("polars, in memory, one by one", lambda _: polars_baselines.one_by_one(frame, lab.questions)),
        Task("polars, in memory, all at once", lambda _: polars_baselines.all_at_once(frame, lab.questions)),
        Task("polars, every query from files", lambda _: polars_baselines.from_files(lab.files, lab.questions)),
    ]
    read, *ways = lab.watch.measure(tasks)
    for timing in ways:
        lab.check_all(timing.name, polars_baselines.answers(timing.result), part=True)
    once, together, files = read.best + ways[0].best, read.best + ways[1].best, ways[2].best
    lab.watch.timings[_polars(size)] = Timing(_polars(size), [once])
    ours = lab.watch[_queries(size.queries)].best
    lab.report.add(
        Bar(f"{size.queries} windows against polars, one read, once for each query: faster by", once / ours, 8, ">="),
        Bar(f"{size.queries} windows against polars, one read, all in one collect: faster by", together / ours),
        Bar(f"{size.queries} windows against polars reading for every query: faster by", files / ours),
    )


def unshared(lab: WindowsLab) -> None:
    """The same queries, each for itself, in the same engine."""
    size = lab.size
    whole = lab.engine_task(_off(size), lab.windows, sharing="off")
    warm = lab.engine_task(_off(size), lab.windows[:2], sharing="off").warm_up
    (off,) = lab.watch.measure([Task(whole.name, whole.run, whole.prepare, warm)])
    lab.check_engine(off.name, off.result, lab.windows)
    lab.count("unshared", off)
    ratio = off.best / lab.watch[_queries(size.queries)].best
    lab.report.add(Bar(f"{size.queries} windows with sharing against without: faster by", ratio, 19, ">="))
    right = {"shared": size.events, "unshared": size.events * size.queries}
    for name, number in right.items():
        lab.report.add(Bar(f"partial operations, {name}", lab.counts[name].partial_operations, number, "==", ""))
    _tell_final(lab, "shared", "unshared")


def slicings(lab: WindowsLab) -> None:
    """Paned against paired slices, by the kernel: the native way sums up steps of the common grid and has no slices."""
    size = lab.size
    tasks = [
        lab.engine_task(_sliced(size, slicing), lab.windows, way="kernel", slicing=slicing) for slicing in SLICINGS
    ]
    paired, paned = found = lab.watch.measure(tasks, warm=min(3, size.warm))
    for slicing, timing in zip(SLICINGS, found, strict=True):
        lab.check_engine(timing.name, timing.result, lab.windows)
        lab.count(f"shared, {slicing} by the kernel", timing)
    note = "the paper: 2.62 x"
    lab.report.add(Bar("paned slices against paired, by the kernel", paned.best / paired.best, note=note))
    _tell_final(lab, *(f"shared, {slicing} by the kernel" for slicing in SLICINGS))


def _tell_final(lab: WindowsLab, *names: str) -> None:
    for name in names:
        lab.report.add(Bar(f"final operations, {name}", lab.counts[name].final_operations, unit=""))
        note = f"the paper: {PAPER_FINAL[name]:,}"
        lab.report.add(
            Bar(f"slices that windows are made of, {name}", lab.counts[name].window_slices, unit="", note=note)
        )


def wide_window(lab: WindowsLab) -> None:
    """Spark copies every event into each of 360 windows; it is measured once."""
    task = Task(WIDE_SPARK, lambda _: spark_baselines.sliding(lab.session, [WIDE]))
    (spark,) = lab.watch.measure([task], warm=0, repeat=1)
    check(WIDE_SPARK, WIDE, spark.result[0], lab.oracle.answer(WIDE))
    ratio = spark.best / lab.watch[WIDE_MULLION].best
    lab.report.add(Bar("a window of 60 min every 10 s against Spark's: faster by", ratio, 100, ">="))


def streaming(lab: WindowsLab) -> None:
    """All queries in Mullion against one streaming query in Spark, a file in every micro-batch."""
    size = lab.size
    files = write_trades(lab.folder / "stream", files=size.stream_files, table=lab.trades)
    few = write_trades(lab.folder / "warm", files=3, table=lab.trades.slice(0, len(lab.trades) // 20))

    def spark_task(directory: Path) -> Task:
        return Task(STREAM_SPARK, lambda _: spark_baselines.streaming(lab.session, directory, STREAMED))

    def mullion_task(directory: Path) -> Task:
        texts = [sum_query(window) for window in lab.windows]
        prepare = partial(mullion_runs.over_files, lab.session, directory, texts)
        return Task(_streamed(size), mullion_runs.run, prepare)

    tasks = [replace(task(files), warm=task(few).warm_up) for task in (spark_task, mullion_task)]
    spark, ours = lab.watch.measure(tasks, warm=2)
    check(STREAM_SPARK, STREAMED, spark.result, lab.oracle.answer(STREAMED), part=True)
    lab.check_engine(ours.name, ours.result, lab.windows)
    lab.count("streaming", ours)
    batches = lab.counts["streaming"].batches
    lab.report.add(
        Bar("micro-batches of the stream", batches, size.stream_files, "==", ""),
        Bar(f"streaming {size.queries} queries against 1 of Spark's", ours.best / spark.best, 1.2, "<="),
    )


def _draw(made: Report, size: WindowsSize, path: Path) -> None:
    title = f"{size.queries} sliding windows over {size.events:,} events on {report.cores()} cores"
    plot.draw(path, picture_rows(made, size), title, reference=made.timings[T1].best)


def picture_rows(made: Report, size: WindowsSize) -> list[tuple[str, float]]:
    """What the picture shows, from the top."""
    names = [
        T1,
        ONE,
        _queries(size.queries),
        _queries(size.many),
        _fine(size),
        WIDE_MULLION,
        PANES,
        _polars(size),
        _off(size),
        WIDE_SPARK,
        _all_jobs(size),
        _streamed(size),
        STREAM_SPARK,
    ]
    return [(name, made.timings[name].best) for name in names if name in made.timings]


def _queries(number: int) -> str:
    return f"Mullion, {number:,} queries"


def _fine(size: WindowsSize) -> str:
    return f"Mullion, {size.queries} queries, microsecond windows"


def _sliced(size: WindowsSize, slicing: str) -> str:
    return f"Mullion, {size.queries} queries, kernel, {slicing} slices"


def _off(size: WindowsSize) -> str:
    return f"Mullion, {size.queries} queries, sharing off"


def _polars(size: WindowsSize) -> str:
    return f"polars, {size.queries} queries, one read"


def _all_jobs(size: WindowsSize) -> str:
    return f"Spark, {size.queries} jobs (from {size.jobs})"


def _streamed(size: WindowsSize) -> str:
    return f"Mullion, streaming, {size.queries} queries"
