"""Declared columns that no file has are told once, with the name that was meant, or refused."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from mullion.algebra.streams import Stream, Table
from mullion.errors import SourceError
from mullion.language.types import DOUBLE, INT, TIMESTAMP
from mullion.spark.files import local
from mullion.spark.unseen import Unseen, names_in_json

COLUMNS = (("ts", TIMESTAMP), ("Price", DOUBLE), ("volume", INT))


def write(folder: Path, format_: str, number: int, *names: str) -> str:
    path = folder / f"{number}.{format_}"
    rows = pa.table({name: pa.array([1, 2], pa.int32()) for name in names})
    if format_ == "parquet":
        pq.write_table(rows, path)
    elif format_ == "orc":
        orc.write_table(rows, path)
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows.to_pylist()))
    return path.as_uri()


def look(unseen: Unseen, files: Iterable[str], has_values: Iterable[str] = ()) -> None:
    unseen.look(
        files, head=lambda uri: Path(local(uri) or "").read_bytes(), local=local, has_values=lambda _: has_values
    )


@pytest.mark.parametrize("format_", ["parquet", "orc", "json"])
def test_a_typo_is_told_once_and_refused_if_strict(
    format_: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = [write(tmp_path, format_, i, "ts", "Price", "volum") for i in range(3)]
    source = Stream("trades", COLUMNS, "ts", format=format_)
    unseen = Unseen(source)
    with caplog.at_level(logging.WARNING, "mullion"):
        look(unseen, files)
        look(unseen, files)
    assert [record.getMessage() for record in caplog.records] == [
        "stream trades: no file has a column 'volume' (did you mean 'volum'?); NULL throughout"
    ]
    with pytest.raises(SourceError, match="stream trades: no file has a column 'volume'"):
        look(Unseen(source, strict=True), files)


@pytest.mark.parametrize("format_", ["parquet", "orc", "json"])
def test_a_column_that_one_file_has_is_fine(format_: str, tmp_path: Path) -> None:
    files = [write(tmp_path, format_, i, "ts", "Price", *(["volume"] if i == 2 else [])) for i in range(3)]
    unseen = Unseen(Stream("trades", COLUMNS, "ts", format=format_), strict=True)
    look(unseen, iter(files))
    assert not unseen.left


def test_capitals_make_no_difference_but_in_json(tmp_path: Path) -> None:
    for format_ in ("parquet", "orc"):
        look(Unseen(Table("k", COLUMNS, format_), strict=True), [write(tmp_path, format_, 0, "TS", "price", "Volume")])
    with pytest.raises(SourceError, match=r"columns 'ts' \(did you mean 'TS'\?\), 'Price' \(did you mean 'price'\?\)"):
        look(Unseen(Table("k", COLUMNS, "json"), strict=True), [write(tmp_path, "json", 0, "TS", "price", "volume")])


def test_what_cannot_be_told_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"x")
    (tmp_path / "bad.json").write_bytes(b"\xff nonsense")
    for format_ in ("parquet", "json", "csv", "kafka"):
        unseen = Unseen(Table("k", COLUMNS, format_), strict=True)
        look(unseen, [])
        look(unseen, [(tmp_path / f"bad.{format_}").as_uri()])


def test_partitions_in_paths_and_values_further_on(tmp_path: Path) -> None:
    (tmp_path / "volume=1").mkdir()
    look(
        Unseen(Table("k", COLUMNS, "parquet"), strict=True), [write(tmp_path / "volume=1", "parquet", 0, "ts", "Price")]
    )
    sparse = [write(tmp_path, "json", 0, "ts", "Price")]
    look(Unseen(Table("k", COLUMNS, "json"), strict=True), sparse, has_values=["volume"])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('{"a": 1}\n{"b": null}\n{"c', {"a", "b"}),
        ('[{"a": 1},\n {"b": {"c": 2}}]', {"a", "b"}),
        ('{\n  "a": 1,\n  "b": [\n    {"c": 1}\n  ]\n}\n{', {"a", "b"}),
        ("nonsense\n{'a': 1}\n3\n\"x\"", set()),
        ("[" * 100_000, set()),
        ('{"a":' * 100_000, set()),
    ],
)
def test_names_in_json(text: str, names: set[str]) -> None:
    assert names_in_json(text) == names
