"""What Parquet files hold against what is declared: read as it is, or refused by file, column and both types."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mullion.errors import SourceError
from mullion.language.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, Type
from mullion.spark.footers import check_files
from sources_held import ALLOWED, DECLARED, HELD


@pytest.mark.parametrize("held", HELD)
def test_every_pair_of_types_is_read_or_refused(held: str, tmp_path: Path) -> None:
    path = str(tmp_path / f"{held}.parquet")
    pq.write_table(pa.table({"x": HELD[held]}), path)
    for name, declared in DECLARED.items():
        if name in ALLOWED[held]:
            check_files("s", [path], [("X", declared)])
        else:
            with pytest.raises(SourceError) as error:
                check_files("s", [path], [("x", declared)])
            told = str(error.value)
            assert path in told and "column 'x'" in told and f"{name.upper()} is declared" in told
            assert error.value.hint


def test_the_error_says_what_to_write(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"volume": [1, 2], "n": pa.array([1, 2], pa.uint32()), "s": [{"a": 1}] * 2}), path)
    with pytest.raises(SourceError) as error:
        check_files("trades", [path], [("volume", INT)])
    assert str(error.value) == (
        f"trades: column 'volume' of {path} holds BIGINT, and INT is declared\n  declare it as it is: volume BIGINT"
    )
    for columns, advice in (
        ([("n", INT)], "declare it as it is: n BIGINT"),
        ([("volume", TIMESTAMP)], "declare volume BIGINT, and make a time of it"),
        ([("s", STRING)], "leave the column 's' out"),
    ):
        with pytest.raises(SourceError) as error:
            check_files("trades", [path], columns)
        assert advice in str(error.value)


def test_columns_that_are_missing_or_nested_are_not_its_business(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"s": [{"a": 1}], "l": [[1]]}), path)
    check_files("s", [path], [("gone", DOUBLE), ("s", Type("struct<a:bigint>")), ("l", Type("array<bigint>"))])


def test_a_later_file_is_looked_at_too(tmp_path: Path) -> None:
    good, bad = str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")
    pq.write_table(pa.table({"x": pa.array([1], pa.int32())}), good)
    pq.write_table(pa.table({"x": pa.array([1], pa.int64())}), bad)
    check_files("s", [good, bad], [("x", BIGINT)])
    with pytest.raises(SourceError, match=r"b\.parquet holds BIGINT"):
        check_files("s", [good, bad], [("x", INT)])


@pytest.mark.parametrize("damage", ["is empty", "is not a Parquet file", "is cut off", "is damaged", "is gone"])
def test_files_that_are_damaged_are_named(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": list(range(1000))}), path)
    whole = path.read_bytes()
    made = {
        "is empty": b"",
        "is not a Parquet file": b"ts,x\n1,2\n",
        "is cut off": whole[:-100],
        "is damaged": whole[:-60] + bytes(52) + whole[-8:],
    }
    if damage in made:
        path.write_bytes(made[damage])
    else:
        path.unlink()
    with pytest.raises(SourceError) as error:
        check_files("s", [str(path)], [("x", BIGINT)])
    assert f"s: {path} {damage}" in str(error.value) and error.value.hint
