"""Joins, DISTINCT, negation and tables over files, from the source to the answer, against the reference."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from by_operators import bind_relation
from mullion import reference
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.binding.entering import entering_at
from mullion.engine import Engine
from mullion.errors import CheckpointError, NotSupported
from mullion.language.parse import parse_query
from mullion.language.types import INT, STRING, TIMESTAMP
from mullion.surface.cli import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECOND = 1_000_000
COLUMNS = (("ts", TIMESTAMP), ("k", STRING), ("v", INT))
STREAMS = {name: Stream(name, COLUMNS, "ts", 3 * SECOND) for name in ("a", "b", "c")}
FORMATS = {"a": "parquet", "b": "json", "c": "parquet"}
ARROW = {"ts": pa.timestamp("us", "UTC"), "k": pa.string(), "v": pa.int32()}
NAMES = {"x": "one", "y": "two"}
TABLE = Table("names", (("k", STRING), ("name", STRING)), "csv")
TABLES = {"names": (TABLE, [{"k": k, "name": name} for k, name in NAMES.items()])}

QUERIES = {
    "pairs": "SELECT a.k AS k, a.v AS x, b.v AS y FROM a [RANGE 9 s], b [RANGE 5 s] WHERE a.k = b.k AND a.v <= b.v",
    "longer": "SELECT a.k AS k, a.v AS x, b.v AS y FROM a [RANGE 6 s], b [RANGE 8 s] WHERE a.k = b.k AND a.v > 1",
    "every": "SELECT a.k AS k, a.v AS x FROM a [RANGE 8 s SLIDE 4 s] JOIN b [RANGE 4 s] ON a.k = b.k",
    "alone": "SELECT k, v FROM a [RANGE 8 s SLIDE 3 s] x "
    "WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 4 s] y WHERE y.k = x.k)",
    "leaving": "SELECT k, v FROM a [RANGE 8 s] x WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 4 s] y WHERE y.k = x.k)",
    "met": "SELECT k, v FROM a [RANGE 8 s SLIDE 5 s] x WHERE EXISTS (SELECT 1 FROM b [ROWS 4] y WHERE y.v = x.v)",
    "keys": "SELECT DISTINCT k FROM a [RANGE 6 s]",
    "both": "ISTREAM(SELECT DISTINCT a.k AS k FROM a [RANGE 6 s SLIDE 3 s], b [RANGE 6 s] WHERE a.k = b.k)",
    "gone": "DSTREAM(SELECT a.k AS k FROM a [RANGE 6 s SLIDE 3 s] UNION ALL SELECT b.k AS k FROM b [RANGE 3 s])",
    "counts": "SELECT a.k AS k, count(*) AS n, sum(b.v) AS total FROM a [RANGE 9 s SLIDE 2 s], b [RANGE 5 s] "
    "WHERE a.k = b.k GROUP BY a.k",
    "surplus": "SELECT k FROM a [RANGE 9 s SLIDE 3 s] EXCEPT ALL SELECT k FROM b [RANGE 9 s]",
    "last": "WSTREAM(SELECT DISTINCT k FROM b [RANGE 2 s SLIDE 2 s])[ROWS 3]",
    "three": "SELECT a.k AS k, b.v AS y, c.v AS z FROM a [RANGE 5 s], b [RANGE 5 s], c [RANGE 5 s INTERNAL] "
    "WHERE a.k = b.k AND b.k = c.k",
    "named": "SELECT a.v AS x, n.name AS name FROM a [RANGE 9 s SLIDE 3 s] LEFT JOIN names n ON a.k = n.k "
    "JOIN b [RANGE 5 s] ON a.v = b.v",
    "only_named": "SELECT DISTINCT n.name AS name FROM a [RANGE 9 s SLIDE 3 s] JOIN names n ON a.k = n.k",
}
Events = list[dict[str, Any]]


def events(seed: int, number: int = 26) -> Events:
    """About one a second, with ties, NULL keys and disorder within the lateness."""
    rng = random.Random(seed)
    times = sorted(rng.randrange(number) * SECOND + rng.choice((0, 0, 400_000)) for _ in range(number))
    made = [{"ts": ts, "k": rng.choice(("x", "y", "z", None)), "v": rng.randrange(4)} for ts in times]
    return sorted(made, key=lambda event: event["ts"] + rng.randrange(2 * SECOND))


def longer() -> dict[str, Events]:
    """A minute of two streams, longer than windows are in each of three batches."""
    return {name: events(seed, 60) for seed, name in enumerate(("a", "b"), 8)}


def in_batches(made: Events, number: int = 3) -> list[Events]:
    return [made[len(made) * i // number : len(made) * (i + 1) // number] for i in range(number)]


def write(folder: Path, format_: str, parts: Sequence[Events], first: int = 0) -> None:
    """One file for each batch, read in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, part in enumerate(parts, first):
        path, hidden = folder / f"{i:03d}.{format_}", folder / f"_{i:03d}.{format_}"
        if format_ == "parquet":
            columns = {name: pa.array([event[name] for event in part], type_) for name, type_ in ARROW.items()}
            pq.write_table(pa.table(columns), hidden)
        else:
            hidden.write_text("".join(json.dumps({**event, "ts": text_of(event["ts"])}) + "\n" for event in part))
        os.utime(hidden, (1_000_000_000 + i, 1_000_000_000 + i))
        hidden.rename(path)


def text_of(ts: int) -> str:
    return f"1970-01-01 00:{ts // 60_000_000:02d}:{ts // SECOND % 60:02d}.{ts % SECOND:06d}"


def write_names(base: Path, names: Mapping[str, str]) -> None:
    beside = base / ".names.csv"
    beside.write_text("k,name\n" + "".join(f"{k},{name}\n" for k, name in names.items()))
    beside.replace(base / "names.csv")


def script(base: Path, *, retroactive: bool = False) -> str:
    """The streams a, b and c and the table of names."""
    made = [
        f"CREATE STREAM {name} (ts TIMESTAMP, k STRING, v INT) USING {format_} "
        f"OPTIONS (path '{base / name}', maxFilesPerTrigger '1') TIMESTAMP BY ts LATENESS '3 s';"
        for name, format_ in FORMATS.items()
    ]
    kind = "RETROACTIVE TABLE" if retroactive else "TABLE"
    table = f"CREATE {kind} names (k STRING, name STRING) USING csv OPTIONS (path '{base / 'names.csv'}', header true)"
    return "\n".join([*made, table])


def bound(text: str, name: str, table: Table = TABLE) -> Relation:
    return bind_relation(parse_query(text, name=name), STREAMS, {"names": table})


def told(table: pa.Table, known: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
    """The rows in an order, of these columns or of all."""
    table = table if known is None else table.select(known)
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return sorted(zip(*(c.to_pylist() for c in columns), strict=True), key=repr)


def expected(relation: Relation, given: Mapping[str, Events], **more: Any) -> list[tuple[Any, ...]]:
    return sorted(reference.answer(relation, STREAMS, given, TABLES, **more).rows, key=repr)


def until(engine: Engine, done: Callable[[], bool]) -> None:
    while not done():
        engine.wait(0.02)
        assert not engine.failed


@pytest.fixture(scope="module")
def given() -> dict[str, Events]:
    return {name: events(seed) for seed, name in enumerate(STREAMS, 3)}


@pytest.fixture(scope="module")
def sources(given: dict[str, Events], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The events in files, with two in the last batch of b that come too late."""
    base = tmp_path_factory.mktemp("sources")
    for name, made in given.items():
        parts = in_batches(made)
        if name == "b":
            late = [{"ts": ts, "k": "x", "v": 1} for ts in (SECOND, 2 * SECOND)]
            parts[-1] = [late[0], *parts[-1], late[1]]
        write(base / name, FORMATS[name], parts)
    write_names(base, NAMES)
    return base


@pytest.fixture(scope="module")
def right(given: dict[str, Events]) -> dict[str, list[tuple[Any, ...]]]:
    return {name: expected(bound(text, name), given) for name, text in QUERIES.items()}


@pytest.mark.parametrize(("sharing", "expiry"), [("auto", "upa"), ("off", "upa"), ("auto", "nt"), ("off", "scan")])
def test_answers_are_those_of_the_reference(
    sharing: str, expiry: str, spark: SparkSession, sources: Path, right: dict[str, list[tuple[Any, ...]]]
) -> None:
    with Engine(spark, sharing=sharing, expiry=expiry) as engine:
        engine.execute(script(sources))
        for name, text in QUERIES.items():
            engine.query(text, name=name)
        engine.run()
        for name, rows in right.items():
            answer = engine.results(name).to_arrow()
            # Negative tuples say when a row ends only when it does.
            hidden = answer.column_names.index("expires_at") if expiry == "nt" and name != "counts" else None
            known = [c for i, c in enumerate(answer.column_names) if i != hidden]
            rows = sorted((tuple(v for i, v in enumerate(row) if i != hidden) for row in rows), key=repr)
            assert rows and told(answer, known) == rows, name
        counts = engine.counts["b"]
        assert counts.late == 2 and counts.events == 26 and counts.late_by_query["pairs"] == 2
        assert pa.concat_tables(engine.aside("late"))["ts"].cast(pa.int64()).to_pylist() == [SECOND, 2 * SECOND]
        assert engine.answers == sum(map(len, right.values()))


def test_queries_come_and_go_while_streams_run(spark: SparkSession, tmp_path: Path) -> None:
    """Who comes later shares the join that is there, and answers only windows after it came."""
    given = longer()
    parts = {name: in_batches(given[name]) for name in ("a", "b")}
    for name, some in parts.items():
        write(tmp_path / name, FORMATS[name], some[:1])
    with Engine(spark) as engine:
        engine.execute(script(tmp_path))
        engine.query(QUERIES["pairs"], name="pairs")
        engine.query(QUERIES["leaving"], name="dropped")
        engine.start(follow=True)

        def has_read(number: int) -> bool:
            counts = engine.counts
            return all(name in counts and counts[name].batches >= number for name in parts)

        until(engine, lambda: has_read(1))
        (run,) = engine.relations.runs.values()
        operators = len(run.own.networks["shared"].working)
        newest = max(event["ts"] for some in parts.values() for event in some[0])
        engine.query(QUERIES["pairs"], name="later")
        engine.query(QUERIES["every"], name="later_every")
        engine.drop("dropped")
        for name, some in parts.items():
            write(tmp_path / name, FORMATS[name], some[1:], 1)
        until(engine, lambda: has_read(3))
        assert set(run.relations) == {"pairs", "later", "later_every"}
        assert len(run.own.networks["shared"].working) <= operators + 1
        engine.stop()
        seen = {name: told(engine.results(name).to_arrow()) for name in run.relations}
    for name, rows in seen.items():
        relation = bound(QUERIES["pairs" if name == "later" else name.removeprefix("later_")], name)
        relation = relation if name == "pairs" else entering_at(relation, newest + 1, frozenset())
        whole = [row for row in expected(relation, given) if row[1] < run.now]
        assert rows == whole, name
        assert rows, name
        assert name == "pairs" or all(row[0] > newest for row in rows)


def test_a_table_that_changes_revises_answers_once_across_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    given = longer()
    text = (
        "SELECT a.k AS k, a.v AS x, b.v AS y, n.name AS name FROM a [RANGE 9 s] "
        "JOIN b [RANGE 9 s] ON a.k = b.k JOIN names n ON a.k = n.k"
    )
    parts = {name: in_batches(given[name]) for name in ("a", "b")}
    place = {"out": tmp_path / "out", "checkpoint": tmp_path / "state"}
    versions: list[tuple[int, Events]] = []
    reached = 0

    def opened() -> Engine:
        engine = Engine(spark, **place)  # type: ignore[arg-type]
        engine.execute(script(tmp_path, retroactive=True))
        engine.query(text, name="q")
        return engine

    write_names(tmp_path, NAMES)
    for i, names in enumerate((NAMES, {"x": "uno", "z": "three"})):
        for name, some in parts.items():
            write(tmp_path / name, FORMATS[name], some[i : i + 1], i)
        if i:
            write_names(tmp_path, names)
            versions.append((reached, [{"k": k, "name": name} for k, name in names.items()]))
        with opened() as engine:
            engine.start(follow=True)
            (run,) = engine.relations.runs.values()
            read = [max(event["ts"] for event in some[i]) - 3 * SECOND for some in parts.values()]
            until(engine, lambda run=run, read=read: run.now >= min(read))  # type: ignore[misc]
            engine.stop()
            reached = run.now
    for name, some in parts.items():
        write(tmp_path / name, FORMATS[name], some[2:], 2)
    with opened() as engine:
        engine.run(close=True)
        rows = told(engine.results("q").to_arrow())
    relation = bound(text, "q", Table("names", TABLE.columns, "csv", (), retroactive=True))
    right = expected(relation, given, versions={"names": versions})
    assert rows == right
    revised = [row for row in rows if row[1] == versions[0][0]]
    assert {row[-1] for row in revised} == {-1, 1} and {row[5] for row in revised} >= {"one", "uno"}


@pytest.mark.parametrize("then", [True, False])
def test_a_restart_refuses_a_table_that_became_or_was_retroactive(
    spark: SparkSession, tmp_path: Path, then: bool
) -> None:
    given = longer()
    write_names(tmp_path, NAMES)
    for name in ("a", "b"):
        write(tmp_path / name, FORMATS[name], in_batches(given[name])[:1], 0)

    def opened(*, retroactive: bool) -> Engine:
        engine = Engine(spark, out=tmp_path / "out", checkpoint=tmp_path / "state")
        engine.execute(script(tmp_path, retroactive=retroactive))
        text = "SELECT count(*) AS c FROM a [RANGE 9 s SLIDE 3 s] JOIN names n ON a.k = n.k"
        engine.query(text, name="q")
        return engine

    def go_on(engine: Engine) -> None:
        engine.start(follow=True)
        until(engine, lambda: engine.runs["a"].newest is not None)
        engine.stop()

    with opened(retroactive=then) as engine:
        go_on(engine)
    with opened(retroactive=not then) as engine, pytest.raises(CheckpointError, match="tables were declared otherwise"):
        engine.start(follow=True)
    with opened(retroactive=then) as engine:
        go_on(engine)


def test_materialised_results_and_questions(spark: SparkSession, sources: Path, given: dict[str, Events]) -> None:
    join = "SELECT a.k AS k, a.v AS x, b.v AS y FROM a [RANGE 9 s] JOIN b [RANGE 5 s] ON a.k = b.k"
    reading = {
        "some": ("SELECT k, y FROM kept WHERE x > 1", f"SELECT k, y FROM ({join}) j WHERE x > 1"),
        "keys": ("SELECT DISTINCT k FROM kept", f"SELECT DISTINCT k FROM ({join}) j"),
    }
    asked = "SELECT a.k AS k, b.v AS y FROM a [RANGE 6 s] JOIN b [RANGE 6 s] ON a.k = b.k"
    with Engine(spark) as engine:
        engine.execute(script(sources) + f"; CREATE QUERY kept MATERIALIZED AS {join}")
        for name, (text, _) in reading.items():
            engine.query(text, name=name)
        engine.prepare(asked)
        engine.run()
        for name, (_, meaning) in reading.items():
            assert told(engine.results(name).to_arrow()) == expected(bound(meaning, name), given)
        newest = max(event["ts"] for some in (given["a"], given["b"]) for event in some)
        present = there(given, newest, {"a": 9, "b": 5})
        key = present[0][0]["k"]
        everything = engine.ask("SELECT k, x, y FROM kept")
        by_key = engine.ask(f"SELECT x, y FROM kept WHERE k = '{key}'")
        assert items(everything.to_arrow(), 3) == sorted((one["k"], one["v"], other["v"]) for one, other in present)
        with_key = [(one["v"], other["v"]) for one, other in present if one["k"] == key]
        assert items(by_key.to_arrow(), 2) == sorted(with_key)
        assert everything.answered_from == "the materialised result of 'kept'"
        assert by_key.answered_from.endswith("found by its key")
        present = there(given, newest, {"a": 6, "b": 6})
        answer = engine.ask(asked).to_arrow()
        assert present and items(answer, 2) == sorted((one["k"], other["v"]) for one, other in present)
        with pytest.raises(NotSupported, match="ISTREAM in a question that is asked once") as refused:
            engine.ask(f"ISTREAM({asked})")
        assert refused.value.place is not None and "leave it out" in str(refused.value)


def there(given: Mapping[str, Events], now: int, ranges: Mapping[str, int]) -> list[tuple[dict[str, Any], ...]]:
    """The pairs of events with equal keys that both windows hold at a time."""
    left, right = ([e for e in given[n] if e["ts"] <= now < e["ts"] + r * SECOND] for n, r in ranges.items())
    return [(one, other) for one in left for other in right if one["k"] is not None and one["k"] == other["k"]]


def items(table: pa.Table, number: int) -> list[tuple[Any, ...]]:
    """The first items of an answer, after the bounds of its window."""
    return sorted(row[2 : 2 + number] for row in told(table))


def test_a_question_with_a_join_on_the_command_line(
    spark: SparkSession, sources: Path, given: dict[str, Events], tmp_path: Path
) -> None:
    path = tmp_path / "script.sql"
    path.write_text(script(sources))
    question = "SELECT count(*) AS n FROM a [RANGE 9 s] JOIN b [RANGE 9 s] ON a.k = b.k"
    result = CliRunner().invoke(app, ["ask", str(path), question, "--format", "json"])
    assert result.exit_code == 0, result.output
    newest = max(event["ts"] for some in (given["a"], given["b"]) for event in some)
    assert json.loads(result.stdout.splitlines()[0])["n"] == len(there(given, newest, {"a": 9, "b": 9}))


def test_input_that_comes_between_runs(spark: SparkSession, tmp_path: Path) -> None:
    """Several runs over what has come until then, of one stream or of both, answer as one that sees all of it."""
    given = longer()
    asked = {name: QUERIES[name] for name in ("every", "alone", "keys", "surplus", "counts")}
    place = {"out": tmp_path / "out", "checkpoint": tmp_path / "state"}
    parts = {name: in_batches(given[name], 4) for name in ("a", "b")}
    with Engine(spark, **place) as engine:  # type: ignore[arg-type]
        engine.execute(script(tmp_path))
        for name, text in asked.items():
            engine.query(text, name=name)
        for i, those in enumerate(("ab", "a", "ab", "b", "a", "b", "")):
            for name in those:
                done = len(list((tmp_path / name).glob("*"))) if (tmp_path / name).exists() else 0
                write(tmp_path / name, FORMATS[name], [parts[name][done]], done)
            engine.run(close=i == 6)
        for name, text in asked.items():
            assert told(engine.results(name).to_arrow()) == expected(bound(text, name), given), name


@pytest.mark.parametrize("number", [0, 1])
def test_hardly_any_input(number: int, spark: SparkSession, tmp_path: Path) -> None:
    """Nothing at all, or one event, and a stream that stays empty."""
    given: dict[str, Events] = {"a": [{"ts": 5 * SECOND, "k": "x", "v": 1}][:number], "b": [], "c": []}
    for name, made in given.items():
        write(tmp_path / name, FORMATS[name], [made] if made else [])
    write_names(tmp_path, NAMES)
    with Engine(spark) as engine:
        engine.execute(script(tmp_path))
        for name, text in QUERIES.items():
            engine.query(text, name=name)
        engine.run()
        for name, text in QUERIES.items():
            assert told(engine.results(name).to_arrow()) == expected(bound(text, name), given), name
        assert bool(engine.answers) == bool(number)
