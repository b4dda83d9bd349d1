"""The whole engine on Spark against the reference, on random streams and query sets."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from by_slices import bind
from mullion import reference
from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.errors import EnvironmentProblem
from mullion.expressions.vector import Vector
from mullion.language.parse import parse_query
from mullion.testing import Replay
from runtime.test_core_differential import assert_same, rows_of
from strategies import Event, Example, examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MANNERS: dict[str, dict[str, Any]] = {
    "native": {"way": "native"},
    "kernel": {"way": "kernel"},
    "unshared": {"sharing": "off"},
    "paned": {"slicing": "paned", "way": "kernel"},
    "on executors": {"shard_above": 1},
    "on executors by kernel": {"shard_above": 1, "way": "kernel"},
}


def table(stream: Stream, events: Sequence[Event]) -> pa.Table:
    return pa.table({name: Vector.of(t, [e[name] for e in events]).to_arrow() for name, t in stream.columns})


def answered(engine: Engine, example: Example) -> dict[str, Any]:
    found = {}
    for text in example.queries:
        bound = bind(parse_query(text), {example.stream.name: example.stream})
        found[text] = rows_of(bound, engine.results(bound.name).to_arrow())
    return found


def check(engine: Engine, example: Example) -> None:
    for text, rows in answered(engine, example).items():
        query = parse_query(text)
        bound = bind(query, {example.stream.name: example.stream})
        in_order = sorted(rows, key=lambda row: row[:2])
        assert_same(bound, in_order, reference.answer(query, example.stream, example.events).rows)


@pytest.mark.parametrize("manner", MANNERS)
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(example=examples(most_queries=6))
def test_one_batch(manner: str, example: Example, spark: SparkSession) -> None:
    with Engine(spark, **MANNERS[manner]) as engine:
        frame = spark.createDataFrame(table(example.stream, example.events))
        engine.stream("trades", frame, time="ts", ahead=None)
        for text in example.queries:
            engine.query(text)
        engine.run()
        check(engine, example)


@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(example=examples(most_queries=6), way=st.sampled_from(("native", "kernel")))
def test_many_batches_with_a_restart_after_each(
    example: Example, way: str, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Disorder within the lateness changes nothing; neither do batches and restarts."""
    base = tmp_path_factory.mktemp("run")
    source = base / "events"
    source.mkdir()
    lateness = max((e["ts"] for e in example.events), default=0) - min((e["ts"] for e in example.events), default=0)
    third = -(-len(example.events) // 3) or 1
    for i in range(3):
        part = table(example.stream, example.events[i * third : (i + 1) * third])
        pq.write_table(part, source / f"{i}.parquet")
        with Engine(spark, out=base / "out", checkpoint=base / "checkpoint", way=way) as engine:
            engine.execute(
                f"CREATE STREAM trades ({_columns(example.stream)}) USING parquet OPTIONS (path '{source}') "
                f"TIMESTAMP BY ts LATENESS '{lateness} us' AHEAD UNBOUNDED"
            )
            for text in example.queries:
                engine.query(text)
            if i < 2:
                engine.start(follow=True)
                _until(engine, i + 1)
                engine.stop()
            else:
                engine.run(close=True)
                check(engine, example)


def _columns(stream: Stream) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in stream.columns)


def _until(engine: Engine, batches: int) -> None:
    import time

    while engine.counts.get("trades") is None or engine.counts["trades"].batches < batches:
        engine.wait(0.05)
        assert not engine.failed
        time.sleep(0.02)


def test_the_order_of_columns_and_the_types_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(
        "SELECT timestamp'2024-01-01 00:00:01' AS ts, 'a' AS s, 1 AS i, 2L AS l, 1.5D AS d, 2.50BD AS m, true AS b"
    )
    items = (
        "sum(i) AS si, sum(l) AS sl, sum(d) AS sd, sum(m) AS sm, avg(i) AS ai, avg(m) AS am, count(*) AS n, "
        "min(s) AS ms, max(b) AS mb, max(ts) AS mt, var_pop(i) AS v, sum(i) / count(*) AS r, "
        "round(avg(d), 1) AS ra, max(i) + 1 AS p"
    )
    with Engine(spark, out=tmp_path) as engine:
        engine.stream("t", frame, time="ts")
        engine.query(f"SELECT {items} FROM t [RANGE 1 min SLIDE 1 min]", name="q")
        engine.run()
        found = engine.results("q").to_spark()
    wanted = spark.sql(f"SELECT {items} FROM {{t}}", t=frame)
    assert found.columns == ["window_start", "window_end", *wanted.columns]
    assert [f.dataType for f in found.schema.fields[2:]] == [f.dataType for f in wanted.schema.fields]
    assert found.drop("window_start", "window_end").collect() == wanted.collect()


@pytest.mark.parametrize("way", ["native", "kernel", "direct"])
def test_columns_may_be_called_as_ours_are(way: str, spark: SparkSession, tmp_path: Path) -> None:
    """Every way has columns of its own beside the user's."""
    names = ("t", "slice", "events", "k0", "a0", "start", "end", "row")
    times = pa.array([second * 1_000_000 for second in (1, 2, 3)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": times} | {name: [i, i + 1, i + 2] for i, name in enumerate(names)}), tmp_path / "e")
    sums = ", ".join(f"sum(`{name}`) AS `{name}`" for name in names)
    sources = {
        "slices": "s [RANGE 10 s SLIDE 10 s]",
        "rows": "s [ROWS 3 SLIDE 3]",
        "joined": "s [RANGE 10 s SLIDE 10 s] x, (SELECT t AS other FROM s [RANGE 10 s SLIDE 10 s]) y WHERE t = other",
    }
    with Engine(spark, way=way) as engine:
        engine.execute(f"CREATE STREAM s USING parquet OPTIONS (path '{tmp_path}') TIMESTAMP BY ts")
        for query, source in sources.items():
            engine.query(f"SELECT {sums} FROM {source}", name=query)
            engine.query(f"SELECT t, slice, sum(k0) AS total FROM {source} GROUP BY t, slice", name=f"g{query}")
        engine.run()
        for query in sources:
            (found,) = engine.results(query).to_arrow().to_pylist()
            assert [found[name] for name in names] == [3 * i + 3 for i in range(len(names))]
            grouped = engine.results(f"g{query}").to_arrow().to_pylist()
            by_group = sorted((row["t"], row["slice"], row["total"]) for row in grouped)
            assert by_group == [(0, 1, 3), (1, 2, 4), (2, 3, 5)]


def test_queries_join_and_leave_while_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    def write(number: int, *seconds: int) -> None:
        times = pa.array([s * 1_000_000 for s in seconds], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"ts": times, "x": list(seconds)}), tmp_path / f"{number}.parquet")

    calls: list[tuple[str, int]] = []
    write(0, 1, 5, 12)
    with Engine(spark) as engine:
        engine.execute(f"CREATE STREAM s USING parquet OPTIONS (path '{tmp_path}') TIMESTAMP BY ts")
        engine.query("SELECT sum(x) AS total FROM s [RANGE 10 s SLIDE 10 s]", name="first")
        engine.on_answer(lambda name, rows: calls.append((name, len(rows))))
        engine.start()
        _wait_for(engine, "s", 1)
        engine.query("SELECT sum(x) AS total FROM s [RANGE 5 s SLIDE 5 s]", name="second")
        write(1, 13, 16, 19, 23)
        _wait_for(engine, "s", 2)
        engine.drop("first")
        write(2, 31, 46)
        _wait_for(engine, "s", 3)
        engine.stop()
        first, second = (
            [(r["window_end"].timestamp(), r["total"]) for r in engine.results(name).to_arrow().to_pylist()]
            for name in ("first", "second")
        )
    assert first == [(10.0, 6), (20.0, 60)], "what a dropped query had answered stays"
    assert second == [(20.0, 35), (25.0, 23), (30.0, None), (35.0, 31), (40.0, None), (45.0, None)]
    assert [c for c in calls if c[0] == "first"] == [("first", 1), ("first", 1)]


def _wait_for(engine: Engine, stream: str, batches: int) -> None:
    while stream not in engine.counts or engine.counts[stream].batches < batches:
        engine.wait(0.05)


def test_a_bad_value_is_null_and_counted_and_leaves_neighbours_alone(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT timestamp_seconds(id) AS ts, id % 4 AS x, CAST(id AS STRING) || IF(id % 5 = 0, 'x', '') AS text, "
        "id * 0.1D AS price, CAST(2147483000 + id * 100 AS INT) AS big FROM range(100)"
    )
    good = "SELECT sum(price) AS total, avg(price) AS mean, count(*) AS n FROM s [RANGE 17 s SLIDE 5 s]"
    bad = (
        "SELECT sum(12 / x) AS a, max(CAST(text AS INT)) AS b, sum(big + 1000) AS c FROM s [RANGE 7 s SLIDE 3 s] "
        "WHERE 3 % x >= 0 OR x = 0"
    )

    def run(*queries: str) -> tuple[Any, Any]:
        with Engine(spark) as engine:
            engine.stream("s", frame, time="ts")
            for name, text in zip(("good", "bad"), queries, strict=False):
                engine.query(text, name=name)
            engine.run()
            return engine.results("good").to_arrow(), engine.counts["s"].bad_by_query

    alone, nothing = run(good)
    beside, counted = run(good, bad)
    assert beside.equals(alone)
    assert nothing == {}
    numbers = range(2147483000, 2147483000 + 10_000, 100)
    overflows = sum(1 for number in numbers if number < 2**31 <= number + 1000)
    compared = 25  # 3 % x, although x = 0 decides
    assert counted == {"bad": 25 + 20 + overflows + compared}


def test_late_and_malformed_records_are_counted_and_kept(spark: SparkSession, tmp_path: Path) -> None:
    import os

    for i, lines in enumerate(["10,1\n20,2\n", "3,99\n14,3\nnonsense\n21,x\n,7\n30,4\n"]):
        path = tmp_path / "in" / f"{i}.csv"
        path.parent.mkdir(exist_ok=True)
        stamped = [f"1970-01-01 00:00:{line}" if line[:1].isdigit() else line for line in lines.splitlines()]
        stamped = [s.replace(":3,", ":03,") for s in stamped]
        path.write_text("\n".join(stamped) + "\n")
        os.utime(path, (1_000_000_000 + i, 1_000_000_000 + i))
    with Engine(spark, out=tmp_path / "out") as engine:
        engine.execute(
            f"""CREATE STREAM s (ts TIMESTAMP, x INT) USING csv
            OPTIONS (path '{tmp_path}/in', maxFilesPerTrigger '1') TIMESTAMP BY ts LATENESS '8 s';
            CREATE QUERY q AS SELECT sum(x) AS total, count(*) AS n FROM s [RANGE 10 s SLIDE 10 s];
            CREATE QUERY small AS SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] WHERE x < 10;"""
        )
        engine.run()
        counts = engine.counts["s"]
        rows = engine.results("q").to_arrow().to_pylist()
        late = pa.concat_tables(engine.aside("late")).to_pylist()
        malformed = pa.concat_tables(engine.aside("malformed")).to_pylist()
    assert [(r["window_end"].timestamp(), r["total"], r["n"]) for r in rows] == [(20, 4, 2), (30, 2, 1), (40, 4, 1)]
    assert (counts.late, counts.malformed) == (1, 3)
    assert counts.late_by_query == {"q": 1}
    assert [row["x"] for row in late] == [99]
    assert sorted(row["record"] for row in malformed) == [
        "1970-01-01 00:00:21,x",
        "nonsense",
        '{"ts":null,"x":7}',
    ]
    assert all(row["source"].endswith("/in/1.csv") for row in malformed)


def test_malformed_records_do_not_depend_on_what_is_asked(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '{"ts": "1970-01-01 00:00:01", "x": "oops"}\n{"ts": "1970-01-01 00:00:02", "x": 1}\n'
    )
    for items in ("count(*) AS n", "count(*) AS n, sum(x) AS total"):
        with Engine(spark) as engine:
            engine.execute(
                f"CREATE STREAM s (ts TIMESTAMP, x INT) USING json OPTIONS (path '{tmp_path}') TIMESTAMP BY ts;"
                f"CREATE QUERY q AS SELECT {items} FROM s [RANGE 10 s SLIDE 10 s]"
            )
            engine.run()
            assert engine.results("q").to_arrow().column("n").to_pylist() == [1]
            assert engine.counts["s"].malformed == 1


def test_a_frame_of_another_session_is_evaluated_with_the_right_settings(spark: SparkSession) -> None:
    """In the user's session a bad cast is an error and hours are New York's; in an answer neither is so."""
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.ansi.enabled", "true")
    theirs.conf.set("spark.sql.session.timeZone", "America/New_York")
    frame = theirs.sql("SELECT timestamp_seconds(id * 3600) AS ts, IF(id = 1, 'x', '7') AS text FROM range(3)")
    with Engine(theirs) as engine:
        engine.stream("s", frame, time="ts")
        engine.query(
            "SELECT hour(ts) AS h, sum(CAST(text AS INT)) AS n FROM s [RANGE 1 d SLIDE 1 d] "
            "GROUP BY hour(ts) ORDER BY h",
            name="q",
        )
        engine.run()
        found = engine.results("q").to_arrow()
    assert list(zip(found["h"].to_pylist(), found["n"].to_pylist(), strict=True)) == [(0, 7), (1, None), (2, 7)]
    assert theirs.conf.get("spark.sql.ansi.enabled") == "true"


def test_a_streaming_frame_is_read_to_its_end(spark: SparkSession, tmp_path: Path) -> None:
    for i in range(3):
        times = pa.array([(10 * i + s) * 1_000_000 for s in (1, 4)], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"ts": times, "x": [i, 1]}), tmp_path / f"{i}.parquet")
    frame = spark.readStream.schema("ts TIMESTAMP, x BIGINT").parquet(str(tmp_path))
    with Engine(spark) as engine:
        engine.stream("s", frame, time="ts", lateness="1 min")
        engine.query("SELECT sum(x) AS total FROM s [RANGE 10 s SLIDE 10 s]", name="q")
        engine.run()
        assert engine.results("q").to_arrow()["total"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("shard_above", [1, 1000])
def test_a_group_that_is_only_late_answers_nothing(shard_above: int, spark: SparkSession, tmp_path: Path) -> None:
    """Its shard was written before anybody knew that all of it is late."""
    batches = Replay(tmp_path)
    batches.add([{"ts": "2024-01-01 00:00:50", "k": k} for k in "abcdefgh"])
    batches.add([{"ts": "2024-01-01 00:00:20", "k": k} for k in "stuvwxyz"] + [{"ts": "2024-01-01 00:00:55", "k": "a"}])
    with Engine(spark, shard_above=shard_above) as engine:
        engine.execute(
            f"CREATE STREAM s (ts TIMESTAMP, k STRING) USING json OPTIONS ({batches.options}) TIMESTAMP BY ts;"
            "CREATE QUERY q AS SELECT k, count(*) AS n FROM s [RANGE 1 min SLIDE 1 min] GROUP BY k ORDER BY k"
        )
        engine.run()
        found = engine.results("q").to_arrow()
    assert "".join(found["k"].to_pylist()) == "abcdefgh"
    assert found["n"].to_pylist() == [2, 1, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("way", ["auto", "kernel"])
def test_groups_that_become_many_go_to_executors(way: str, spark: SparkSession, tmp_path: Path) -> None:
    """What was held on the driver falls to the shards that the groups have there, whatever their type."""
    columns = {"i": "INT", "b": "BIGINT", "d": "DOUBLE", "m": "DECIMAL(10, 2)", "l": "DECIMAL(30, 2)", "t": "BOOLEAN",
               "day": "DATE", "at": "TIMESTAMP", "s": "STRING"}  # fmt: skip
    batches = Replay(tmp_path)
    for batch, numbers in enumerate(([1], range(12), range(4, 16), range(9))):
        rows = [
            {"i": n, "b": n << 40, "d": (n - 4) / -8, "m": f"{n}.25", "l": f"{n << 70}.5", "t": n % 2 == 0}
            | {"day": f"2024-01-{n + 1:02d}", "at": f"2024-01-01 00:00:00.{n:06d}", "s": f"é{n}"}
            for n in numbers
        ]
        nothing, zero = dict.fromkeys(columns), dict(rows[-1], d=0.0)  # n = 4 has -0.0
        batches.add([{"ts": f"2024-01-01 00:00:{10 * batch + 9}", **row} for row in (*rows, *rows[:3], nothing, zero)])
    half = {"auto": ["i", "d", "l", "at", "t, i", "d * 2"], "kernel": ["b", "m", "day", "s", "m, at"]}
    keys = ["t", *half[way]]
    found = []
    for above in (4, 1000):
        with Engine(spark, way=way, shard_above=above) as engine:
            declared = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
            engine.execute(
                f"CREATE STREAM s (ts TIMESTAMP, {declared}) USING json OPTIONS ({batches.options}) TIMESTAMP BY ts"
            )
            for number, key in enumerate(keys):
                shown = f"{key} AS twice" if "*" in key else key
                items = f"{shown}, count(*) AS n, sum(b) AS total, count(DISTINCT i) AS c"
                engine.query(f"SELECT {items} FROM s [RANGE 20 s SLIDE 10 s] GROUP BY {key}", name=f"q{number}")
            engine.run()
            in_shards = {name for own in engine.runs["s"].sets.values() for name in own.shards}
            assert len(in_shards) == (2 * (len(keys) - 1) if above == 4 else 0), "booleans alone are few"
            tables = [engine.results(f"q{number}").to_arrow() for number in range(len(keys))]
            found.append([sorted(map(repr, table.to_pylist())) for table in tables])
    for key, own, other in zip(keys, *found, strict=True):
        assert own == other, key


def test_state_that_an_executor_does_not_see_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    batches = Replay(tmp_path / "events")
    for second in (10, 70):
        batches.add([{"ts": f"2024-01-01 00:{second // 60:02d}:{second % 60:02d}", "k": k} for k in "abc"])
    state = tmp_path / "state"
    with Engine(spark, shard_above=1, checkpoint=state) as engine:
        engine.execute(
            f"CREATE STREAM s (ts TIMESTAMP, k STRING) USING json OPTIONS ({batches.options}) TIMESTAMP BY ts;"
            "CREATE QUERY q AS SELECT k, count(*) AS n FROM s [RANGE 1 min SLIDE 1 min] GROUP BY k"
        )
        engine.on_batch = lambda _: shutil.rmtree(state / "streams" / "s" / "shards")
        with pytest.raises(EnvironmentProblem, match="is not seen on another"):
            engine.run()
