"""How much a batch takes, and what the watermark waits for meanwhile. Without a JVM."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mullion.algebra.streams import Stream
from mullion.language.limits import FIRST_TIME, LAST_TIME
from mullion.language.types import BIGINT, BOOLEAN, STRING, TIMESTAMP, decimal
from mullion.memory import GB, Memory
from mullion.spark.backlog import Backlog, oldest_event
from mullion.spark.batch_size import RECORD, TEXTS, batch_size_options, event_bytes, expansion, held_bytes, row_bytes
from mullion.spark.files import RowGroup
from mullion.spark.reading import read_pieces
from mullion.spark.source_log import SourceLog

COLUMNS = (("ts", TIMESTAMP), ("x", BIGINT))
MEMORY = Memory.divided(2 * GB)


def stream_of(path: Path | str, format_: str = "parquet", **options: str) -> Stream:
    return Stream("s", COLUMNS, "ts", format=format_, options=(("path", str(path)), *options.items()))


def written(path: Path, times: list[int | None], *, changed: int, unit: str = "us", **how: object) -> Path:
    table = pa.table({"ts": pa.array(times, pa.timestamp(unit, "UTC")), "x": pa.array([1] * len(times), pa.int64())})
    pq.write_table(table, path, **how)
    os.utime(path, (changed, changed))
    return path


def test_bytes_of_an_event() -> None:
    assert row_bytes([TIMESTAMP, BIGINT, STRING]) == 8 + 8 + 16
    assert row_bytes([BOOLEAN, decimal(20, 0)]) == 1 + 16


def test_footers_tell_how_long_texts_are(tmp_path: Path) -> None:
    columns = {"ts": TIMESTAMP, "code": STRING, "note": STRING}
    table = pa.table({"ts": [1] * 1000, "code": ["x" * 300] * 1000, "note": [f"{i:0300}" for i in range(1000)]})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=["code"])
    told = event_bytes(columns, [str(tmp_path / "a.parquet"), str(tmp_path / "gone.parquet")])
    assert 8 + 16 + 300 <= told <= 8 + 16 + 310
    assert event_bytes(columns, []) == held_bytes(columns, []) == 8 + 16 + 16
    assert held_bytes(columns, [str(tmp_path / "a.parquet")]) >= 8 + 16 + TEXTS * 284 + 16


def test_long_texts_are_not_read_as_codes(tmp_path: Path) -> None:
    """Their dictionary would grow from portion to portion."""
    rows = 30_000
    ts = pa.array(range(rows), pa.timestamp("us", "UTC"))
    table = pa.table({"ts": ts, "code": ["x" * 300] * rows, "note": [f"{i:0300}" for i in range(rows)]})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=["code"])
    pieces = [RowGroup(str(tmp_path / "a.parquet"), 0, rows)]
    portions = list(read_pieces(pieces, ["code", "note"], "ts", ["code", "note"], most=10_000))
    assert [len(portion) for portion in portions] == [10_000] * 3
    assert pa.types.is_dictionary(portions[0].schema.field("code").type)
    assert portions[0].schema.field("note").type == pa.string()
    assert pa.concat_tables(portions).column("note").to_pylist() == table.column("note").to_pylist()


def test_the_user_wins(tmp_path: Path) -> None:
    for option in ("maxfilespertrigger", "maxbytespertrigger"):
        stream = stream_of(tmp_path, **{option: "1"})
        assert batch_size_options(stream, [], MEMORY) == {}
        assert Backlog.of(stream, MEMORY, SourceLog(tmp_path)).options == {}
    kafka = Stream("s", COLUMNS, "ts", format="kafka", options=(("subscribe", "t"),))
    assert Backlog.of(kafka, MEMORY).options == {"maxoffsetspertrigger": str(MEMORY.batch // RECORD)}
    chosen = Stream("s", COLUMNS, "ts", format="kafka", options=(("maxoffsetspertrigger", "5"),))
    assert Backlog.of(chosen, MEMORY).options == {}
    least = Stream("s", COLUMNS, "ts", format="kafka", options=(("minoffsetspertrigger", str(10**9)),))
    assert Backlog.of(least, MEMORY).options == {"maxoffsetspertrigger": str(10**9)}
    assert Backlog.of(Stream("s", COLUMNS, "ts", format="rate"), MEMORY).options == {}


def test_footers_tell_how_files_expand(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", [7] * 100_000, changed=1)
    size = path.stat().st_size
    assert expansion(stream_of(tmp_path), [(str(path), size)]) == pytest.approx(100_000 * 16 / size)
    most = int(batch_size_options(stream_of(tmp_path), [(str(path), size)], MEMORY)["maxbytespertrigger"])
    assert most == pytest.approx(MEMORY.batch * size / 1_600_000, rel=0.01)
    assert expansion(stream_of(tmp_path), [(str(tmp_path / "gone"), 5)]) == 8.0
    assert expansion(stream_of(tmp_path, "csv"), [("a.csv", 5)]) == 1.0
    assert expansion(stream_of(tmp_path, "csv"), [("a.csv.gz", 5)]) == 5.0


def test_long_texts_make_small_batches(tmp_path: Path) -> None:
    rows = 10_000
    table = pa.table({"ts": pa.array(range(rows), pa.timestamp("us", "UTC")), "x": [f"{i:01000}" for i in range(rows)]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    stream = Stream("s", (("ts", TIMESTAMP), ("x", STRING)), "ts", format="parquet", options=(("path", str(tmp_path)),))
    size = path.stat().st_size
    most = int(batch_size_options(stream, [(str(path), size)], MEMORY)["maxbytespertrigger"])
    assert most == pytest.approx(MEMORY.batch / (rows * 1024) * size, rel=0.1)


@pytest.mark.parametrize(
    ("times", "how", "oldest"),
    [
        ([30, 10, None], {}, 10),
        ([-5, 7], {}, -5),
        ([3, 4], {"unit": "ms"}, 3_000),
        ([30, 20, 10], {"row_group_size": 1}, 10),
        ([None, None], {}, LAST_TIME),
        ([], {}, LAST_TIME),
        ([1], {"write_statistics": False}, FIRST_TIME),
        ([1], {"unit": "ns"}, FIRST_TIME),
    ],
)
def test_the_oldest_event_of_a_file(
    tmp_path: Path, times: list[int | None], how: dict[str, object], oldest: int
) -> None:
    path = written(tmp_path / "a.parquet", times, changed=1, **how)
    assert oldest_event(str(path), stream_of(tmp_path)) == oldest


def test_files_that_tell_no_time(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("hello")
    assert oldest_event(str(path), stream_of(tmp_path)) == FIRST_TIME
    assert oldest_event(str(tmp_path / "gone"), stream_of(tmp_path)) == FIRST_TIME
    assert oldest_event(str(path), stream_of(tmp_path, "csv")) == FIRST_TIME
    pq.write_table(pa.table({"other": [1]}), path)
    assert oldest_event(str(path), stream_of(tmp_path)) == FIRST_TIME


def backlog_of(tmp_path: Path, **options: str) -> tuple[Backlog, list[str]]:
    """Four files, of which a batch takes two."""
    spans = ([0, 9], [10, 19], [5, 14], [20, 29])
    paths = [written(tmp_path / f"{i}.parquet", list(span), changed=i) for i, span in enumerate(spans)]
    backlog = Backlog.of(stream_of(tmp_path, **options), MEMORY, SourceLog(tmp_path / "_notes"))
    if backlog.options:
        backlog.options["maxbytespertrigger"] = str(2 * paths[0].stat().st_size + 10)
    return backlog, [path.as_uri() for path in paths]


def test_what_is_still_to_come(tmp_path: Path) -> None:
    backlog, uris = backlog_of(tmp_path)
    assert [Path(file.path).stem for file in backlog.waiting] == ["0", "1", "2", "3"]
    assert backlog.oldest_after(uris[:2]) == 5
    assert backlog.oldest_after(uris[2:]) is None
    assert backlog.oldest_after([]) is None


def test_nothing_is_waited_for_that_spark_would_have_taken(tmp_path: Path) -> None:
    backlog, uris = backlog_of(tmp_path)
    assert backlog.oldest_after(uris[:1]) is None, "the second file would have fitted, and so would all others"
    backlog, uris = backlog_of(tmp_path)
    (tmp_path / "0.parquet").unlink()
    assert backlog.oldest_after(uris[:1]) == 5, "nobody knows how large it was"


def test_a_batch_that_an_earlier_run_has_cut_says_nothing_of_sizes(tmp_path: Path) -> None:
    backlog, uris = backlog_of(tmp_path)
    backlog.noted = frozenset(str(tmp_path / f"{i}.parquet") for i in range(2))
    assert backlog.oldest_after(uris[:1]) == 5


def test_files_of_one_change_may_be_taken_in_any_order(tmp_path: Path) -> None:
    backlog, uris = backlog_of(tmp_path)
    large = written(tmp_path / "2.parquet", list(range(5, 100_000)), changed=1)
    again = Backlog.of(backlog.stream, MEMORY, SourceLog(tmp_path / "_notes"))
    again.options = backlog.options
    assert large.stat().st_size > int(backlog.options["maxbytespertrigger"])
    assert again.oldest_after(uris[:1]) == 5, "the large one came first, and did not fit"


def test_places_that_cannot_be_listed_are_left_to_spark(tmp_path: Path) -> None:
    assert backlog_of(tmp_path, pathglobfilter="[0-9].parquet")[0].options == {}
    log = SourceLog(tmp_path / "_notes")
    assert Backlog.of(stream_of(f"hdfs://{tmp_path}"), MEMORY, log).options == {}
    assert len(Backlog.of(stream_of(f"file://{tmp_path}"), MEMORY, log).waiting) == 4
    assert len(Backlog.of(stream_of(tmp_path / "*.parquet"), MEMORY, log).waiting) == 4
    assert Backlog.of(stream_of(tmp_path / "none"), MEMORY, log).options == {}
    (tmp_path / "k=1").mkdir()
    written(tmp_path / "k=1" / "a.parquet", [3], changed=9)
    assert len(Backlog.of(stream_of(tmp_path), MEMORY, log).waiting) == 5
    (tmp_path / "folder").mkdir()
    written(tmp_path / "folder" / "b.parquet", [4], changed=9)
    assert Backlog.of(stream_of(tmp_path), MEMORY, log).options == {}
    assert len(Backlog.of(stream_of(tmp_path, recursivefilelookup="true"), MEMORY, log).waiting) == 6
