"""Runs over files that end, without a query of Spark's: which files, in which batches, and how they are noted."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.errors import SourceError
from mullion.language.types import BIGINT, TIMESTAMP
from mullion.spark.own_files import FilesInBatches, can_go_on, plain_files
from mullion.spark.progress import SparkCheckpoint
from mullion.spark.reading import ReadAhead
from mullion.spark.source_log import SourceLog
from mullion.spark.sources import open_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def declared(folder: Path, **options: str) -> Stream:
    given = (("path", str(folder)), *options.items())
    return Stream("s", (("ts", TIMESTAMP), ("x", BIGINT)), "ts", format="parquet", options=given)


def write(folder: Path, name: str, values: list[int], changed: int = 0) -> None:
    folder.mkdir(exist_ok=True, parents=True)
    times = pa.array([value * 1_000_000 for value in values], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": times, "x": pa.array(values, pa.int64())}), folder / name)
    os.utime(folder / name, (1_000_000_000 + changed,) * 2)


def names(found: list[Any] | None) -> list[str] | None:
    return None if found is None else [os.path.basename(file.path) for file in found]


def test_files_by_change_then_by_name(tmp_path: Path) -> None:
    for name, changed in (("b", 1), ("c", 0), ("a", 1), (".hidden", 0), ("_SUCCESS", 0)):
        write(tmp_path, name, [1], changed)
    assert names(plain_files(declared(tmp_path))) == ["c", "a", "b"]


@pytest.mark.parametrize("name", ["a=b", "a b", "ä", "a._COPYING_", "_metadata", "folder/a", "day=1/a", "a[1]"])
def test_names_that_spark_may_see_otherwise_are_left_to_it(name: str, tmp_path: Path) -> None:
    write((tmp_path / name).parent, os.path.basename(name), [1])
    assert plain_files(declared(tmp_path)) is None


def test_a_single_file_is_read_and_options_are_left_to_spark(tmp_path: Path) -> None:
    for name in ("a", "b", "_c", ".d", "e f"):
        write(tmp_path / "in", name, [1])
    assert names(plain_files(declared(tmp_path / "in" / "a"))) == ["a"]
    for left in (tmp_path / "in" / "_c", tmp_path / "in" / ".d", tmp_path / "in" / "e f", tmp_path / "nothing"):
        assert plain_files(declared(left)) is None
    assert plain_files(declared(tmp_path / "in" / "a", maxfilespertrigger="1")) is None


def test_batches_take_as_many_bytes_as_they_may(tmp_path: Path) -> None:
    for at in range(25):
        write(tmp_path / "in", f"{at:02d}", list(range(at + 1)), at)
    files = plain_files(declared(tmp_path / "in"))
    assert files is not None
    notes, most = tmp_path / "notes", 2 * files[-1].size
    log, seen = SourceLog(notes), []
    in_batches = FilesInBatches(notes, files, most)
    for number in in_batches.batches():
        assert not can_go_on(notes)
        uris = log.files_of(number)
        assert in_batches.ends_with(uris) == (uris[-1] == Path(files[-1].path).as_uri())
        assert number == len(seen) and (len(uris) == 1 or sum(os.path.getsize(uri[7:]) for uri in uris) <= most)
        seen.append(uris)
    assert can_go_on(notes) and len(seen) > 11  # one note repeats those before it
    assert [uri for uris in seen for uri in uris] == [Path(file.path).as_uri() for file in files]
    assert SparkCheckpoint(notes).files("0").can_be_read(10)
    assert log.all_files() == {Path(file.path).as_uri() for file in files}


def test_spark_goes_on_from_the_notes(spark: SparkSession, tmp_path: Path) -> None:
    for at in range(12):
        write(tmp_path / "in", f"{at:02d}", [at], at)
    stream, notes = declared(tmp_path / "in"), tmp_path / "notes"
    files = plain_files(stream)
    assert files is not None and list(FilesInBatches(notes, files, 1).batches()) == list(range(12))
    write(tmp_path / "in", "later", [99], 99)
    taken = []

    def take(batch: Any, number: int) -> None:
        taken.append((number, [row.x for row in batch.collect()]))

    writer = open_stream(spark, stream, {}).writeStream.foreachBatch(take)
    writer.option("checkpointLocation", str(notes)).trigger(availableNow=True).start().awaitTermination()
    assert taken == [(12, [99])]


QUERIES = (
    "SELECT x % 3 AS k, count(*) AS n, sum(x) AS total FROM s [RANGE '20 s' SLIDE '7 s'] WHERE x > 5 GROUP BY x % 3",
    "SELECT first(x) AS f FROM s [ROWS 5]",
    "SELECT initcap(CAST(x % 4 AS STRING)) AS k, max(x) AS m FROM s [RANGE '1 min'] GROUP BY k",
)


def answers(spark: SparkSession, folder: Path, more: str) -> list[list[Any]]:
    with Engine(spark) as engine:
        engine.execute(
            f"CREATE STREAM s (ts TIMESTAMP, x BIGINT) USING parquet OPTIONS (path '{folder}'{more}) TIMESTAMP BY ts "
            "LATENESS '5 s';"
        )
        for at, text in enumerate(QUERIES):
            engine.query(text, name=f"q{at}")
        engine.run()
        assert spark.streams.active == []
        return [sorted(map(repr, engine.results(f"q{at}").to_arrow().to_pylist())) for at in range(len(QUERIES))]


@pytest.mark.parametrize("seed", range(2))
def test_the_same_answers_as_by_a_query_of_spark(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    """The option is what Spark does anyway, and leaves the files to its query."""
    rng = random.Random(seed)
    for at in range(rng.randint(1, 4)):
        write(tmp_path, f"{at}", [rng.randint(0, 200) for _ in range(rng.randint(1, 40))], rng.randint(0, 2))
    for path in (tmp_path, tmp_path / "0"):
        by_spark = answers(spark, path, ", recursiveFileLookup 'false'")
        assert answers(spark, path, "") == by_spark


def test_what_goes_wrong_is_told(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a", [1])
    (tmp_path / "b").write_bytes(b"PAR1")
    with pytest.raises(SourceError, match="b"):
        answers(spark, tmp_path, "")


def test_the_first_events_are_read_while_the_batch_is_planned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that is not small: what is read ahead is what the kernel then takes, and it is read once."""
    for at in range(3):
        write(tmp_path, f"{at}", list(range(40 * at, 40 * at + 60)))
    expected = answers(spark, tmp_path, "")[:1]
    begun, later = Mock(wraps=ReadAhead), Mock(wraps=ReadAhead)
    monkeypatch.setattr("mullion.spark.batch.ReadAhead", begun)
    monkeypatch.setattr("mullion.spark.pipeline.ReadAhead", later)
    monkeypatch.setattr("mullion.planner.few.FEW", 0)
    monkeypatch.setitem(globals(), "QUERIES", QUERIES[:1])
    assert answers(spark, tmp_path, "") == expected
    assert (begun.call_count, later.call_count) == (1, 0)
