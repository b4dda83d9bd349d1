"""The order of events that came together, from what Spark hands over and from what it notes of files."""

from __future__ import annotations

import json
import os
import random
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from mullion.errors import SourceError
from mullion.kernels.arrival import ARRIVAL, FILE, PIECE, PLACES, FileOrder, in_order_of_arrival
from mullion.spark.files import by_change, local_files
from mullion.spark.source_log import SourceLog


def note(log: Path, offset: int, files: list[tuple[str, int, int]], suffix: str = "") -> None:
    folder = log / "sources" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    entries = [{"path": path, "timestamp": changed, "batchId": at} for path, changed, at in files]
    lines = [json.dumps(entry, separators=(",", ":")) for entry in entries]
    (folder / f"{offset}{suffix}").write_text("\n".join(["v1", *lines]))


def began(log: Path, batch: int, offset: int) -> None:
    (log / "offsets").mkdir(parents=True, exist_ok=True)
    (log / "offsets" / str(batch)).write_text("v1\n{}\n" + json.dumps({"logOffset": offset}))


def test_the_files_of_a_batch_by_offset_time_of_change_and_path(tmp_path: Path) -> None:
    first = [("file:///b", 5, 0), ("file:///a%20b", 5, 0), ("file:///c", 3, 0)]
    second, third = [("file:///z", 9, 1)], [("file:///y", 1, 2)]
    note(tmp_path, 0, first)
    note(tmp_path, 1, second)
    note(tmp_path, 2, [*first, *second, *third], ".compact")
    for batch, offset in ((0, 0), (1, 2)):
        began(tmp_path, batch, offset)
    log = SourceLog(tmp_path)
    assert log.files_of(0) == ["file:///c", "file:///a%20b", "file:///b"]
    assert log.files_of(1) == ["file:///z", "file:///y"]
    assert list(log.offsets_of(1)) == [1, 2]
    assert dict(log.files_up_to(1)) == {0: log.files_of(0), 1: ["file:///z"], 2: ["file:///y"]}
    with pytest.raises(SourceError, match="no note of the files of batch 2"):
        log.files_of(2)


def test_files_that_are_read_directly_are_in_the_same_order(tmp_path: Path) -> None:
    assert local_files(["file:///b", "file:///a%20b"], ["file:///b", "file:///empty", "file:///a%20b"]) == [
        "/b",
        "/a b",
    ]
    assert local_files(["file:///b", "hdfs://host/a"], ["file:///b", "hdfs://host/a"]) is None
    assert local_files(["file:///b"], []) is None
    paths = [tmp_path / name for name in "cab"]
    for path in paths:
        path.touch()
    for path, changed in zip(paths, (2.0, 1.0004, 1.0001), strict=True):
        os.utime(path, (changed, changed))
    assert by_change([f"file://{path}" for path in paths]) == [f"file://{tmp_path / name}" for name in "abc"]


@pytest.mark.parametrize("same_checksums", [False, True])
def test_events_in_the_order_of_files_pieces_and_rows(same_checksums: bool) -> None:
    """However the pieces are dealt out to tasks. Where two names have one checksum, the names tell files apart."""
    names = ["plumless", "buckeroo"] if same_checksums else ["file:///x", "file:///a"]
    assert (zlib.crc32(names[0].encode()) == zlib.crc32(names[1].encode())) == same_checksums
    order = FileOrder(tuple(names))
    assert order.text("s") == ("s" if same_checksums else "crc32(s)")
    chance = random.Random(1)
    pieces = [(file, begin, rows) for file in names for begin, rows in ((0, 3), (PIECE, 0), (2 * PIECE + 5, 4))]
    expected = [(file, begin, row) for file, begin, rows in pieces for row in range(rows)]
    for _ in range(20):
        chance.shuffle(pieces)
        handed = []
        for task in (pieces[:2], pieces[2:]):
            found = [(file, begin, row) for file, begin, rows in task for row in range(rows)]
            handed += [(event, number) for number, event in enumerate(found)]
        keys = [event[0] if same_checksums else zlib.crc32(event[0].encode()) for event, _ in handed]
        table = pa.table(
            {
                "event": [repr(event) for event, _ in handed],
                FILE: keys,
                ARRIVAL: [event[1] // PIECE << PLACES | number for event, number in handed],
            }
        )
        assert in_order_of_arrival(table, order)["event"].to_pylist() == list(map(repr, expected))
        assert in_order_of_arrival(table, order).column_names == ["event"]


def test_partitions_and_offsets() -> None:
    table = pa.table({"x": [1, 2, 3, 4], FILE: [1, 0, 1, 0], ARRIVAL: [7, 9, 2, 3]})
    assert in_order_of_arrival(table, None)["x"].to_pylist() == [4, 2, 3, 1]
    assert in_order_of_arrival(table.drop_columns([FILE]), None)["x"].to_pylist() == [3, 4, 1, 2]


def test_a_file_that_nobody_listed() -> None:
    table = pa.table({"x": [1], FILE: [zlib.crc32(b"file:/b")], ARRIVAL: [0]})
    with pytest.raises(SourceError, match="a file that it has not listed"):
        in_order_of_arrival(table, FileOrder(("file:///a",)))
