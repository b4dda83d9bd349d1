"""What varied queries may cost at most: memory, a backlog, long windows with many groups, thousands of predicates."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.flights_data import write_flights
from benchmarks.flights_duckdb import DuckDB
from benchmarks.flights_lab import SEED, FlightsLab, counted, stream_text
from benchmarks.flights_peers import check
from benchmarks.flights_queries import MINUTE, Aggregate, FlightQuery
from benchmarks.measuring import Task, Timing
from benchmarks.mullion_runs import name_of, quoted
from benchmarks.process_memory import Finished, run_watched
from benchmarks.report import Bar
from mullion.engine import Engine
from mullion.errors import MullionError

MOST_MEMORY = 6.0
"""GiB of all processes together."""
GIB = 1 << 30
DAY = 1440 * MINUTE
BEGINNING = 978_307_200_000_000
"""2001-01-01."""
ANSWERS = "answers"
"""The folder of answers in that of a run from the shell."""
RANGES = (60, 3600)
"""Seconds of the windows of which each batch makes one due."""


def memory(lab: FlightsLab) -> None:
    """The largest set with default settings and answers in Parquet files, as `mullion run` has it."""
    number = max(lab.size.sets)
    finished = _from_the_shell(lab, "memory", lab.files, lab.queries[:number])
    lab.watch.add(Timing(f"mullion run, {counted(number)}, to Parquet files", [finished.seconds]))
    lab.report.add(_peak(f"peak memory of mullion run with {counted(number)}", finished))


def backlog(lab: FlightsLab) -> None:
    """Many times as many events that lie there at the start: they take as many times longer, and no more memory."""
    size, asked = lab.size, lab.queries[: lab.size.timed]
    files = lab.folder / "backlog"
    write_flights(files, files=size.files, rows=size.rows, times=size.backlog)
    told = f"{size.rows * size.backlog:,} events"
    finished = _from_the_shell(lab, "long", files, asked)
    lab.report.add(_peak(f"peak memory with a backlog of {told}", finished))
    with DuckDB(files) as duckdb:
        found = duckdb.one_by_one(asked[: size.compared]).result
    for i, right in enumerate(found):
        check(asked[i], pq.read_table(lab.folder / "long" / ANSWERS / name_of(i)), right)
    once, long = lab.watch.measure(
        [
            _to_files(lab, f"Mullion, {counted(len(asked))} to Parquet files, {size.rows:,} events", lab.files, asked),
            _to_files(lab, f"Mullion, {counted(len(asked))} to Parquet files, {told}", files, asked),
        ],
        repeat=1,
    )
    lab.report.add(Bar(f"a backlog of {told} against {size.rows:,}", long.best / once.best, 1.1 * size.backlog, "<="))


def _to_files(lab: FlightsLab, name: str, files: Path, queries: Sequence[FlightQuery]) -> Task:
    """A run in this process, warm, whose answers go to files."""

    def answer(place: Path) -> None:
        with Engine(spark=lab.session, out=place) as engine:
            engine.execute(stream_text(files))
            for i, query in enumerate(queries):
                engine.query(query.mullion(), name=name_of(i))
            engine.run()

    def warm() -> None:
        lab.engine(queries).run()
        lab.close()

    return Task(name, answer, lambda: Path(mkdtemp(prefix="out-", dir=lab.folder)), warm)


def long_windows(lab: FlightsLab) -> None:
    """Every micro-batch makes one window of each of many groups due: its length must not matter."""
    files = lab.folder / "batches"
    _write_batches(files, lab.size.batches, lab.size.groups)
    seconds = {}
    for range_ in RANGES:
        name = f"Mullion, a batch with a due window of {range_:,} s"
        _batch_seconds(lab.session, files, range_)
        timing = Timing(name, [_batch_seconds(lab.session, files, range_) for _ in range(lab.size.repeat)])
        lab.watch.add(timing)
        seconds[range_] = timing.best
    short, long = RANGES
    what = f"a due window of {long:,} s against {short} s, {lab.size.groups:,} groups"
    lab.report.add(Bar(what, seconds[long] / seconds[short], 1.5, "<="))


def predicates(lab: FlightsLab) -> None:
    """Queries that differ in their predicates alone."""
    few, many = lab.size.predicates
    queries = different_predicates(many)
    with DuckDB(lab.files) as duckdb:
        right = duckdb.one_by_one(queries[:4]).result
    best = []
    for number in (few, many):
        (timing,) = lab.watch.measure([lab.mullion_task(queries[:number], f"Mullion, {number:,} predicates")])
        for i, (query, answers) in enumerate(zip(queries, right, strict=False)):
            check(query, timing.result.results(name_of(i)).to_arrow(), answers)
        best.append(timing.best)
    lab.close()
    lab.report.add(Bar(f"{many:,} predicates against {few:,}", best[1] / best[0], 10.0, "<="))


def different_predicates(number: int) -> list[FlightQuery]:
    """So many queries by the day, all with other predicates; fewer are the first of more."""
    dice, found = random.Random(SEED), dict[str, None]()
    while len(found) < number:
        found[f"delay > {dice.randint(-60, 600)} AND distance <= {dice.randint(50, 5000)}"] = None
    return [FlightQuery((), DAY, DAY, where, (Aggregate("sum", "delay"),), None, None) for where in found]


def _peak(what: str, finished: Finished) -> Bar:
    return Bar(what, finished.peak / GIB, MOST_MEMORY, "<=", "GiB")


def _from_the_shell(lab: FlightsLab, name: str, files: Path, queries: Sequence[FlightQuery]) -> Finished:
    """A run of its own, with default settings, from a script to Parquet files."""
    place = lab.folder / name
    place.mkdir()
    script, stats = place / "queries.sql", place / "stats.json"
    texts = [f"CREATE QUERY {name_of(i)} AS {query.mullion()}" for i, query in enumerate(queries)]
    script.write_text(";\n".join([stream_text(files), *texts]) + ";\n", encoding="utf-8")
    command = [sys.executable, "-m", "mullion", "run", str(script), "--out", str(place / ANSWERS)]
    finished = run_watched([*command, "--stats", str(stats), "--quiet"])
    if finished.code != 0:
        raise MullionError(f"mullion run with {counted(len(queries))} ended with {finished.code}: {finished.output}")
    told = json.loads(stats.read_text(encoding="utf-8"))
    if told["stopped"] or not told["answers"]:
        raise MullionError(f"mullion run with {counted(len(queries))} did not answer all: {told['stopped']}")
    return finished


def _write_batches(folder: Path, batches: int, groups: int) -> None:
    """A file for each minute, five events of each group in it."""
    folder.mkdir()
    dice = np.random.default_rng(SEED)
    names = np.array([f"g{i:05}" for i in range(groups)], dtype=object)
    for minute in range(batches):
        at = np.sort(dice.integers(0, MINUTE, 5 * groups)) + BEGINNING + minute * MINUTE
        keys = pa.array(names[dice.permutation(np.repeat(np.arange(groups), 5))])
        ts = pa.array(at).cast(pa.timestamp("us", "UTC"))
        table = pa.table({"ts": ts, "k": keys, "x": dice.integers(0, 1000, 5 * groups)})
        pq.write_table(table, folder / f"{minute:05}.parquet")


def _batch_seconds(session: Any, files: Path, range_: int) -> float:
    """What one of the last batches takes, when windows have their full length."""
    seconds: list[float] = []

    def note(engine: Engine) -> None:
        seconds.append(engine.counts["s"].seconds)

    with Engine(spark=session, on_batch=note) as engine:
        options = f"OPTIONS (path {quoted(files)}, maxFilesPerTrigger '1')"
        engine.execute(f"CREATE STREAM s (ts TIMESTAMP, k STRING, x BIGINT) USING parquet {options} TIMESTAMP BY ts")
        window = f"[RANGE '{range_} s' SLIDE '60 s']"
        engine.query(f"SELECT k, sum(x) AS total, max(x) AS most FROM s {window} GROUP BY k", name="q")
        engine.run()
    each = np.diff(seconds)
    return float(median(each[len(each) * 2 // 3 :].tolist()))
