"""Every kind of window, from the source to the answer, against the reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from mullion import UserAggregate, reference, register_aggregate
from mullion.aggregates import REGISTRY
from mullion.engine import Engine
from mullion.errors import MullionError
from mullion.language.dialect import AGGREGATES
from mullion.language.parse import parse_query
from mullion.testing import Crash, crash_at
from spark.every_window import (
    COLUMNS,
    OVER_TIME,
    QUERIES,
    SECOND,
    STREAM,
    batches,
    check,
    create,
    text_of,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


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
        newest = text_of(seen[0])
        joined = {n: f"CREATE QUERY {n} START AT TIMESTAMP '{newest}' AS {text}" for n, text in joining.items()}
        check(engine, joined, made)
        check(engine, {"before": "SELECT count(*) AS n FROM s [ROWS 7 SLIDE 7]"}, made)
        assert all(len(engine.results(name)) for name in joining)
        last = text_of(engine.runs["s"].newest or 0)
        at_the_end = f"CREATE QUERY at_the_end START AT TIMESTAMP '{last}' AS SELECT max(v) AS h FROM s [ROWS 2]"
        check(engine, {"at_the_end": at_the_end}, made)
        followed = engine.results("followed").to_arrow().to_pylist()
    first, second, column, backfill = refused.values()
    assert "the stream has passed the start of query" in first and "RANGE UNBOUNDED" in first
    assert "the stream has passed the start of query" in second
    assert "the position of the stream on 'x' is not known" in column
    assert "BACKFILL of query 'b'" in backfill
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
