"""Tables as batches see them: types, changes, what is played again, what cannot be read."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mullion.algebra.nodes import TableLookup, nodes
from mullion.algebra.streams import Table
from mullion.engine import Engine
from mullion.errors import CheckError, CheckpointError, MullionError, SourceError
from mullion.expressions.vector import arrow_type
from mullion.language.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, TIMESTAMP_NTZ, Type, decimal
from mullion.spark.tables import TableStore
from mullion.storage.files import REMOVED, CommittedFiles, label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = (("symbol", STRING), ("cp", DOUBLE))


def csv_table(path: Path, columns: Sequence[tuple[str, Type]] = COLUMNS) -> Table:
    return Table("close", tuple(columns), "csv", (("path", str(path)), ("header", "true")))


def write(path: Path, *lines: str) -> None:
    """As a careful writer does: beside it, then in its place."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text("\n".join(("symbol,cp", *lines)) + "\n", encoding="utf-8")
    os.replace(beside, path)


def store(spark: SparkSession, table: Table, directory: Path | None = None) -> TableStore:
    return TableStore(lambda: spark, {table.name: table}, None if directory is None else CommittedFiles(directory))


def label(path: Path) -> str | None:
    return label_of(path.name)


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*table.to_pydict().values(), strict=True))


def test_types_are_exactly_the_tables(spark: SparkSession, tmp_path: Path) -> None:
    types = (BOOLEAN, INT, BIGINT, DOUBLE, STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ, decimal(12, 3))
    columns = tuple((f"c{i}", type_) for i, type_ in enumerate(types))
    when = datetime(2024, 1, 2, 3, 4, 5, 6, UTC)
    values = (True, 1, 2**40, math.inf, "ä", date(2024, 1, 2), when, when.replace(tzinfo=None), Decimal("1.250"))
    fields = [(name, arrow_type(type_)) for name, type_ in columns]
    made = pa.table({n: pa.array([v, None], t) for (n, t), v in zip(fields, values, strict=True)})
    pq.write_table(made, tmp_path / "t.parquet")
    table = Table("all", columns, "parquet", (("path", str(tmp_path / "t.parquet")),))
    found = store(spark, table).current("all", 0)
    assert rows(found) == [values, (None,) * len(values)]
    assert found.schema == pa.schema(fields)


def test_a_value_that_does_not_parse_is_null(spark: SparkSession, tmp_path: Path) -> None:
    write(path := tmp_path / "close.csv", "A,1.5", "B,much", "C")
    found = rows(store(spark, csv_table(path)).current("close", 0))
    assert found == [("A", 1.5), ("B", None), ("C", None)]


def test_a_change_is_seen_by_the_next_batch_and_costs_nothing_otherwise(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path := tmp_path / "close.csv", "A,1")
    tables = store(spark, csv_table(path))
    first = tables.current("close", 0)
    with monkeypatch.context() as patch:
        patch.setattr("mullion.spark.tables.open_table", None)
        assert tables.current("close", 1) is first
    write(path, "A,2")
    assert rows(tables.current("close", 2)) == [("A", 2.0)]


def test_a_folder_of_files(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "one.csv", "A,1")
    tables = store(spark, csv_table(tmp_path))
    assert rows(tables.current("close", 0)) == [("A", 1.0)]
    write(tmp_path / "two.csv", "B,2")
    assert sorted(rows(tables.current("close", 1))) == [("A", 1.0), ("B", 2.0)]
    (tmp_path / "one.csv").unlink()
    assert rows(tables.current("close", 2)) == [("B", 2.0)]


def test_a_batch_played_again_sees_what_it_saw(spark: SparkSession, tmp_path: Path) -> None:
    write(path := tmp_path / "close.csv", "A,1")
    journal = tmp_path / "journal"
    tables = store(spark, csv_table(path), journal)
    tables.current("close", 0)
    tables.current("close", 1)
    write(path, "A,2")
    tables.current("close", 2)
    written = journal / "tables" / "close"
    assert sorted(map(label, written.iterdir())) == ["000000000000", "000000000002"]
    write(path, "A,3")
    again = store(spark, csv_table(path), journal)
    seen = [rows(again.current("close", batch)) for batch in (0, 1, 2, 3, 4)]
    assert seen == [[("A", v)] for v in (1.0, 1.0, 2.0, 3.0, 3.0)]
    third = store(spark, csv_table(path), journal)
    assert rows(third.current("close", 4)) == [("A", 3.0)]
    assert len(list(written.iterdir())) == 3


def test_versions_that_no_batch_can_see_again_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    journal, table = tmp_path / "journal", csv_table(path := tmp_path / "close.csv")
    tables = store(spark, table, journal)
    for batch in range(5):
        write(path, f"A,{batch}")
        tables.current("close", batch)
    assert list(map(label, map(Path, tables.files_after(2)))) == [f"{i:012d}" for i in (1, 2, 3, 4)]
    tables.forget(2)
    written = sorted(map(label, (journal / "tables" / "close").iterdir()))
    assert written == [*(f"{i:012d}" for i in (1, 2, 3, 4)), REMOVED]
    again = store(spark, table, journal)
    assert [rows(again.current("close", batch)) for batch in (3, 4)] == [[("A", 3.0)], [("A", 4.0)]]
    again.forget(7)
    last = store(spark, table, journal)
    assert rows(last.seen("close")) == [("A", 4.0)] and last.changed == {"close"}


def test_a_table_that_disappears_keeps_its_rows(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(path := tmp_path / "close.csv", "A,1")
    tables = store(spark, csv_table(path), tmp_path / "journal")
    tables.current("close", 0)
    path.unlink()
    with caplog.at_level(logging.WARNING, "mullion"):
        assert rows(tables.current("close", 1)) == rows(tables.current("close", 2)) == [("A", 1.0)]
    assert len(caplog.records) == 1 and "close" in caplog.text
    restarted = store(spark, csv_table(path), tmp_path / "journal")
    assert rows(restarted.current("close", 3)) == [("A", 1.0)]
    write(path, "A,9")
    assert rows(restarted.current("close", 4)) == [("A", 9.0)]


def test_a_table_that_was_never_there(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is nothing at") as error:
        store(spark, csv_table(tmp_path / "none.csv")).current("close", 0)
    assert error.value.hint
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    bad = Table("close", COLUMNS, "parquet", (("path", str(tmp_path / "bad.parquet")),))
    with pytest.raises(SourceError, match=r"table close: .*bad\.parquet is not a Parquet file") as error:
        store(spark, bad).current("close", 0)
    assert error.value.hint


def test_a_checkpoint_of_other_columns_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    write(path := tmp_path / "close.csv", "A,1")
    store(spark, csv_table(path), tmp_path).current("close", 0)
    other = csv_table(path, (("symbol", STRING), ("cp", INT)))
    with pytest.raises(CheckpointError, match="has other columns"):
        store(spark, other, tmp_path).current("close", 0)


def test_rows_handed_over(spark: SparkSession) -> None:
    tables = store(spark, Table("close", COLUMNS, "frame"))
    tables.frames["close"] = spark.createDataFrame(pa.table({"symbol": ["A"], "cp": [math.nan]}))
    first = tables.current("close", 0)
    assert first.schema == pa.schema([("symbol", pa.string()), ("cp", pa.float64())])
    assert tables.current("close", 1) is first


def test_rows_from_python_are_a_table(spark: SparkSession) -> None:
    made = pa.table({"symbol": ["A", None], "cp": [1.5, 2.5], "tags": [["nested", "types"], ["are left out"]]})
    with Engine(spark) as engine:
        events = spark.createDataFrame([(datetime(2024, 1, 1, tzinfo=UTC), "A")], "ts timestamp, symbol string")
        engine.stream("trades", events, time="ts")
        for name, given in (("arrow", made), ("pandas", made.to_pandas()), ("spark", spark.createDataFrame(made))):
            engine.table(name, given)
            assert rows(engine._tables.store_of("trades").current(name, 0)) == [("A", 1.5), (None, 2.5)]
        with pytest.raises(CheckError, match="already a stream or table 'ARROW'"):
            engine.table("ARROW", made)
        with pytest.raises(MullionError, match="streaming"):
            engine.table("late", spark.readStream.format("rate").load())
        engine.execute("CREATE RETROACTIVE TABLE limits (a INT) USING csv OPTIONS (path 'x')")
        assert engine.catalog.tables["limits"].retroactive and not engine.catalog.tables["arrow"].retroactive
        window = "[RANGE '1 min' SLIDE '1 min']"
        engine.query(f"SELECT max(cp) AS m FROM trades {window} t, arrow a WHERE t.symbol = a.symbol", name="joined")
        assert [
            node.lookup.name
            for node in nodes(engine.catalog.query_named("joined").root)
            if isinstance(node, TableLookup)
        ] == ["arrow[symbol = symbol]"]
