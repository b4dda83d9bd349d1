"""Statistics of files and batches before they are read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from by_slices import bind
from mullion import Engine
from mullion.algebra.streams import Stream, Table
from mullion.kernels.lookup import prepare
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, STRING, TIMESTAMP
from mullion.options import DEFAULTS
from mullion.planner.plan import Grouping
from mullion.planner.rules import make_plan
from mullion.planner.statistics import ASSUMED, COUNTED, FOOTERS, SAMPLE, SIZES, Statistics
from mullion.spark import statistics
from mullion.spark.batch import SparkBatch, SparkSource
from mullion.spark.files import row_groups_of
from mullion.spark.reading import FilePortions, ReadAhead
from mullion.spark.statistics import LastLook, of_files_now

COLUMNS = (("ts", TIMESTAMP), ("k", STRING), ("x", BIGINT))
UTC = pa.timestamp("us", "UTC")
SECOND = 1_000_000


def stream(path: Path, format_: str = "parquet", **options: str) -> Stream:
    return Stream("s", COLUMNS, "ts", format=format_, options=(("path", str(path)), *options.items()))


def groupings(*texts: str) -> tuple[Grouping, ...]:
    asked = texts or ("SELECT k, count(*) AS n FROM s [RANGE 1 min SLIDE 1 min] WHERE x >= 5 GROUP BY k",)
    found = [bind(parse_query(text, name=f"q{i}"), {"s": stream(Path("/"))}) for i, text in enumerate(asked)]
    return make_plan(stream(Path("/")), found).groupings


def events(first: int, number: int, groups: int) -> pa.Table:
    """An event a second; groups take turns, and x goes from 0 to 9."""
    at = np.arange(first, first + number)
    texts = pa.array([f"k{i % groups}" for i in at.tolist()])
    return pa.table({"ts": pa.array(at * SECOND).cast(UTC), "k": texts, "x": pa.array(at % 10)})


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of at most 100 events."""
    monkeypatch.setattr(statistics, "MOST_SAMPLED", 100)
    monkeypatch.setattr(statistics, "MOST_DECODED", 200)


def share(found: Statistics) -> float | None:
    return found.selectivity("k", groupings()[0].predicates[0])


def test_a_small_file_is_counted(tmp_path: Path) -> None:
    pq.write_table(events(-5, 20, 3), tmp_path / "a.parquet")
    found = of_files_now(stream(tmp_path), groupings())
    assert (found.events, found.oldest, found.newest) == (20, -5 * SECOND, 14 * SECOND)
    assert (found.events_from, found.groups["k"].number, found.groups["k"].is_exact) == (COUNTED, 3, True)
    assert share(found) == 0.5


def test_files_are_looked_at_again_when_they_or_what_is_asked_are_others(tmp_path: Path) -> None:
    pq.write_table(events(0, 20, 3), tmp_path / "a.parquet")
    look = LastLook()
    found = of_files_now(stream(tmp_path), groupings(), look)
    assert of_files_now(stream(tmp_path), groupings(), look) is found
    other = groupings("SELECT k, count(*) AS n FROM s [RANGE 1 min SLIDE 1 min] WHERE x >= 9 GROUP BY k")
    asked = of_files_now(stream(tmp_path), other, look)
    assert asked.selectivity("k", other[0].predicates[0]) == 0.1
    pq.write_table(events(0, 20, 7), tmp_path / "a.parquet")
    assert of_files_now(stream(tmp_path), other, look).groups["k"].number == 7


@pytest.mark.usefixtures("few")
def test_what_is_known_of_all_files_tells_of_a_large_part_of_them(tmp_path: Path) -> None:
    for at, number in enumerate((400, 1000, 200)):
        pq.write_table(events(2000 * at, number, 4), tmp_path / f"{at}.parquet")
    asked, look = stream(tmp_path), LastLook()
    known = of_files_now(asked, groupings(), look)

    def part(*files: int) -> Statistics:
        pieces = row_groups_of([str(tmp_path / f"{at}.parquet") for at in files], asked, ("k", "x"))
        assert pieces is not None
        return look.at(pieces, asked, groupings())

    large = part(1)
    assert (large.events, large.oldest, large.newest) == (1000, 2000 * SECOND, 2999 * SECOND)
    assert large.selections["k"] is known.selections["k"]
    assert of_files_now(asked, groupings(), look) is known
    small = part(2)
    assert (small.events, small.selections["k"] is known.selections["k"]) == (200, False)
    assert part(2, 1).selections["k"] is not known.selections["k"]


def test_events_are_sampled_once_before_tables_are_read_and_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run knows what files hold before it has read a table. What tables add is asked of the same events; columns
    that only aggregates read are in no sample."""
    pq.write_table(events(0, 20, 3), tmp_path / "a.parquet")
    t = Table("t", (("k", STRING), ("good", BIGINT)), "parquet", (("path", "none"),))
    text = "SELECT t.good, sum(x) AS n FROM s [RANGE 1 min SLIDE 1 min], t WHERE s.k = t.k GROUP BY t.good"
    query = bind(parse_query(text, name="q"), {"s": stream(tmp_path)}, {"t": t})
    asked, look = make_plan(stream(tmp_path), [query]), LastLook()
    sampled = list[list[str]]()
    of_pieces = statistics._from_pieces
    monkeypatch.setattr(statistics, "_from_pieces", lambda *of: (sampled.append(of[2]), of_pieces(*of))[1])
    assert not of_files_now(stream(tmp_path), asked.groupings, look).groups
    rows = pa.table({"k": ["k0", "k1", "k2"], "good": pa.array([1, 2, 2])})
    lookups = [prepare(lookup, rows) for lookup in asked.groupings[0].lookups]
    pieces = row_groups_of([str(tmp_path / "a.parquet")], stream(tmp_path), ("k",))
    assert pieces is not None
    known = look.at(pieces, stream(tmp_path), asked.groupings, lookups)
    assert [groups.number for groups in known.groups.values()] == [2]
    assert sampled == [["k"]]


@pytest.mark.parametrize("number", [7, 90, 1000])
@pytest.mark.usefixtures("few")
def test_what_is_being_read_is_the_sample(tmp_path: Path, number: int) -> None:
    """The same is known of a batch, from rows all over it, without reading any of them once more."""
    paths = [tmp_path / f"{at}.parquet" for at in range(3)]
    for at, path in enumerate(paths):
        pq.write_table(events(number * at, number, 4), path, row_group_size=400)
    asked, wanted = stream(tmp_path), groupings()
    pieces = row_groups_of(list(map(str, paths)), asked, ("k", "x"))
    assert pieces is not None
    read = ReadAhead(FilePortions.of(asked, wanted, pieces, 10_000, None).read(pieces, 2))
    (whole,) = [read.first()]
    found, apart = LastLook().at(pieces, asked, wanted, (), read), LastLook().at(pieces, asked, wanted)
    assert (found.events, found.oldest, found.newest) == (3 * number, 0, (3 * number - 1) * SECOND)
    assert (found.events_from, found.times_from) == (apart.events_from, apart.times_from)
    assert found.groups["k"].number == apart.groups["k"].number == 4
    assert found.sampled == 3 * number if 3 * number <= 100 else 90 <= found.sampled <= 110
    assert share(found) == pytest.approx(0.5, abs=0.2)
    assert [table.equals(whole) for table in read] == [True]


@pytest.mark.usefixtures("few")
def test_footers_and_row_groups_all_over_tell_of_large_files(tmp_path: Path) -> None:
    for i in range(3):
        pq.write_table(events(i * 1000, 1000, 4 + i), tmp_path / f"{i}.parquet", row_group_size=100)
    found = of_files_now(stream(tmp_path), groupings())
    assert (found.events, found.oldest, found.newest) == (3000, 0, 2999 * SECOND)
    assert (found.events_from, found.times_from, found.sampled) == (FOOTERS, FOOTERS, 96)
    assert found.groups["k"].number == 6
    assert not found.groups["k"].is_exact
    assert share(found) == pytest.approx(0.5, abs=0.1)


@pytest.mark.usefixtures("few")
def test_dictionaries_tell_of_groups_past_the_head(tmp_path: Path) -> None:
    """The one row group is sorted by key, so its head has one group alone; its dictionary has all."""
    table = pa.table({"ts": events(0, 1000, 1)["ts"], "k": sorted(f"k{i % 40:02}" for i in range(1000))})
    pq.write_table(table.append_column("x", pa.array(range(1000))), tmp_path / "a.parquet")
    assert of_files_now(stream(tmp_path), groupings()).groups["k"].number == 40


@pytest.mark.usefixtures("few")
def test_null_keys_and_times(tmp_path: Path) -> None:
    table = events(0, 1000, 2)
    keys = pa.array([None if i % 2 else "k" for i in range(1000)])
    times = pa.array([None if i % 4 == 0 else i * SECOND for i in range(1000)]).cast(UTC)
    pq.write_table(pa.table({"ts": times, "k": keys, "x": table["x"]}), tmp_path / "a.parquet", row_group_size=50)
    found = of_files_now(stream(tmp_path), groupings())
    assert (found.events, found.oldest, found.newest) == (750, SECOND, 999 * SECOND)
    assert found.groups["k"].number == 2
    assert found.groups["k"].frequencies.tolist() == pytest.approx([2 / 3, 1 / 3], abs=0.02)


@pytest.mark.usefixtures("few")
def test_files_without_statistics_give_times_of_the_sample(tmp_path: Path) -> None:
    pq.write_table(events(0, 1000, 4), tmp_path / "a.parquet", row_group_size=50, write_statistics=False)
    found = of_files_now(stream(tmp_path), groupings())
    assert (found.events, found.events_from, found.times_from) == (1000, FOOTERS, SAMPLE)
    assert found.oldest is not None and found.newest is not None
    assert found.oldest <= 20 * SECOND
    assert 900 * SECOND < found.newest <= 999 * SECOND


@pytest.mark.parametrize("unit", ["ms", "us"])
@pytest.mark.usefixtures("few")
def test_times_in_milliseconds_are_times_in_microseconds(tmp_path: Path, unit: str) -> None:
    table = events(-500, 1000, 4)
    table = table.set_column(0, "ts", table["ts"].cast(pa.timestamp(unit, "UTC")))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    found = of_files_now(stream(tmp_path), groupings())
    assert (found.oldest, found.newest, found.times_from) == (-500 * SECOND, 499 * SECOND, FOOTERS)


def test_int96_tells_the_number_alone(tmp_path: Path) -> None:
    pq.write_table(events(0, 10, 4), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    found = of_files_now(stream(tmp_path), groupings())
    assert (found.events, found.events_from, found.oldest, found.times_from) == (10, FOOTERS, None, ASSUMED)
    assert found.groups == {}


def test_files_of_nothing_hold_nothing(tmp_path: Path) -> None:
    assert of_files_now(stream(tmp_path), groupings()) == Statistics()
    pq.write_table(events(0, 1, 1).slice(1), tmp_path / "a.parquet")
    found = of_files_now(stream(tmp_path), groupings())
    assert (found.events, found.oldest, found.groups["k"].number) == (0, None, 0)


def test_what_cannot_be_known_without_reading_is_assumed(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no footer")
    assert of_files_now(stream(tmp_path), groupings()) == Statistics()
    assert of_files_now(stream(tmp_path, pathglobfilter="b*"), groupings()) == Statistics()
    assert of_files_now(Stream("s", COLUMNS, "ts", format="rate"), groupings()) == Statistics()
    assert of_files_now(Stream("s", COLUMNS, "ts"), groupings()) == Statistics()


def lines(table: pa.Table, format_: str) -> list[str]:
    rows = [{**row, "ts": row["ts"].isoformat(sep=" ")[:19]} for row in table.to_pylist()]
    return [json.dumps(row) if format_ == "json" else f"{row['ts']},{row['k']},{row['x']}" for row in rows]


@pytest.mark.parametrize("format_", ["csv", "json"])
@pytest.mark.slow
def test_sizes_of_text_files_tell_about_how_many_records_there_are(tmp_path: Path, format_: str) -> None:
    for i in range(12):
        (tmp_path / f"{i:02}.{format_}").write_text("\n".join(lines(events(i * 2000, 2000, 9), format_)) + "\n")
    found = of_files_now(stream(tmp_path, format_), groupings())
    assert found.events == pytest.approx(24_000, rel=0.05)
    assert (found.events_from, found.oldest, found.newest) == (SIZES, 0, 23_999 * SECOND)
    (tmp_path / f"00.{format_}").write_bytes(gzip.compress(b"a\n" * 1000))
    assert of_files_now(stream(tmp_path, format_), groupings()) == Statistics()
    assert of_files_now(stream(tmp_path, format_, multiline="true"), groupings()) == Statistics()


def batch_of(spark: SparkSession, frame: Any, declared: Stream) -> Any:
    return SparkSource(declared, lambda: spark, None, plain=False, options=DEFAULTS).batch(frame, 0)


def test_a_dataframe_is_counted_or_sampled(spark: SparkSession, few: None) -> None:
    declared = Stream("s", COLUMNS, "ts")
    frame = spark.createDataFrame(events(0, 60, 3))
    found = batch_of(spark, frame, declared).statistics(groupings())
    assert (found.events, found.oldest, found.newest, found.events_from) == (60, 0, 59 * SECOND, COUNTED)
    assert (found.groups["k"].number, share(found)) == (3, 0.5)
    larger = spark.createDataFrame(events(0, 2000, 3)).coalesce(1)
    found = batch_of(spark, larger, declared).statistics(groupings())
    assert (found.events, found.events_from, found.times_from, found.sampled) == (None, ASSUMED, SAMPLE, 101)
    assert found.groups["k"].number == 3


def test_expressions_that_only_spark_knows_are_sampled_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(events(0, 30, 3), tmp_path / "a.parquet")
    text = "SELECT count(*) AS n FROM s [RANGE 1 min SLIDE 1 min] WHERE concat(k, CAST(x AS STRING)) = 'k01'"
    asked = groupings(text)
    found = batch_of(spark, spark.read.parquet(str(tmp_path)), Stream("s", COLUMNS, "ts")).statistics(asked)
    assert found.events == 30
    assert found.selectivity("()", asked[0].predicates[0]) == pytest.approx(1 / 30)


def test_a_dataframe_of_parquet_files_is_read_from_them(spark: SparkSession, tmp_path: Path, few: None) -> None:
    pq.write_table(events(0, 1000, 4), tmp_path / "a.parquet", row_group_size=100)
    found = batch_of(spark, spark.read.parquet(str(tmp_path)), Stream("s", COLUMNS, "ts")).statistics(groupings())
    assert (found.events, found.newest, found.events_from) == (1000, 999 * SECOND, FOOTERS)


def test_the_first_records_of_text_files_stand_for_the_others(spark: SparkSession, tmp_path: Path, few: None) -> None:
    """2,000 seconds of events in two files, of which the first 101 are looked at."""
    for i in range(2):
        (tmp_path / f"{i}.json").write_text("\n".join(lines(events(i * 1000, 1000, 4), "json")) + "\n")
    with Engine(spark) as engine:
        engine.execute(
            f"CREATE STREAM s (ts TIMESTAMP, k STRING, x BIGINT) USING json OPTIONS (path '{tmp_path}') TIMESTAMP BY ts"
        )
        found: list[Statistics] = []
        engine.query("SELECT k, count(*) AS n FROM s [RANGE 1 min SLIDE 1 min] WHERE x >= 5 GROUP BY k")
        process = SparkBatch.reads_files

        def looked(self: SparkBatch, asked: Any) -> bool:
            found.append(self.statistics(asked))
            return process(self, asked)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SparkBatch, "reads_files", looked)
            engine.run()
    known = found[0]
    assert known.events == pytest.approx(2000, rel=0.05)
    assert (known.events_from, known.times_from, known.groups["k"].number) == (SIZES, SAMPLE, 4)
    assert known.span == pytest.approx(2000 * SECOND, rel=0.1)
