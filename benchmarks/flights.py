"""Varied queries over real events: what `python -m benchmarks flights` measures.

Sets of random standing queries (`flights_queries`) over three million flights in Parquet files, against DuckDB, polars
and Spark over the same files. All answers are compared with DuckDB's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import flights_polars, report
from benchmarks.course import EXTRA, draw_to, warn_if_busy
from benchmarks.flights_duckdb import THREADS, DuckDB
from benchmarks.flights_lab import FULL, QUICK, SLIDING, TUMBLING, FlightsLab, counted
from benchmarks.flights_limits import backlog, long_windows, memory, predicates
from benchmarks.flights_peers import (
    check,
    compare,
    from_mullion,
    in_spark,
    read_in_spark,
)
from benchmarks.flights_queries import FlightQuery
from benchmarks.measuring import Stopwatch, Task
from benchmarks.mullion_runs import name_of
from benchmarks.plot import draw_sets
from benchmarks.report import Bar, Report
from mullion.errors import MullionError
from mullion.spark.session import local_session

AGAINST_DUCKDB = {24: 8.0, 96: 15.0, 256: 20.0}
AGAINST_POLARS = {24: 4.0, 96: 8.0}
"""How many times faster, by the number of queries."""
LONGEST = 300.0
"""Seconds after which no larger set is tried."""
IN_SPARK = 8
"""The largest set that plain Spark is asked."""
MULLION, DUCKDB, POLARS, SPARK = "Mullion", "DuckDB, one after the other", "polars, the better way", "Spark"


def run(console: Console, *, json: Path | None = None, plot: Path | None = None, quick: bool = False) -> Report:
    """Measure everything; `quick` tries all paths on little data and judges nothing."""
    if find_spec("duckdb") is None:
        raise MullionError("the flights are measured against DuckDB, which is not installed", hint=EXTRA)
    size, made, machine = QUICK if quick else FULL, Report(judged=not quick), report.machine()
    warn_if_busy(console, machine["load_average"])
    session = local_session(app_name="mullion-bench")
    watch = Stopwatch(console, size.repeat)
    with tempfile.TemporaryDirectory(prefix="mullion-bench-", ignore_cleanup_errors=True) as folder:
        lab = FlightsLab(size, session, Path(folder), watch, made)
        console.print(f"{size.rows:,} flights, the best of {size.repeat} runs after one", highlight=False)
        for part in (sets, polars, spark, long_windows, predicates, memory, backlog):
            part(lab)
            lab.close()
    made.timings = watch.timings
    made.facts = {
        "benchmark": "flights",
        "machine": machine,
        "versions": report.versions(session),
        "size": asdict(size),
        "by_queries": lab.times,
    }
    made.finish(console, json)
    draw_to(console, plot, partial(_draw, lab))
    return made


def sets(lab: FlightsLab) -> None:
    """Sets of growing size against DuckDB. Larger sets than it is asked are reckoned from its time of the first."""
    with DuckDB(lab.files) as files:
        _sets(lab, files)
    _from_memory(lab)
    _growth(lab)


def _sets(lab: FlightsLab, files: DuckDB) -> None:
    size = lab.size
    for number in size.sets:
        asked, known = lab.queries[:number], lab.queries[: min(number, size.timed)]
        tasks = [lab.mullion_task(asked)]
        if number <= size.timed:
            tasks.append(Task(f"DuckDB, {counted(number)}", files.one_by_one, partial(list, known)))
        ours, *theirs = lab.watch.measure(tasks)
        for timing in theirs:
            lab.right = timing.result
            lab.took(DUCKDB, number, timing.best)
        for i, (query, right) in enumerate(zip(known, lab.right, strict=True)):
            check(query, ours.result.results(name_of(i)).to_arrow(), right)
        once = 0.0
        for i in range(len(known), number):
            found = files.one_by_one(asked[i : i + 1])
            once += found.seconds
            (right,) = found.result
            check(asked[i], ours.result.results(name_of(i)).to_arrow(), right)
        lab.took(MULLION, number, ours.best)
        scaled = lab.times[DUCKDB][len(known)] * number / len(known)
        lab.took(DUCKDB, number, scaled)
        bar = AGAINST_DUCKDB.get(number)
        what = f"{counted(number)} against DuckDB, one after the other: faster by"
        lab.report.add(Bar(what, scaled / ours.best, bar, ">=" if bar else ""))
        if once:
            all_asked = lab.times[DUCKDB][len(known)] + once
            what = f"{counted(number)} against DuckDB, all asked, those after the first {len(known)} once: faster by"
            lab.report.add(Bar(what, all_asked / ours.best))
        if ours.best > LONGEST:
            larger = [str(n) for n in size.sets if n > number]
            if larger:
                lab.report.left_out.append(f"{' and '.join(larger)} queries, since {number} took {ours.best:.0f} s")
            break


def _from_memory(lab: FlightsLab) -> None:
    """DuckDB with the table read before, told beside the bars."""
    known = lab.queries[: lab.size.timed]
    with DuckDB(lab.files, in_memory=True) as table:
        task = Task(f"DuckDB, {counted(len(known))}, in memory", table.one_by_one, partial(list, known))
        (timing,) = lab.watch.measure([task])
    ours = lab.times[MULLION].get(len(known))
    if ours is not None:
        what = f"{counted(len(known))} against DuckDB with the table in memory: faster by"
        lab.report.add(Bar(what, timing.best / ours))


def _growth(lab: FlightsLab) -> None:
    times, most = lab.times[MULLION], max(lab.size.sets)
    if {1, most} <= times.keys():
        lab.report.add(Bar(f"{counted(most)} against 1", times[most] / times[1], 12.0, "<="))


def polars(lab: FlightsLab) -> None:
    """Polars one by one and all at once, each query in the shape that suits it; the better counts."""
    if not flights_polars.is_installed():
        lab.report.left_out.append(f"polars, which is not installed: {EXTRA}")
        return
    flights = flights_polars.scan(lab.files)
    numbers = [n for n in lab.size.sets if n <= lab.size.polars]
    queries = lab.queries[: max(numbers)]
    shapes = flights_polars.best_shapes(flights, queries, lab.right)
    for number in numbers:
        asked, own = queries[:number], shapes[:number]
        ways = {"one by one": flights_polars.one_by_one, "all at once": flights_polars.all_at_once}
        tasks = [
            Task(f"polars, {counted(number)}, {name}", _asked(partial(way, flights, asked, own)))
            for name, way in ways.items()
        ]
        best = min(timing.best for timing in lab.watch.measure(tasks, warm=0))
        lab.took(POLARS, number, best)
        ours, bar = lab.times[MULLION].get(number), AGAINST_POLARS.get(number)
        if ours is not None:
            what = f"{counted(number)} against polars, one by one or all at once: faster by"
            lab.report.add(Bar(what, best / ours, bar, ">=" if bar else ""))


def spark(lab: FlightsLab) -> None:
    """One query against the same query in plain Spark, tumbling and sliding; and some of the sets, for the picture."""
    read_in_spark(lab.session, lab.files)
    for query, name, bar in ((TUMBLING, "tumbling", 1.0), (SLIDING, "sliding", 5.0)):
        tasks = [
            lab.mullion_task([query], f"Mullion, {name}"),
            Task(f"Spark, {name}", _asked(partial(in_spark, lab.session, query))),
        ]
        ours, theirs = lab.watch.measure(tasks)
        answers = from_mullion(query, ours.result.results(name_of(0)).to_arrow())
        compare("Spark's", query, answers, theirs.result)
        what = f"1 query, {name}, against Spark's window(): faster by"
        lab.report.add(Bar(what, theirs.best / ours.best, bar, ">="))
    # Spark has no windows that are shorter than their slide.
    possible = [query for query in lab.queries if query.range >= query.slide]
    for number in [n for n in lab.size.sets if n <= IN_SPARK]:
        asked = possible[:number]
        task = Task(f"Spark, {counted(number)}", _asked(partial(_in_spark, lab.session, asked)))
        (timing,) = lab.watch.measure([task], warm=0)
        lab.took(SPARK, number, timing.best * number / len(asked))


def _in_spark(session: Any, queries: Sequence[FlightQuery]) -> None:
    for query in queries:
        in_spark(session, query)


def _asked(question: Callable[[], Any]) -> Callable[[Any], Any]:
    """As a task that needs nothing prepared."""
    return lambda _: question()


def _draw(lab: FlightsLab, path: Path) -> None:
    measured = {DUCKDB: lab.size.timed}
    title = f"Varied queries over {lab.size.rows:,} flights, {THREADS} cores"
    draw_sets(path, lab.times, title, measured_up_to=measured)
