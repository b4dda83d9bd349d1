"""Which Parquet files the kernel reads by itself, and what it reads of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, TIMESTAMP_NTZ, decimal
from mullion.planner.rules import make_plan
from mullion.slices.bounds import Stretch
from mullion.slices.inputs import kernel_columns
from mullion.slices.kernels.events import TIME
from mullion.spark import files
from mullion.spark.files import RowGroup, can_tell_time, row_groups_of, shares
from mullion.spark.reading import read_pieces

STREAM = Stream("s", (("ts", TIMESTAMP), ("x", INT), ("name", STRING), ("cost", decimal(10, 2))), "ts")
UTC = pa.timestamp("us", "UTC")


def events(**columns: pa.Array) -> pa.Table:
    plain = {
        "ts": pa.array([1, 2, None], UTC),
        "x": pa.array([1, None, 3], pa.int32()),
        "name": pa.array(["a", "ä", None]),
        "cost": pa.array([None, None, None], pa.decimal128(10, 2)),
    }
    return pa.table(plain | columns)


def written(folder: Path, table: pa.Table, name: str = "a.parquet", **options: Any) -> str:
    path = folder / name
    path.parent.mkdir(exist_ok=True, parents=True)
    pq.write_table(table, path, **options)
    return str(path)


def test_row_groups_of_files_as_declared(tmp_path: Path) -> None:
    first = written(tmp_path, events(), row_group_size=2)
    second = written(tmp_path, events(), "b.parquet")
    assert row_groups_of([first, second], STREAM, ["x", "name", "cost"]) == [
        RowGroup(first, 0, 2),
        RowGroup(first, 1, 1, first=2, row=2),
        RowGroup(second, 0, 3, first=3),
    ]


@pytest.mark.parametrize(
    ("changed", "options"),
    [
        ({}, {"use_deprecated_int96_timestamps": True}),
        ({"ts": pa.array([1, 2, 3], pa.timestamp("ns", "UTC"))}, {}),
        ({"ts": pa.array([1, 2, 3], pa.timestamp("us"))}, {}),
        ({"ts": pa.array([1, 2, 3])}, {}),
        ({"ts": pa.array([1, 2, 3], pa.date32())}, {}),
        ({"x": pa.array([1, 2, 3], pa.int64())}, {}),
        ({"x": pa.array([1, 2, 3], pa.int16())}, {}),
        ({"x": pa.array([1, 2, 3], pa.uint32())}, {}),
        ({"x": pa.array([1, 2, 3], pa.float64())}, {}),
        ({"x": pa.array(["1", "2", "3"])}, {}),
        ({"name": pa.array([b"a", b"b", b"c"])}, {}),
        ({"cost": pa.array([None] * 3, pa.decimal128(10, 3))}, {}),
        ({"cost": pa.array([None] * 3, pa.decimal128(12, 2))}, {}),
        ({"cost": pa.array([None] * 3, pa.float64())}, {}),
    ],
)
def test_other_types_are_left_to_spark(tmp_path: Path, changed: dict[str, pa.Array], options: dict[str, Any]) -> None:
    path = written(tmp_path, events(**changed), **options)
    assert row_groups_of([path], STREAM, ["x", "name", "cost"]) is None


def test_columns_that_nobody_reads_may_be_anything(tmp_path: Path) -> None:
    path = written(tmp_path, events(x=pa.array(["1", "2", "3"])))
    assert row_groups_of([path], STREAM, ["name"]) == [RowGroup(path, 0, 3)]


def test_milliseconds_are_read_and_local_times_where_they_are_declared(tmp_path: Path) -> None:
    path = written(tmp_path, events(ts=pa.array([1, 2, 3], pa.timestamp("ms", "UTC"))))
    found = row_groups_of([path], STREAM, ["x"])
    assert found is not None
    (table,) = read_pieces(found, ["x"], "ts", [])
    assert table.to_pydict() == {"x": [1, None, 3], TIME: [1000, 2000, 3000]}
    local = Stream("s", (("ts", TIMESTAMP_NTZ), ("x", INT)), "ts")
    assert row_groups_of([path], local, ["x"]) is None
    path = written(tmp_path, events(ts=pa.array([1, 2, 3], pa.timestamp("us"))), "local.parquet")
    assert row_groups_of([path], local, ["x"]) == [RowGroup(path, 0, 3)]


def test_a_missing_column_or_one_that_is_there_twice(tmp_path: Path) -> None:
    path = written(tmp_path, events().drop_columns(["x"]))
    assert row_groups_of([path], STREAM, ["x"]) is None
    assert row_groups_of([path], STREAM, ["name"]) is not None
    other = written(tmp_path, events().rename_columns(["ts", "X", "name", "cost"]), "b.parquet")
    assert row_groups_of([other], STREAM, ["x"]) is None
    twice = written(tmp_path, events().append_column("x", pa.array([1, 2, 3], pa.int32())), "c.parquet")
    assert row_groups_of([twice], STREAM, ["x"]) is None
    assert row_groups_of([written(tmp_path, events().drop_columns(["ts"]), "d.parquet")], STREAM, ["x"]) is None


def test_one_file_of_another_kind_leaves_all_to_spark(tmp_path: Path) -> None:
    good = written(tmp_path, events())
    bad = written(tmp_path, events(x=pa.array([1, 2, 3])), "b.parquet")
    assert row_groups_of([good, bad], STREAM, ["x"]) is None


def test_partitions_in_paths(tmp_path: Path) -> None:
    assert row_groups_of([written(tmp_path, events(), "day=1/a.parquet")], STREAM, ["x"]) is None


@pytest.mark.parametrize("key", ["org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96"])
def test_old_calendars(tmp_path: Path, key: str) -> None:
    path = written(tmp_path, events().replace_schema_metadata({key: ""}))
    assert row_groups_of([path], STREAM, ["x"]) is None


def test_what_is_no_parquet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"nonsense")
    assert row_groups_of([str(tmp_path / "a.parquet")], STREAM, ["x"]) is None
    assert row_groups_of([str(tmp_path / "gone.parquet")], STREAM, ["x"]) is None
    good = written(tmp_path, events(), "good.parquet")
    monkeypatch.setattr(files, "MOST_FILES", 1)
    assert row_groups_of([good], STREAM, ["x"]) is not None
    assert row_groups_of([good, good], STREAM, ["x"]) is None


def test_only_local_files() -> None:
    assert files.local("file:///a/b%20c.parquet") == "/a/b c.parquet"
    assert files.local("/a/b") == "/a/b"
    assert files.local("hdfs://host/a") is None
    assert files.local("file://host/a") is None


def test_time_must_be_a_timestamp() -> None:
    assert can_tell_time(STREAM)
    assert not can_tell_time(Stream("s", (("d", BIGINT), ("x", DOUBLE)), "d"))


def test_reading_gives_columns_and_times_in_their_order(tmp_path: Path) -> None:
    paths = [written(tmp_path, events(), f"{i}.parquet", row_group_size=1) for i in range(2)]
    pieces = row_groups_of(paths, STREAM, ["x", "name"])
    assert pieces is not None and len(pieces) == 6
    for most, chunks in ((1_000_000, 1), (2, 3), (1, 6)):
        found = list(read_pieces(pieces, ["x", "name"], "ts", ["name"], most=most))
        assert len(found) == chunks
        whole = pa.concat_tables(found).to_pydict()
        assert whole == {"x": [1, None, 3] * 2, "name": ["a", "ä", None] * 2, TIME: [1, 2, None] * 2}
    (times,) = read_pieces(pieces[:1], ["ts"], "ts", [])
    assert times.column(TIME).to_pylist() == [1] and times.schema.field("ts").type == UTC


def test_shares_are_neighbours_and_about_equal() -> None:
    pieces = [RowGroup("a", i, 10) for i in range(8)]
    assert shares(pieces, 2) == [pieces[:4], pieces[4:]]
    assert shares(pieces, 100) == [[piece] for piece in pieces]
    assert shares(pieces, 0) == [pieces]
    assert shares([], 3) == []
    uneven = [RowGroup("a", 0, 1000), *pieces]
    assert shares(uneven, 2) == [uneven[:1], uneven[1:]]
    for tasks in range(1, 12):
        assert [piece for part in shares(uneven, tasks) for piece in part] == uneven
    empty = [RowGroup("a", 0, 0), RowGroup("b", 0, 0)]
    assert [piece for part in shares(empty, 2) for piece in part] == empty


def test_within_a_stretch_of_time() -> None:
    table = pa.table({TIME: pa.array([1, None, 5, 3])})

    def times(stretch: Stretch) -> list[Any]:
        return list(stretch.of(table).column(TIME).to_pylist())

    assert times(Stretch()) == [1, None, 5, 3]
    assert times(Stretch(3, 5)) == [None, 3]
    assert times(Stretch(3)) == [None, 5, 3]
    assert times(Stretch(3, 5).late) == [1]
    assert times(Stretch(3, 5).ahead) == [5]


@pytest.mark.parametrize(
    ("condition", "read"),
    [
        ("symbol LIKE 'A%'", {"symbol"}),
        ("upper(symbol) = 'A'", {"symbol"}),
        ("symbol RLIKE '^A'", {"symbol"}),
        ("initcap(symbol) = 'A'", None),
        ("symbol ILIKE 'a%'", {"symbol"}),
    ],
)
def test_what_only_spark_can_compute_is_not_read_by_the_kernel(condition: str, read: set[str] | None) -> None:
    stream = Stream("s", (("ts", TIMESTAMP), ("symbol", STRING)), "ts")
    query = parse_query(f"SELECT count(*) FROM s [RANGE 1 s SLIDE 1 s] WHERE {condition}")
    assert kernel_columns(make_plan(stream, [bind(query, {"s": stream})]).groupings) == read
