"""Files as the kernel reads them, by one thread or several; and batches that are opened ahead. No JVM."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.algebra.streams import Stream
from mullion.errors import SourceError
from mullion.language.types import BIGINT, STRING, TIMESTAMP
from mullion.spark import reading
from mullion.spark.batch import SparkBatch
from mullion.spark.files import row_groups_of
from mullion.spark.reading import ReadAhead, read_pieces

STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", BIGINT)), "ts")
COLUMNS = ["k", "x"]


def write(folder: Path, sizes: list[tuple[int, int]]) -> list[str]:
    """Files of so many rows, in row groups of so many."""
    paths, first = [], 0
    for at, (rows, group) in enumerate(sizes):
        x = np.arange(first, first + rows)
        texts = pa.array([None if i % 7 == 0 else f"{at}-{i % 3}" for i in x.tolist()], pa.string())
        table = pa.table({"ts": pa.array(x).cast(pa.timestamp("us", "UTC")), "k": texts, "x": x})
        paths.append(str(folder / f"{at}.parquet"))
        pq.write_table(table, paths[-1], row_group_size=group)
        first += rows
    return paths


def read(paths: list[str], threads: int, most: int, *, arrival: bool) -> list[dict[str, list[Any]]]:
    pieces = row_groups_of(paths, STREAM, COLUMNS)
    assert pieces is not None
    tables = read_pieces(pieces, COLUMNS, "ts", ["k"], arrival=arrival, most=most, threads=threads)
    return [table.to_pydict() for table in tables]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), min_size=1, max_size=6),
    st.integers(2, 4),
    st.integers(1, 400),
    st.booleans(),
)
def test_several_threads_read_what_one_reads(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[tuple[int, int]],
    threads: int,
    most: int,
    arrival: bool,
) -> None:
    paths = write(tmp_path_factory.mktemp("files"), sizes)
    one, several = (read(paths, number, most, arrival=arrival) for number in (1, threads))
    rows = sum(number for number, _ in sizes)
    for portions in (one, several):
        assert [x for portion in portions for x in portion["x"]] == list(range(rows))
        assert all(len(portion["x"]) < 2 * most for portion in portions)
    for name in one[0]:
        assert [v for portion in one for v in portion[name]] == [v for portion in several for v in portion[name]]


@pytest.mark.parametrize(("group", "threads"), [(10, 4), (100, 4), (150, 2), (300, 1), (2000, 1)])
def test_what_is_read_ahead_stays_within_a_portion(
    group: int, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Larger row groups are read by fewer threads."""
    paths, asked, side_by_side = write(tmp_path, [(2000, group)]), list[int](), reading._side_by_side

    def noted(parts: Any, tables_of: Any, number: int) -> Any:
        asked.append(number)
        return side_by_side(parts, tables_of, number)

    monkeypatch.setattr(reading, "_side_by_side", noted)
    assert sum(len(portion["x"]) for portion in read(paths, 4, 500, arrival=False)) == 2000
    assert asked == [threads]


def test_a_file_that_cannot_be_read_is_told_by_any_thread(tmp_path: Path) -> None:
    paths = write(tmp_path, [(50, 10), (50, 10), (50, 10)])
    pieces = row_groups_of(paths, STREAM, COLUMNS)
    assert pieces is not None
    Path(paths[1]).write_bytes(b"PAR1")
    for threads in (1, 2):
        ahead = ReadAhead(read_pieces(pieces, COLUMNS, "ts", ["k"], threads=threads))
        with pytest.raises(SourceError, match=r"1\.parquet cannot be read"):
            list(ahead)


def test_a_batch_is_opened_once_in_another_thread() -> None:
    threads = []

    def open_() -> Any:
        threads.append(threading.current_thread())
        raise SourceError("nothing there")

    batch = SparkBatch(3, open_)
    batch.open_ahead()
    batch.open_ahead()
    for _ in range(2):
        with pytest.raises(SourceError, match="nothing there"):
            _ = batch.size
    assert [own is threading.current_thread() for own in threads] == [False]
