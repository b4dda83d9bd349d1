"""Every kind of window and questions asked once, from the source to the answer, against the reference."""

from __future__ import annotations

import csv
import json
import math
import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from by_slices import bind
from mullion import UserAggregate, reference, register_aggregate
from mullion.aggregates import REGISTRY
from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.errors import CheckError, MullionError
from mullion.expressions.vector import Vector
from mullion.language.dialect import AGGREGATES
from mullion.language.parse import parse_query
from mullion.language.types import DOUBLE, INT, STRING, TIMESTAMP
from mullion.spark.results import OneAnswer
from mullion.testing import Crash, crash_at
from runtime.test_core_differential import assert_same, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECOND = 1_000_000
STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", INT), ("v", DOUBLE), ("seq", INT)), "ts", 3 * SECOND)
COLUMNS = ", ".join(f"{name} {type_}" for name, type_ in STREAM.columns)
LANDMARK = "TIMESTAMP '1970-01-01 00:00:12'"

OVER_TIME = {
    "values": "SELECT k, count(DISTINCT x) AS d, median(v) AS m, mode(x) AS o, top_k(x, 2) AS t, sum(x) AS s "
    "FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k",
    "ends": "SELECT first(x) AS a, last(v) AS b, first(k, true) AS c FROM s [RANGE 8 s SLIDE 4 s] WHERE x <> 2",
    "some": "SELECT percentile(v, 0.3) AS p, sum(DISTINCT x) AS d FROM s [RANGE 6 s SLIDE 6 s] WHERE v > 1",
    "ever": "SELECT k, count(*) AS n, avg(v) AS a FROM s [RANGE UNBOUNDED SLIDE 5 s] GROUP BY k",
    "since": f"SELECT count(*) AS n, max(v) AS h, median(x) AS m FROM s [FROM {LANDMARK} SLIDE 5 s]",
}
OVER_ORDER = {
    "rows": "SELECT count(*) AS n, median(v) AS m, first(x) AS a FROM s [ROWS 5 SLIDE 2]",
    "grouped": "SELECT k, sum(x) AS s FROM s [ROWS 6 SLIDE 3] WHERE x > 0 GROUP BY k ORDER BY s DESC LIMIT 2",
    "each": "SELECT k, count(*) AS n, sum(x) AS s, last(v) AS l FROM s [PARTITION BY k ROWS 2 SLIDE 4] GROUP BY k",
    "tuples": "SELECT count(DISTINCT k) AS d, avg(v) AS a FROM s [RANGE 6 s SLIDE 3 TUPLES]",
    "always": "SELECT sum(x) AS s, min(v) AS l FROM s [RANGE 4 s]",
    "now": "SELECT count(*) AS n, stddev_pop(x) AS d FROM s [NOW]",
    "so_far": "SELECT sum(x) AS s, mode(k) AS m FROM s [RANGE UNBOUNDED SLIDE 5 TUPLES]",
    "from_then": f"SELECT k, count(*) AS n FROM s [FROM {LANDMARK} SLIDE 4 TUPLES] GROUP BY k",
    "by_column": "SELECT count(*) AS n, sum(x) AS s, median(v) AS m FROM s [RANGE 12 SLIDE 5 WATTR seq]",
}
QUERIES = {**OVER_TIME, **OVER_ORDER}


def events(number: int = 48, *, seed: int = 3) -> list[dict[str, Any]]:
    """Two events a second with ties, disorder within the lateness, NULLs and NaN; `seq` increases with the time."""
    rng = random.Random(seed)
    times = sorted(rng.randrange(number // 2) * SECOND for _ in range(number))
    made = []
    for i, ts in enumerate(times):
        k, x = rng.choice(("a", "b", "c", None)), rng.choice((1, 2, 3, -4, None))
        made.append({"ts": ts, "k": k, "x": x, "v": rng.choice((0.5, 1.5, 2.25, math.nan, None)), "seq": 2 * i})
    return sorted(made, key=lambda e: e["ts"] + rng.randrange(2 * SECOND))


def batches(made: list[dict[str, Any]], number: int = 4) -> list[list[dict[str, Any]]]:
    return [made[len(made) * i // number : len(made) * (i + 1) // number] for i in range(number)]


def text_of(ts: int) -> str:
    return f"1970-01-01 00:{ts // 60_000_000:02d}:{ts // SECOND % 60:02d}.{ts % SECOND:06d}"


def write(folder: Path, format_: str, made: list[list[dict[str, Any]]], first: int = 0) -> Path:
    """One file for each batch, read in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, part in enumerate(made, first):
        path, hidden = folder / f"{i:03d}.{format_}", folder / f"_{i:03d}.{format_}"
        rows = [{**e, "ts": text_of(e["ts"])} for e in part]
        if format_ == "parquet":
            pq.write_table(as_table(part), hidden)
        elif format_ == "json":
            hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            with hidden.open("w", newline="") as file:
                csv.writer(file).writerows([[_in_csv(v) for v in row.values()] for row in rows])
        os.utime(hidden, (1_000_000_000 + i, 1_000_000_000 + i))
        hidden.rename(path)
    return folder


def _in_csv(value: Any) -> Any:
    return "" if value is None else "NaN" if value != value else value


def as_table(part: list[dict[str, Any]]) -> pa.Table:
    return pa.table({n: Vector.of(t, [e[n] for e in part]).to_arrow() for n, t in STREAM.columns})


def create(folder: Path, format_: str = "parquet", more: str = "") -> str:
    options = f"path '{folder}', maxFilesPerTrigger '1'"
    return f"CREATE STREAM s ({COLUMNS}) USING {format_} OPTIONS ({options}) TIMESTAMP BY ts LATENESS '3 s' {more}"


def check(engine: Engine, queries: dict[str, str], made: list[dict[str, Any]]) -> None:
    for name, text in queries.items():
        query = parse_query(text, name=name)
        bound = bind(query, {"s": STREAM})
        found = sorted(rows_of(bound, engine.results(name).to_arrow()), key=lambda r: [b or -1 for b in r[:2]])
        assert_same(bound, found, reference.answer(query, STREAM, made).rows)


@pytest.fixture(scope="module")
def made() -> list[dict[str, Any]]:
    return events()


@pytest.fixture(scope="module")
def files(made: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("sources")
    return {format_: write(base / format_, format_, batches(made)) for format_ in ("parquet", "json", "csv")}


@pytest.mark.parametrize("source", ["parquet", "json", "csv", "frame"])
def test_every_window_over_every_source(
    source: str, spark: SparkSession, files: dict[str, Path], made: list[dict[str, Any]]
) -> None:
    with Engine(spark) as engine:
        if source == "frame":
            read = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", "1")
            engine.stream("s", read.parquet(str(files["parquet"])), time="ts", lateness="3 s")
        else:
            engine.execute(create(files[source], source))
        for name, text in QUERIES.items():
            engine.query(text, name=name)
        engine.run()
        assert engine.counts["s"].batches == 4
        assert engine.counts["s"].events == len(made)
        assert engine.runs["s"].reads_files == (source == "parquet")
        check(engine, QUERIES, made)


@pytest.mark.parametrize("way", ["native", "kernel", "direct"])
def test_every_way_counts_values(
    way: str, spark: SparkSession, files: dict[str, Path], made: list[dict[str, Any]]
) -> None:
    with Engine(spark, way=way) as engine:
        engine.execute(create(files["parquet"]))
        for name, text in OVER_TIME.items():
            engine.query(text, name=name)
        engine.run()
        check(engine, OVER_TIME, made)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_values_on_executors(
    checkpoint: bool,
    spark: SparkSession,
    files: dict[str, Path],
    made: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mullion.runtime.sharding_choice.SHARDS", 2)
    place = {"out": tmp_path / "out", "checkpoint": tmp_path / "state"} if checkpoint else {}
    asked = {
        "values": "SELECT k, median(v) AS m, sum(x) AS s FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k",
        "rows" if checkpoint else "ever": QUERIES["rows" if checkpoint else "ever"],
    }
    for crash in (*([("after commit", 1), ("before commit", 2)] if checkpoint else []), None):
        with Engine(spark, shard_above=1, **place) as engine:  # type: ignore[arg-type]
            engine.execute(create(files["parquet"]))
            for name, text in asked.items():
                engine.query(text, name=name)
            if crash is not None:
                with crash_at(*crash), pytest.raises(Crash):
                    engine.run(close=True)
                continue
            engine.run(close=True)
            assert engine.runs["s"].sets["shared"].shards
            check(engine, asked, made)


QUESTIONS = {
    "SELECT max(v) AS h, count(*) AS n FROM s [RANGE 9 s]": "the events that the stream keeps",
    "SELECT k, median(x) AS m FROM s [ROWS 12 SLIDE 5] GROUP BY k": "the events that the stream keeps",
    "SELECT count(*) AS n, sum(x) AS s FROM s [PARTITION BY k ROWS 2]": "the events that the stream keeps",
    "SELECT sum(x) AS s FROM s [RANGE UNBOUNDED]": "the events that the stream keeps",
    "SELECT max(v) AS h FROM s [ROWS 7]": "the synopsis best (ordered sharing)",
    "SELECT min(v) AS l FROM s [ROWS 100]": "the synopsis best (ordered sharing)",
}
SYNOPSES = (
    "CREATE SYNOPSIS best ON s(v) USING ordered_sharing (rows 200);"
    "CREATE SYNOPSIS grams ON s(v) USING timegram (buckets 8, rows 200);"
)


def check_questions(engine: Engine, seen: list[dict[str, Any]]) -> None:
    newest = max(e["ts"] for e in seen)
    for text, source in QUESTIONS.items():
        query = parse_query(text)
        bound = bind(query, {"s": STREAM})
        answer = engine.ask(text)
        assert answer.answered_from == source
        assert answer.answered_up_to == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=newest)
        assert_same(bound, rows_of(bound, answer.to_arrow()), reference.ask(query, STREAM, seen).rows)
    row = engine.ask("SELECT APPROX count(v) AS n, min(v) AS l FROM s [ROWS 7]").to_arrow().to_pylist()[0]
    held = [e["v"] for e in sorted(seen, key=lambda e: e["ts"])[-7:] if e["v"] is not None]
    assert row["n_low"] == row["n_high"] == len(held)
    assert row["l_low"] <= min(held, key=lambda v: (math.isnan(v), v)) <= row["l_high"]


def until(engine: Engine, seen: list[dict[str, Any]]) -> None:
    while "s" not in engine.runs or (view := engine.runs["s"].view) is None or view.events < len(seen):
        engine.wait(0.02)
        assert not engine.failed


def test_questions_while_it_runs_and_after_a_restart(
    spark: SparkSession, made: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Row windows, events that wait, kept events and synopses go on from the checkpoint."""
    parts, place = batches(made), {"out": tmp_path / "out", "checkpoint": tmp_path / "state"}
    folder = write(tmp_path / "in", "json", parts[:1])
    script = create(folder, "json", "KEEP '1 hour'") + ";" + SYNOPSES

    def opened() -> Engine:
        engine = Engine(spark, **place)  # type: ignore[arg-type]
        engine.execute(script)
        for name, text in QUERIES.items():
            engine.query(text, name=name)
        return engine

    with opened() as engine:
        with pytest.raises(MullionError, match="no event"):
            engine.ask("SELECT count(*) AS n FROM s [ROWS 2]")
        engine.start(follow=True)
        until(engine, parts[0])
        check_questions(engine, parts[0])
        write(folder, "json", parts[1:2], 1)
        until(engine, parts[0] + parts[1])
        check_questions(engine, parts[0] + parts[1])
    write(folder, "json", parts[2:3], 2)
    with opened() as engine, crash_at("before commit"), pytest.raises(Crash):
        engine.run(close=True)
    with opened() as engine:
        engine.start(follow=True)
        until(engine, parts[0] + parts[1] + parts[2])
        check_questions(engine, parts[0] + parts[1] + parts[2])
        write(folder, "json", parts[3:], 3)
        until(engine, made)
        engine.stop()
    with opened() as engine:
        engine.run(close=True)
        check(engine, QUERIES, made)
        check_questions(engine, made)


def test_what_a_question_is_answered_from(
    spark: SparkSession, files: dict[str, Path], made: list[dict[str, Any]]
) -> None:
    with Engine(spark) as engine:
        engine.execute(create(files["parquet"]))
        engine.query("SELECT k, sum(x) AS s, count(*) AS n FROM s [RANGE 10 s SLIDE 2 s] GROUP BY k", name="q")
        engine.run()
        newest = max(e["ts"] for e in made)
        whole = newest // (2 * SECOND) * (2 * SECOND)
        text = "SELECT k, sum(x) AS s FROM s [RANGE 4 s SLIDE 2 s] GROUP BY k"
        answer = engine.ask(text)
        assert answer.answered_from == "the sub-windows that standing queries keep"
        assert answer.answered_up_to is not None and answer.answered_up_to.timestamp() * SECOND == whole
        bound = bind(parse_query(text), {"s": STREAM})
        assert_same(bound, rows_of(bound, answer.to_arrow()), reference.ask(parse_query(text), STREAM, made).rows)
        with pytest.raises(MullionError, match="keeps no events that this question needs") as refused:
            engine.ask("SELECT median(v) AS m FROM s [RANGE 4 s]")
        assert "add KEEP '1 hour' or KEEP 1000000 ROWS to CREATE STREAM s" in str(refused.value)
        with pytest.raises(MullionError, match="keeps no events"):
            engine.ask("SELECT max(v) AS m FROM s [ROWS 4]")


def test_a_stream_keeps_as_many_rows_as_it_was_told(
    spark: SparkSession, files: dict[str, Path], made: list[dict[str, Any]]
) -> None:
    """And a question of a script is answered when its input has ended."""
    with Engine(spark) as engine:
        engine.execute(create(files["csv"], "csv", more="KEEP 5 ROWS"))
        said = engine.execute("SELECT count(*) AS n, last(x) AS l FROM s [ROWS 3]")
        assert said == [] and len(engine.questions) == 1
        engine.run()
        (question,) = engine.questions
        bound = bind(question, {"s": STREAM})
        answer = engine.answer(question)
        assert_same(bound, rows_of(bound, answer.to_arrow()), reference.ask(question, STREAM, made).rows)
        with pytest.raises(MullionError, match="no longer has all the events"):
            engine.ask("SELECT count(*) AS n FROM s [RANGE UNBOUNDED]")
        (later,) = engine.execute("SELECT count(*) AS n FROM s [NOW]")
        assert isinstance(later, OneAnswer) and later.to_arrow()["n"].to_pylist() == [
            sum(e["ts"] == max(e["ts"] for e in made) for e in made)
        ]


def test_queries_join_a_stream_that_runs(spark: SparkSession, made: list[dict[str, Any]], tmp_path: Path) -> None:
    parts = batches(made)
    folder = write(tmp_path / "in", "parquet", parts)
    joining = {
        "rows": "SELECT count(*) AS n, sum(x) AS s FROM s [ROWS 4 SLIDE 3]",
        "ever": "SELECT count(*) AS n, median(x) AS m FROM s [RANGE UNBOUNDED SLIDE 5 s]",
        "so_far": "SELECT count(*) AS n FROM s [RANGE UNBOUNDED SLIDE 4 TUPLES]",
        "each": "SELECT k, count(*) AS n FROM s [PARTITION BY k ROWS 2 SLIDE 3] GROUP BY k",
        "later": "SELECT count(*) AS n FROM s [FROM TIMESTAMP '1970-01-01 00:00:18' SLIDE 2 s]",
    }
    refused: dict[str, str] = {}
    seen: list[int] = []

    def join(engine: Engine) -> None:
        if engine.counts["s"].batches == len(parts) and "at_the_end" not in engine.catalog.queries:
            engine.query("SELECT max(v) AS h FROM s [ROWS 2]", name="at_the_end")
        if engine.counts["s"].batches != 2 or seen:
            return
        seen.append(engine.runs["s"].newest or 0)
        for name, text in joining.items():
            engine.query(text, name=name)
        past = "TIMESTAMP '1970-01-01 00:00:05'"
        for text in (
            f"SELECT count(*) AS n FROM s [FROM {past} SLIDE 5 s]",
            f"SELECT count(*) AS n FROM s [FROM {past} SLIDE 2 TUPLES]",
            "SELECT count(*) AS n FROM s [RANGE 8 SLIDE 2 WATTR x]",
            "CREATE QUERY b BACKFILL AS SELECT count(*) AS n FROM s [ROWS 3]",
        ):
            with pytest.raises(MullionError) as problem:
                engine.query(text)
            refused[text] = str(problem.value)
        engine.query("SELECT count(*) AS n, sum(x) AS s FROM s [RANGE 8 SLIDE 4 WATTR seq]", name="followed")

    with Engine(spark, on_batch=join) as engine:
        engine.execute(create(folder))
        engine.query("SELECT count(*) AS n FROM s [ROWS 7 SLIDE 7]", name="before")
        engine.query("SELECT sum(x) AS s FROM s [RANGE 10 SLIDE 5 WATTR seq]", name="follows")
        engine.run()
        start = text_of(seen[0] + 1)
        joined = {n: f"CREATE QUERY {n} START AT TIMESTAMP '{start}' AS {text}" for n, text in joining.items()}
        check(engine, joined, made)
        check(engine, {"before": "SELECT count(*) AS n FROM s [ROWS 7 SLIDE 7]"}, made)
        assert all(len(engine.results(name)) for name in joining)
        assert len(engine.results("at_the_end")) == 0
        followed = engine.results("followed").to_arrow().to_pylist()
    first, second, column, backfill = refused.values()
    assert "the stream has passed the start of query" in first and "RANGE UNBOUNDED" in first
    assert "the stream has passed the start of query" in second
    assert "nobody knows where the stream is on 'x'" in column
    assert "BACKFILL of this query" in backfill
    text = "SELECT count(*) AS n, sum(x) AS s FROM s [RANGE 8 SLIDE 4 WATTR seq]"
    whole = reference.answer(parse_query(text), STREAM, made)
    found = [tuple(row.values()) for row in followed]
    assert found and found == whole.rows[-len(found) :]


@pytest.fixture
def farthest() -> Iterator[None]:
    """The largest distance from zero. A class within a function travels to the workers by itself."""

    class Farthest(UserAggregate):
        name = "farthest"
        fields: ClassVar = {"distance": "double"}
        returns = "double"
        identity = (-1.0,)

        def lift(self, values: Any) -> tuple[Any, ...]:
            return (np.abs(values),)

        def combine(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
            return (np.maximum(a[0], b[0]),)

        def lower(self, *fields: Any) -> Any:
            return fields[0]

    register_aggregate(Farthest)
    yield
    for registry in (REGISTRY, AGGREGATES):
        del registry["farthest"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["auto", "kernel"])
def test_an_aggregate_that_a_user_wrote(
    way: str, farthest: None, spark: SparkSession, files: dict[str, Path], made: list[dict[str, Any]]
) -> None:
    asked = {
        "over_time": "SELECT k, farthest(x) AS l FROM s [RANGE 8 s SLIDE 4 s] GROUP BY k",
        "over_rows": "SELECT farthest(x) AS l, count(*) AS n FROM s [ROWS 6 SLIDE 4]",
    }
    plain = {name: text.replace("farthest(x)", "CAST(max(abs(x)) AS DOUBLE)") for name, text in asked.items()}
    with Engine(spark, way=way) as engine:
        engine.execute(create(files["parquet"]))
        for name, text in asked.items():
            engine.query(text, name=name)
        engine.run()
        check(engine, plain, made)


def test_late_events_and_bad_values_of_row_windows(spark: SparkSession, tmp_path: Path) -> None:
    def event(second: int, x: int | None, v: float = 1.0) -> dict[str, Any]:
        return {"ts": second * SECOND, "k": "a", "x": x, "v": v, "seq": second}

    parts = [[event(10, 1), event(20, 0)], [event(3, 7), event(18, 2), event(4, -7), event(30, 3)]]
    folder = write(tmp_path / "in", "json", parts)
    texts = {
        "all": "SELECT count(*) AS n, sum(12 / x) AS s FROM s [ROWS 2]",
        "few": "SELECT count(*) AS n FROM s [PARTITION BY k ROWS 1 SLIDE 2] WHERE x > 0",
        "timed": "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] WHERE x < 0",
    }
    with Engine(spark) as engine:
        engine.execute(create(folder, "json"))
        for name, text in texts.items():
            engine.query(text, name=name)
        engine.run()
        counts = engine.counts["s"]
        late = pa.concat_tables(engine.aside("late"))["x"].to_pylist()
        check(engine, texts, [e for part in parts for e in part if e["x"] not in (7, -7)])
    assert sorted(late) == [-7, 7] and counts.late == 2
    assert counts.late_by_query == {"all": 2, "few": 1, "timed": 1}
    assert counts.bad_by_query == {"all": 1}
    assert counts.events == 4


def test_a_question_that_cannot_be_is_refused(spark: SparkSession, files: dict[str, Path]) -> None:
    with Engine(spark) as engine:
        engine.execute(create(files["parquet"]))
        with pytest.raises(CheckError, match="unknown column 'y'"):
            engine.ask("SELECT max(y) AS m FROM s [ROWS 2]")
        with pytest.raises(CheckError, match="unknown stream 'z'"):
            engine.ask("SELECT APPROX max(v) AS m FROM z [ROWS 2]")
