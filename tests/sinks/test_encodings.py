"""Files of answers say the same to everybody, however their columns are written."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mullion.sinks.files import AnswerFile, write_merged, write_table

INSTANT = pa.timestamp("us", tz="UTC")
COLUMNS: dict[str, tuple[pa.DataType, list[object]]] = {
    "byte": (pa.int8(), [-128, 127, None, 0]),
    "short": (pa.int16(), [-(2**15), 2**15 - 1, None, 0]),
    "whole": (pa.int32(), [-(2**31), 2**31 - 1, None, 0]),
    "long.er": (pa.int64(), [2**63 - 1, -(2**63), None, 0]),
    "day": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), None, date(1970, 1, 1)]),
    "at": (INSTANT, [datetime(9999, 1, 1, tzinfo=UTC), None, datetime(1970, 1, 1, tzinfo=UTC), None]),
    "real `x`": (pa.float64(), [float("inf"), -0.0, None, 0.1]),
    "is it?": (pa.bool_(), [True, False, None, True]),
    "text": (pa.string(), ["", "ä", None, "b"]),
    "bytes": (pa.binary(), [b"", b"\0", None, b"b"]),
    "price": (pa.decimal128(18, 4), [Decimal("1.5000"), Decimal("-2.0000"), None, Decimal("0.0000")]),
}


def sample(rows: int, seed: int) -> pa.Table:
    chosen = np.random.default_rng(seed).integers(0, 4, (len(COLUMNS), rows))
    columns = zip(COLUMNS.items(), chosen, strict=True)
    return pa.table({name: pa.array([values[i] for i in own], kind) for (name, (kind, values)), own in columns})


@pytest.mark.parametrize("rows", [0, 1, 500])
def test_any_reader_finds_what_was_written(tmp_path: Path, rows: int) -> None:
    tables = [sample(rows, seed) for seed in range(2)]
    paths = [tmp_path / f"00000000000{i}.0.parquet" for i in range(2)]
    for path, table in zip(paths, tables, strict=True):
        write_table(path, table)
    found = [AnswerFile.of(path) for path in paths]
    merged = write_merged([file for file in found if file is not None], tmp_path)
    for path, expected in [(paths[0], tables[0]), (merged.path, pa.concat_tables(tables))]:
        assert pq.read_table(path).equals(expected)
        duck = duckdb.connect().sql(f"SELECT * FROM read_parquet('{path}')")
        assert duck.to_arrow_table().cast(expected.schema).equals(expected)


@pytest.mark.parametrize("rows", [0, 500])
def test_polars_finds_what_was_written(tmp_path: Path, rows: int) -> None:
    polars = pytest.importorskip("polars")
    expected, path = sample(rows, seed=0), tmp_path / "000000000000.0.parquet"
    write_table(path, expected)
    assert polars.read_parquet(path).to_arrow().cast(expected.schema).equals(expected)


def test_columns_of_lists_are_written_as_well(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2], "top": pa.array([[{"item": "a", "count": 2}], None])})
    write_table(tmp_path / "a.parquet", table)
    assert pq.read_table(tmp_path / "a.parquet").equals(table)


def test_times_and_keys_take_little_room(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    times = np.sort(random.integers(0, 60_000_000, 10_000))
    table = pa.table({"at": pa.array(times, INSTANT), "key": random.integers(0, 1 << 18, 10_000)})
    write_table(tmp_path / "a.parquet", table)
    assert (tmp_path / "a.parquet").stat().st_size < table.nbytes / 3
