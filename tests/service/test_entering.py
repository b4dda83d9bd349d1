"""Which queries a batch sees when it is played again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mullion.algebra.streams import Stream, Table
from mullion.binding.relations import bind
from mullion.catalog.catalog import Catalog
from mullion.catalog.restart import to_journal
from mullion.errors import CheckError, CheckpointError, MullionError
from mullion.language.parse import parse_query
from mullion.language.types import INT, STRING, TIMESTAMP
from mullion.service.entering import Entering
from mullion.storage.journal import Journal
from mullion.testing import Crash, crash_at
from without_spark import EngineWithoutSpark, local_engine

TEXT = "SELECT max(level) AS m FROM s [RANGE 10 s SLIDE 5 s] JOIN t ON s.k = t.k"


def catalog(*, retroactive: bool) -> Catalog:
    declared = Catalog()
    declared.add_stream(Stream("s", (("ts", TIMESTAMP), ("k", STRING)), "ts"))
    declared.add_table(Table("t", (("k", STRING), ("level", INT)), "csv", retroactive=retroactive))
    return declared


def queries_of_batch(now: Catalog, checkpoint: Path) -> list[str]:
    run: Any = SimpleNamespace(journal=Journal(checkpoint), stream=now.streams["s"], begun=False)
    unused: Any = None
    return [plan.name for plan in Entering(now, unused, unused).streams.queries_of_batch(run, 0)]


def test_a_batch_played_again_sees_its_queries_or_is_refused(tmp_path: Path) -> None:
    """Also those that the script no longer has."""
    then = catalog(retroactive=False)
    relation = bind(parse_query(TEXT, name="q"), then.streams, then.tables)
    Journal(tmp_path).begin(0, [to_journal(relation)])
    assert queries_of_batch(then, tmp_path) == ["q"]
    with pytest.raises(CheckpointError, match=r"query 'q' .* its tables were declared otherwise"):
        queries_of_batch(catalog(retroactive=True), tmp_path)


SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING) USING json OPTIONS (path 'nowhere') TIMESTAMP BY ts;
CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s];
"""
ANOTHER = "SELECT max(k) AS m FROM s [RANGE 5 s SLIDE 5 s]"


def at(second: int) -> dict[str, Any]:
    return {"ts": second * 1_000_000, "k": "a"}


def counted(engine: EngineWithoutSpark) -> list[int]:
    engine.deliver("s", [at(4), at(7), at(12)], 1)
    return [int(n) for n in engine.results("q").to_arrow()["n"].to_pylist()]


def test_a_name_that_is_taken_does_not_let_its_query_enter_again() -> None:
    with local_engine(SCRIPT) as engine:
        engine.deliver("s", [at(1), at(2)], 0)
        with pytest.raises(CheckError, match="there is already a query 'q'"):
            engine.query(ANOTHER, name="q")
        assert counted(engine) == [4]


def test_a_script_that_is_not_carried_out_does_not_let_queries_enter_again() -> None:
    with local_engine(SCRIPT) as engine:
        engine.deliver("s", [at(1), at(2)], 0)
        with pytest.raises(MullionError):
            engine.execute(f"DROP QUERY q; CREATE QUERY q AS {ANOTHER}; DROP QUERY nobody;")
        assert counted(engine) == [4]


def test_a_query_enters_though_another_was_refused_its_name() -> None:
    """It has missed what came before it, and so does not answer the windows that hold it."""
    with local_engine(SCRIPT) as engine:
        engine.deliver("s", [at(1), at(2)], 0)
        engine.query(ANOTHER, name="late")
        with pytest.raises(CheckError, match="there is already a query 'late'"):
            engine.query(ANOTHER, name="late")
        assert counted(engine) == [4]
        starts = engine.results("late").to_arrow()["window_start"].cast("int64").to_pylist()
        assert starts == [5_000_000]


# A name that is dropped and created again: whenever that is, the new query has missed what came before it.

AGAIN = {
    "the same": "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]",
    "other groups": "SELECT max(k) AS n FROM s [RANGE 5 s SLIDE 5 s]",
    "a longer window": "SELECT count(*) AS n FROM s [RANGE 20 s SLIDE 5 s]",
    "by rows": "SELECT count(*) AS n FROM s [ROWS 3]",
    "by partitions": "SELECT count(*) AS n FROM s [PARTITION BY k ROWS 2]",
    "by operators": "SELECT DISTINCT k AS n FROM s [RANGE 10 s SLIDE 10 s]",
}
BATCHES = [[at(1), at(2)], [at(4), at(7), at(12)], [at(32)]]


def drop_and_create(engine: EngineWithoutSpark, text: str) -> None:
    engine.drop("q")
    engine.query(text, name="q")


def rest(engine: EngineWithoutSpark) -> list[dict[str, Any]]:
    for number, rows in enumerate(BATCHES[1:], 1):
        engine.deliver("s", rows, number)
    return rest_of(engine, "q")


def rest_of(engine: EngineWithoutSpark, name: str) -> list[dict[str, Any]]:
    return engine.results(name).to_arrow().select(["window_start", "window_end", "n"]).to_pylist()  # type: ignore[no-any-return]


def taken_over_at_work(text: str, **places: Path) -> list[dict[str, Any]]:
    with local_engine(SCRIPT, **places) as engine:
        engine.deliver("s", BATCHES[0], 0)
        drop_and_create(engine, text)
        return rest(engine)


def taken_over_between_runs(text: str, **places: Path) -> list[dict[str, Any]]:
    with local_engine(SCRIPT, **places) as engine:
        engine.deliver("s", BATCHES[0], 0)
        engine.stop()
        drop_and_create(engine, text)
        engine.start()
        return rest(engine)


def taken_over_after_a_restart(text: str, **places: Path) -> list[dict[str, Any]]:
    with local_engine(SCRIPT, **places) as engine:
        engine.deliver("s", BATCHES[0], 0)
    with local_engine(SCRIPT, **places) as engine:
        drop_and_create(engine, text)
        return rest(engine)


def entered_late(text: str) -> list[dict[str, Any]]:
    with local_engine(SCRIPT) as engine:
        engine.deliver("s", BATCHES[0], 0)
        engine.query(text, name="late")
        rest(engine)
        return rest_of(engine, "late")


@pytest.mark.parametrize("text", AGAIN.values(), ids=AGAIN)
@pytest.mark.parametrize("scene", [taken_over_at_work, taken_over_between_runs, taken_over_after_a_restart])
def test_a_query_of_a_dropped_name_has_missed_what_came_before_it(
    text: str, scene: Callable[..., list[dict[str, Any]]], tmp_path: Path
) -> None:
    assert scene(text, checkpoint=tmp_path / "c", out=tmp_path / "o") == entered_late(text)


@pytest.mark.parametrize("text", [text for name, text in AGAIN.items() if name != "by operators"])
def test_a_batch_that_is_played_again_shows_its_events_to_those_that_it_saw(text: str, tmp_path: Path) -> None:
    """To others it is as if it had been committed."""
    places = {"checkpoint": tmp_path / "c", "out": tmp_path / "o"}
    with local_engine(SCRIPT, **places) as engine, crash_at("before commit"), pytest.raises(Crash):
        engine.deliver("s", BATCHES[0], 0)
    with local_engine(f"{SCRIPT} CREATE QUERY new AS {text}", **places) as engine:
        drop_and_create(engine, text)
        engine.deliver("s", BATCHES[0], 0)
        assert rest(engine) == rest_of(engine, "new") == entered_late(text)


@pytest.mark.parametrize("text", AGAIN.values(), ids=AGAIN)
def test_a_query_that_is_dropped_and_created_as_it_was_begins_anew(text: str) -> None:
    with local_engine(SCRIPT.replace(AGAIN["the same"], text)) as engine:
        engine.deliver("s", BATCHES[0], 0)
        drop_and_create(engine, text)
        assert rest(engine) == entered_late(text)


# Windows without a length in time, of a query that enters a stream that has begun.


@pytest.mark.parametrize("others", ["", "CREATE QUERY o AS SELECT max(k) AS m FROM s [ROWS 1]"])
def test_windows_of_rows_begin_with_events_that_came_after_the_query(others: str) -> None:
    """The last two after 4 s begin with an event at 2 s, which was there before the query."""
    counts = {}
    with local_engine(SCRIPT + others) as engine:
        engine.deliver("s", BATCHES[0], 0)
        for rows in (1, 2, 3):
            engine.query(f"SELECT count(*) AS n FROM s [ROWS {rows}]", name=f"last_{rows}")
        rest(engine)
        counts = {rows: [row["n"] for row in rest_of(engine, f"last_{rows}")] for rows in (1, 2, 3)}
    assert counts == {1: [1, 1, 1], 2: [2, 2], 3: [3]}


@pytest.mark.parametrize("others", ["", "CREATE QUERY o AS SELECT count(*) AS n FROM s [PARTITION BY k ROWS 5]"])
def test_windows_of_partitions_count_from_when_the_query_came(others: str) -> None:
    """As RANGE UNBOUNDED does: a slow partition may have had its last event long ago."""
    with local_engine(SCRIPT + others) as engine:
        engine.deliver("s", BATCHES[0], 0)
        engine.query("SELECT count(*) AS n FROM s [PARTITION BY k ROWS 2]", name="late")
        rest(engine)
        assert [row["n"] for row in rest_of(engine, "late")] == [1, 2, 2]


# What a checkpoint knows of queries.

DISTINCT = "CREATE QUERY r AS SELECT DISTINCT k AS n FROM s [RANGE 10 s SLIDE 10 s];"
OTHER = "CREATE QUERY other AS SELECT DISTINCT k AS n FROM s [RANGE 7 s];"


@pytest.mark.parametrize("others", ["", OTHER])
@pytest.mark.parametrize("meanwhile", ["", OTHER])
def test_a_relation_that_comes_again_has_missed_what_came_meanwhile(
    others: str, meanwhile: str, tmp_path: Path
) -> None:
    places = {"checkpoint": tmp_path / "c", "out": tmp_path / "o"}
    with local_engine(SCRIPT + DISTINCT + others, **places) as engine:
        engine.deliver("s", [at(1)], 0)
    with local_engine(SCRIPT + meanwhile, **places) as engine:
        engine.deliver("s", [at(4), at(12)], 1)
    with local_engine(SCRIPT + DISTINCT + meanwhile, **places) as engine:
        engine.deliver("s", [at(14), at(23)], 2)
        engine.deliver("s", [at(42)], 3)
        starts = [row["window_start"].second for row in rest_of(engine, "r")]
    assert starts == [20]


CHANGED = {
    "from slices to operators": ("count(*) AS n FROM s [RANGE 5 s]", "DISTINCT k FROM s [RANGE 5 s]"),
    "from operators to slices": ("DISTINCT k FROM s [RANGE 5 s]", "count(*) AS n FROM s [RANGE 5 s]"),
    "from one stream to another": ("count(*) AS n FROM s [RANGE 5 s]", "count(*) AS n FROM t [RANGE 5 s]"),
    "from two streams to one": (
        "s.k FROM s [RANGE 5 s], t [RANGE 5 s] WHERE s.k = t.k",
        "max(k) AS n FROM s [RANGE 5 s]",
    ),
    "from one stream to two": (
        "max(k) AS n FROM s [RANGE 5 s]",
        "s.k FROM s [RANGE 5 s], t [RANGE 5 s] WHERE s.k = t.k",
    ),
}


@pytest.mark.parametrize(("then", "now"), CHANGED.values(), ids=CHANGED)
def test_a_name_that_the_checkpoint_knows_is_not_taken_by_another_query(then: str, now: str, tmp_path: Path) -> None:
    streams = SCRIPT + "CREATE STREAM t (ts TIMESTAMP, k STRING) USING json OPTIONS (path 'no') TIMESTAMP BY ts;"
    with local_engine(f"{streams} CREATE QUERY a AS SELECT {then}", checkpoint=tmp_path) as engine:
        engine.deliver("s", [at(1)], 0)
        engine.deliver("t", [at(1)], 0)
    with (
        pytest.raises(CheckpointError, match="query 'a' is not the one that the checkpoint knows"),
        local_engine(f"{streams} CREATE QUERY a AS SELECT {now}", checkpoint=tmp_path),
    ):
        pass
    with local_engine(f"{streams} CREATE QUERY b AS SELECT {now}", checkpoint=tmp_path) as engine:
        engine.deliver("s", [at(9)], 1)
    with local_engine(f"{streams} CREATE QUERY a AS SELECT {now}", checkpoint=tmp_path) as engine:
        engine.deliver("s", [at(19)], 2)
