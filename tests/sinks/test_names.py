"""Names that are given to another query, and names of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from mullion.sinks.files import AnswerFile, file_name, files_in, write_table
from mullion.sinks.owner import OWN, Owner
from mullion.sinks.parquet import ParquetSink
from mullion.slices.finalize import Answers
from mullion.storage.marks import Mark
from sinks.played import MINE, SCHEMA, opened, parquet_files, play, read, rows_of


def test_another_query_of_the_same_name_begins_anew(tmp_path: Path, eager: None) -> None:
    sink = opened(tmp_path, ["q", "r"], None)
    for batch in range(4):
        play(sink, batch, {"q": 1, "r": 1})
        sink.committed("s", Mark(batch))
    sink.set_queries("s", {"r": "text of r"})
    sink.set_queries("s", {"r": "text of r", "q": "another"})
    other = pa.table({"total": [1.5]})
    sink.write("s", Mark(4), [Answers(("q",), [0, 1], other)])
    sink.committed("s", Mark(4))
    assert [table.to_pylist() for table in sink.tables("q")] == [[{"total": 1.5}]]
    assert read(tmp_path / "_earlier" / "q", "000000") == [(batch, 0) for batch in range(4)]
    assert len(read(tmp_path, "r")) == 4
    again = ParquetSink(tmp_path)
    again.claim(MINE)
    again.set_queries("s", {"r": "text of r", "q": "another"})
    again.resume("s", ["r", "q"], Mark(4))
    assert [table.to_pylist() for table in again.tables("q")] == [[{"total": 1.5}]]
    ParquetSink(tmp_path).claim(Owner("other"), overwrite=True)
    assert parquet_files(tmp_path) == 0
    assert [p.name for p in tmp_path.iterdir()] == [OWN]


def test_nothing_is_put_away_where_there_were_no_answers(tmp_path: Path) -> None:
    sink = opened(tmp_path, ["q"], None)
    sink.finish({"q": SCHEMA})
    sink.set_queries("s", {"q": "another"})
    assert not (tmp_path / "_earlier").exists()
    assert sink.tables("q") == []


def test_the_same_query_goes_on(tmp_path: Path) -> None:
    sink = opened(tmp_path, ["q"], None)
    play(sink, 0, {"q": 1})
    sink.set_queries("s", {})
    sink.set_queries("s", {"q": "text of q"})
    play(sink, 5, {"q": 1})
    assert read(tmp_path, "q") == [(0, 0), (5, 0)]


def test_marks_of_relations_are_not_those_of_streams(tmp_path: Path) -> None:
    sink = opened(tmp_path, ["q"], None)
    play(sink, 0, {"q": 1})
    sink.set_queries("s", {})
    sink.set_queries("relations/s", {"q": "text of q"})
    sink.write("relations/s", Mark(0), [Answers(("q",), [0, 1], rows_of(7, 1))])
    assert read(tmp_path, "q") == [(7, 0)]
    assert read(tmp_path / "_earlier" / "q", "000000") == [(0, 0)]


def test_parts_of_a_shard_follow_one_another(tmp_path: Path) -> None:
    asked: list[tuple[int | None, int]] = [(None, 0), (None, 1), (0, 0), (0, 1), (3, 0), (3, 2)]
    paths = [tmp_path / file_name(Mark(7), shard=shard, part=part) for shard, part in asked]
    for path in reversed(paths):
        write_table(path, rows_of(1, 1))
    found = files_in(tmp_path)
    assert [file.path for file in found] == paths
    assert [(file.shard, file.part) for file in found] == asked


def names() -> Iterator[tuple[str, tuple[str | None, int, int, int]]]:
    yield "000000000007.0.parquet", (None, 7, 7, 0)
    yield "000000000007.1-shard-3.parquet", (None, 7, 7, 0)
    yield "000000000007.1-shard-3.part-000002.parquet", (None, 7, 7, 2)
    yield "000000000007.0.part-000012.parquet", (None, 7, 7, 12)
    yield "a.b-c.000000000007.0.part-000002.parquet", ("a.b-c", 7, 7, 2)
    yield "000000000000.0-000000000063.0.parquet", (None, 0, 63, 0)
    yield "a.b-c.000000000007.0.parquet", ("a.b-c", 7, 7, 0)


@pytest.mark.parametrize(("name", "told"), list(names()))
def test_names_tell_what_is_in_a_file(name: str, told: tuple[str | None, int, int, int]) -> None:
    file = AnswerFile.of(Path("x") / name)
    assert file is not None
    assert (file.stream, file.first.batch, file.last.batch, file.part) == told


@pytest.mark.parametrize("name", ["a.parquet", "000000000007.parquet", "000000000007.0.csv", ".000000000007.0.tmp"])
def test_names_of_others(name: str) -> None:
    assert AnswerFile.of(Path(name)) is None
