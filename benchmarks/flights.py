"""Varied queries over real events: what `python -m benchmarks flights` measures.

Sets of random standing queries (`flights_queries`) over three million flights, against DuckDB, which answers one after
the other from memory. Every answer is compared with DuckDB's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from benchmarks import report
from benchmarks.course import EXTRA, warn_if_busy
from benchmarks.flights_data import COLUMNS, write_flights
from benchmarks.flights_queries import FlightQuery, query_set
from benchmarks.measuring import Stopwatch, Task
from benchmarks.mullion_runs import name_of, quoted
from benchmarks.report import Bar, Report
from mullion.engine import Engine
from mullion.errors import MullionError
from mullion.spark.session import local_session

SEED = 13
THREADS = 2
BARS = {24: 8.0, 96: 15.0, 256: 20.0}
"""How many times faster than DuckDB, by the number of queries."""
LONGEST = 300.0
"""Seconds after which no larger set is tried."""


@dataclass(frozen=True)
class Size:
    rows: int = 3_000_000
    files: int = 12
    sets: tuple[int, ...] = (1, 8, 24, 96, 256)
    duckdb_up_to: int = 24
    """Larger sets are reckoned from the first so many queries."""
    repeat: int = 3


FULL, QUICK = Size(), Size(rows=60_000, files=3, sets=(1, 6), repeat=1)


def run(console: Console, *, json: Path | None = None, plot: Path | None = None, quick: bool = False) -> Report:
    """Measure everything; `quick` tries all paths on little data and judges nothing."""
    if find_spec("duckdb") is None:
        raise MullionError("the flights are measured against DuckDB, which is not installed", hint=EXTRA)
    if plot is not None:
        raise MullionError("there is no picture of the flights yet", hint="leave --plot out")
    size, made, machine = QUICK if quick else FULL, Report(judged=not quick), report.machine()
    warn_if_busy(console, machine["load_average"])
    session = local_session(app_name="mullion-bench")
    watch = Stopwatch(console, size.repeat)
    with tempfile.TemporaryDirectory(prefix="mullion-bench-", ignore_cleanup_errors=True) as folder:
        write_flights(Path(folder), files=size.files, rows=size.rows)
        console.print(f"{size.rows:,} flights, the best of {size.repeat} runs after one", highlight=False)
        _measure(size, session, Path(folder), watch, made)
    made.timings = watch.timings
    versions = report.versions(session)
    made.facts = {"benchmark": "flights", "machine": machine, "versions": versions, "size": asdict(size)}
    console.print()
    made.show(console)
    if json is not None:
        made.write(json)
        console.print(f"Figures: {json}", highlight=False)
    return made


def _measure(size: Size, session: Any, folder: Path, watch: Stopwatch, made: Report) -> None:
    queries = query_set(max(size.sets), seed=SEED)
    duckdb = _duckdb(folder)
    times = {}
    for number in size.sets:
        asked = queries[:number]
        known = asked[: size.duckdb_up_to]
        (timing,) = watch.measure([_mullion_task(session, folder, asked)])
        one_by_one = Task(f"DuckDB, {_queries(len(known))}", partial(_one_by_one, duckdb), partial(list, known))
        (baseline,) = watch.measure([one_by_one])
        with timing.result as engine:
            for i, (query, right) in enumerate(zip(known, baseline.result, strict=True)):
                check(query, engine.results(name_of(i)).to_arrow(), right)
        times[number] = timing.best
        what = f"{_queries(number)} against DuckDB, one after the other"
        faster = baseline.best * number / len(known) / timing.best
        made.add(Bar(what, faster, BARS.get(number), ">=" if number in BARS else ""))
        if timing.best > LONGEST:
            larger = [str(n) for n in size.sets if n > number]
            if larger:
                made.left_out.append(f"{' and '.join(larger)} queries, since {number} took {timing.best:.0f} s")
            break
    if max(times) == 256:
        made.add(Bar("256 queries against 1", times[256] / times[1], 12.0, "<="))


def _queries(number: int) -> str:
    return "1 query" if number == 1 else f"{number} queries"


def _mullion_task(session: Any, folder: Path, queries: Sequence[FlightQuery]) -> Task:
    held: list[Engine] = []

    def prepare() -> Engine:
        for engine in held:
            engine.close()
        engine = Engine(spark=session, keep_answers=None)
        held[:] = [engine]
        engine.execute(f"CREATE STREAM flights {COLUMNS} USING parquet OPTIONS (path {quoted(folder)}) TIMESTAMP BY ts")
        for i, query in enumerate(queries):
            engine.query(query.mullion(), name=name_of(i))
        return engine

    def work(engine: Engine) -> Engine:
        engine.run()
        return engine

    return Task(f"Mullion, {_queries(len(queries))}", work, prepare)


def _duckdb(folder: Path) -> Any:
    connection = import_module("duckdb").connect(config={"threads": THREADS})
    columns = "epoch_us(ts) AS us, delay, distance, origin, destination"
    connection.execute(f"CREATE TABLE flights AS SELECT {columns} FROM '{folder}/*.parquet'")
    return connection


def _one_by_one(connection: Any, queries: Sequence[FlightQuery]) -> list[pa.Table]:
    return [connection.sql(query.duckdb()).to_arrow_table() for query in queries]


def check(query: FlightQuery, ours: pa.Table, theirs: pa.Table) -> None:
    """Raise where answers differ. DuckDB has no row of a window without a selected flight."""
    ours = ours.set_column(1, "window_end", ours["window_end"].cast(pa.int64()))
    if not query.keys:
        ours = ours.filter(
            pc.is_valid(ours["a0"])
            if query.aggregates[0].kind not in ("count", "distinct")
            else pc.greater(ours["a0"], 0)
        )
    order = [(name, "ascending") for name in ("window_end", *query.keys)]
    ours, theirs = ours.sort_by(order), theirs.sort_by(order)
    if len(ours) != len(theirs):
        raise MullionError(f"{len(ours)} rows instead of {len(theirs)} of {query.mullion()}")
    for name in ("window_end", *query.names):
        left, right = (table[name].combine_chunks() for table in (ours, theirs))
        if name.startswith("a") and name[1:].isdigit():
            same = np.allclose(left.cast(pa.float64()), right.cast(pa.float64()), rtol=1e-9, atol=1e-9)
        else:
            same = left.cast(right.type).equals(right)
        if not same:
            raise MullionError(f"other values of {name} than DuckDB's of {query.mullion()}")


__all__ = ["check", "run"]
