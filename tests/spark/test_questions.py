"""Questions asked once, from the source to the answer, against the reference."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from by_slices import bind
from mullion import reference
from mullion.engine import Engine
from mullion.errors import CheckError, MullionError
from mullion.language.parse import parse_query
from mullion.spark.results import OneAnswer
from mullion.testing import Crash, crash_at
from runtime.test_core_differential import assert_same, rows_of
from spark.every_window import QUERIES, SECOND, STREAM, batches, check, create, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


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


def test_a_question_that_cannot_be_is_refused(spark: SparkSession, files: dict[str, Path]) -> None:
    with Engine(spark) as engine:
        engine.execute(create(files["parquet"]))
        with pytest.raises(CheckError, match="unknown column 'y'"):
            engine.ask("SELECT max(y) AS m FROM s [ROWS 2]")
        with pytest.raises(CheckError, match="unknown stream 'z'"):
            engine.ask("SELECT APPROX max(v) AS m FROM z [ROWS 2]")
