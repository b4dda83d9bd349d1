"""Codes go into Parquet files as they are, and readers find the values that they stand for."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.expressions.coding.dictionary import decoded
from mullion.sinks.coded_columns import CODES_A_VALUE, MOST_BYTES, in_one
from mullion.sinks.files import write_table
from mullion.slices.finalize import Answers
from mullion.storage.marks import Mark
from sinks.played import opened

INSTANT = pa.timestamp("us", tz="UTC")
TEXTS = st.none() | st.text("aä\0", max_size=2)
VALUES = {pa.string(): TEXTS, pa.binary(): st.none() | st.binary(max_size=1), INSTANT: st.none() | st.integers(0, 3)}


@st.composite
def columns(draw: st.DrawFn, rows: int, kind: pa.DataType) -> pa.Array:
    """Plain, or coded with a dictionary in which values may be there several times, unused or NULL, from the middle of
    a longer one."""
    values = pa.array(draw(st.lists(VALUES[kind], min_size=1, max_size=4)), kind)
    places = st.none() | st.integers(0, len(values) - 1)
    index = pa.array(draw(st.lists(places, min_size=rows + 1, max_size=rows + 1)), pa.int32())
    if draw(st.booleans()):
        index = index.cast(pa.int64())
    coded = pa.DictionaryArray.from_arrays(index, values).slice(1)
    return coded.dictionary_decode() if draw(st.sampled_from([False, False, False, True])) else coded


@st.composite
def parts(draw: st.DrawFn) -> list[pa.Table]:
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    return [
        pa.table([draw(columns(rows, kind)) for kind in kinds], names=[f"c{i}" for i in range(len(kinds))])
        for rows in draw(st.lists(st.integers(1, 40), min_size=1, max_size=3))
    ]


@given(tables=parts())
def test_readers_find_the_values(tables: list[pa.Table], tmp_path_factory: pytest.TempPathFactory) -> None:
    expected = pa.concat_tables([decoded(table) for table in tables])
    path, plain = (tmp_path_factory.mktemp("files") / f"{i}.parquet" for i in range(2))
    write_table(path, in_one(tables))
    write_table(plain, expected)
    found = pq.read_table(path)
    assert found.equals(expected)
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert pq.read_metadata(path).metadata == pq.read_metadata(plain).metadata
    assert duckdb.connect().sql(f"SELECT * FROM read_parquet('{path}')").fetchall() == (
        duckdb.connect().sql(f"SELECT * FROM read_parquet('{plain}')").fetchall()
    )
    assert _told(path) == _told(plain)


def _told(path: Path) -> list[object]:
    """What a reader goes by that leaves out files: the smallest and the largest value, and how many are NULL."""
    group = pq.read_metadata(path).row_group(0)
    told = [group.column(i).statistics for i in range(group.num_columns)]
    return [(s.has_min_max and (s.min_raw, s.max_raw), s.null_count) for s in told if s is not None]


def test_codes_are_kept_where_there_are_enough_of_them() -> None:
    def kept(values: pa.Array, rows: int) -> bool:
        index = pa.array([i % len(values) for i in range(rows)], pa.int32())
        table = in_one([pa.table({"k": pa.DictionaryArray.from_arrays(index, values)})])
        return bool(pa.types.is_dictionary(table.schema.field("k").type))

    assert kept(pa.array(["a", "b", "a"]), 2 * CODES_A_VALUE)
    assert not kept(pa.array(["a", "b", "a"]), 2 * CODES_A_VALUE - 1)
    assert not kept(pa.array(["a" * MOST_BYTES, "b"]), 2 * CODES_A_VALUE)
    assert not kept(pa.array([1, 2]), 2 * CODES_A_VALUE)


def test_a_sink_writes_codes_of_several_answers_as_one_file(tmp_path: Path) -> None:
    sink = opened(tmp_path, ["q"], None)
    tables = [
        pa.table({"k": pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50, pa.int32()), pa.array(values))})
        for values in (["a", "b"], ["b", "a"])
    ]
    sink.write("s", Mark(0), [Answers(("q",), [0, 100], table) for table in tables])
    [found] = sink.tables("q")
    assert found.schema == pa.schema([("k", pa.string())])
    assert found["k"].to_pylist() == ["a", "b"] * 50 + ["b", "a"] * 50
