"""Which queries a batch sees when it is played again."""

from __future__ import annotations

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
