"""A stream or table with nothing at its path is refused where that is written, before Spark starts. Without a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.errors import NothingThere, SourceError
from mullion.language.types import TIMESTAMP
from mullion.service.operation import asked_sources
from mullion.spark.own_session import OwnSession
from mullion.spark.sources import check_there

SCRIPT = (
    "CREATE STREAM s {columns}\nUSING {format} OPTIONS (maxFilesPerTrigger 1, «Path '{path}'»)\nTIMESTAMP BY ts;\n"
    "CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]"
)
COLUMNS = "(ts TIMESTAMP)"


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: OwnSession) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(OwnSession, "get", start)
    monkeypatch.setattr("mullion.spark.own_session.is_running", lambda: False)  # by tests of the same process


def plain(marked: str) -> str:
    return marked.replace("«", "").replace("»", "")


def assert_shown(error: NothingThere, marked: str, path: object, name: str = "s") -> None:
    assert error.message == f"{name}: there is nothing at {path}" and error.hint == "check the path in OPTIONS"
    assert error.place is not None
    written = plain(marked)[error.place.start : error.place.end]
    assert (error.place.start, written) == (marked.index("«"), marked.split("«")[1].split("»")[0])


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(("format_", "path"), [("parquet", "none"), ("csv", "none"), ("parquet", "none/*.parquet")])
def test_a_path_with_nothing_is_shown_when_a_run_begins(tmp_path: Path, format_: str, path: str, follow: bool) -> None:
    marked = SCRIPT.format(columns=COLUMNS, format=format_, path=tmp_path / path)
    with Engine(out=tmp_path / "out") as engine:
        engine.execute(plain(marked))
        with pytest.raises(NothingThere) as told:
            engine.run(follow=follow)
    assert_shown(told.value, marked, tmp_path / path)
    assert not (tmp_path / "out").exists()


JOINED = (
    "CREATE STREAM s (ts TIMESTAMP, k STRING) USING parquet OPTIONS (path '{events}') TIMESTAMP BY ts;\n"
    "CREATE TABLE unread (k STRING) USING csv OPTIONS (path '{events}/none.csv');\n"
    "CREATE {kind} t (k STRING) USING csv OPTIONS («path '{rows}'»);\n"
    "CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s], t WHERE s.k = t.k"
)


@pytest.mark.parametrize("kind", ["TABLE", "RETROACTIVE TABLE"])
def test_so_is_that_of_a_table_that_queries_read(tmp_path: Path, kind: str) -> None:
    marked = JOINED.format(kind=kind, events=tmp_path, rows=tmp_path / "rows.csv")
    with Engine(out=tmp_path / "out") as engine:
        engine.execute(plain(marked))
        with pytest.raises(NothingThere) as told:
            engine.run()
        assert_shown(told.value, marked, tmp_path / "rows.csv", "t")
        (tmp_path / "rows.csv").touch()
        check_there(asked_sources(engine.catalog), {})
    assert not (tmp_path / "out").exists()


def test_without_a_schema_it_is_shown_at_once(tmp_path: Path) -> None:
    marked = SCRIPT.format(columns="", format="parquet", path=tmp_path / "none")
    with Engine() as engine, pytest.raises(NothingThere) as told:
        engine.execute(plain(marked))
    assert_shown(told.value, marked, tmp_path / "none")
    (tmp_path / "none").mkdir()
    with Engine() as engine, pytest.raises(NothingThere, match="is empty, so its schema cannot be read"):
        engine.execute(plain(marked))
    with Engine() as engine, pytest.raises(SourceError, match="csv does not carry a schema"):
        engine.execute(plain(marked).replace("parquet", "csv"))


def test_what_comes_before_the_run_is_read(tmp_path: Path) -> None:
    """Only when it begins must there be something, and what was refused changes nothing."""
    with Engine() as engine:
        marked = SCRIPT.format(columns=COLUMNS, format="parquet", path=tmp_path / "in")
        engine.execute(plain(marked).replace("maxFilesPerTrigger 1, ", ""))
        with pytest.raises(NothingThere):
            engine.run()
        (tmp_path / "in").mkdir()
        pq.write_table(
            pa.table({"ts": pa.array([1_700_000_000_000_000], pa.timestamp("us", "UTC"))}), tmp_path / "in/a"
        )
        engine.run()
        assert [row["n"] for row in engine.results("q").to_arrow().to_pylist()] == [1]


def test_empty_folders_patterns_and_other_machines(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "1.csv").touch()
    for path in (tmp_path / "in", tmp_path / "?.csv", "s3a://nobody/nowhere"):
        check_there([Stream("s", (("ts", TIMESTAMP),), "ts", format="csv", options=(("path", str(path)),))], {})
    check_there([Stream("s", (("ts", TIMESTAMP),), "ts", format="rate")], {})
    check_there([Stream("s", (("ts", TIMESTAMP),), "ts")], {})
