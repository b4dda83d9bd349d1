"""The index of rows with different lifetimes (golab 4): each way of keeping it against a plain list of rows."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.errors import NotSupported
from mullion.storage.lifetime_index import END, DoublyPartitioned, LifetimeIndex, wave_by_insertion
from mullion.storage.lifetime_index.rebuild import Rebuilt
from storage.lifetime_index.small_indices import (
    INTERVAL,
    LIFETIME,
    MEMORY,
    Row,
    create,
    each_clustering,
    each_partitioning,
    listed,
    scan,
    search,
    update,
)


@each_partitioning
@each_clustering
def test_an_example_by_hand(tmp_path: Path, partitioning: DoublyPartitioned, clustering: str) -> None:
    index = create(tmp_path, partitioning, clustering)
    counts = update(index, 16, [(1, 0.5, 0, 3, 17), (1, 1.5, 1, 9, 20), (2, 2.5, 2, 14, 18), (2, 3.5, 3, 1, 16)])
    assert (counts.inserted, counts.deleted, counts.expired_before) == (3, 0, 1)
    assert listed(search(index.snapshot(), 1)) == [(1, 0.5, 0, 3, 17), (1, 1.5, 1, 9, 20)]
    assert listed(search(index.snapshot(), 1, at=17)) == [(1, 1.5, 1, 9, 20)]
    counts = update(index, 18, [(1, 4.5, 4, 17, 33), (None, 5.5, 5, 18, 19)])
    assert (counts.inserted, counts.deleted, counts.expired_before) == (2, 2, 0)
    assert listed(scan(index.snapshot())) == [(1, 1.5, 1, 9, 20), (1, 4.5, 4, 17, 33), (None, 5.5, 5, 18, 19)]
    assert listed(search(index.snapshot(), [None, 2])) == [(None, 5.5, 5, 18, 19)]
    assert listed(search(index.snapshot(), 7)) == []
    update(index, 40, [])
    assert index.rows == 0
    update(index, 42, [])
    assert not list(tmp_path.iterdir())


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, list[Row], list[int]]]:
    """Updates, mostly one for each interval; rows that came since the one before, some old, some of very long life."""
    now, before, used, told = 0, -LIFETIME, 0, []
    for _ in range(draw(st.integers(2, 8))):
        rows = []
        for _ in range(draw(st.integers(0, 8))):
            start = draw(st.integers(min(before + 1, now), now) | st.integers(now - LIFETIME, now))
            life = draw(st.integers(1, LIFETIME) | st.sampled_from([0, 3 * LIFETIME, 1 << 61]))
            key = draw(st.integers(0, 3) | st.none())
            rows.append((key, float(used), used, start, start + life))
            used += 1
        gone = draw(st.just([]) | st.lists(st.integers(0, max(0, used)), max_size=3))
        told.append((now, rows, gone))
        before, now = now, now + draw(st.sampled_from([INTERVAL] * 6 + [0, 1, 3, 5, 100]))
    return told


@pytest.mark.slow
@each_partitioning
@each_clustering
@settings(max_examples=8)
@given(history=histories())
def test_every_way_keeps_what_a_list_keeps(
    partitioning: DoublyPartitioned,
    clustering: str,
    history: list[tuple[int, list[Row], list[int]]],
) -> None:
    with TemporaryDirectory(dir=MEMORY) as directory:
        index = create(Path(directory), partitioning, clustering)
        there: list[Row] = []
        for now, rows, gone in history:
            counts = update(index, now, rows, gone)
            stayed = [row for row in there if row[4] > now and row[2] not in gone]
            fresh = [row for row in rows if row[4] > now]
            assert (counts.inserted, counts.deleted) == (len(fresh), len(there) - len(stayed))
            assert counts.expired_before == len(rows) - len(fresh)
            there = sorted(stayed + fresh, key=lambda row: row[2])
            assert listed(scan(index.snapshot())) == there
            assert index.rows == len(there) == sum(index.sizes)
            for key in (0, 1, None):
                assert listed(search(index.snapshot(), key)) == [row for row in there if row[0] == key]
            later = now + 4
            assert listed(scan(index.snapshot(), at=later)) == [row for row in there if row[4] > later]
        again = LifetimeIndex.restore(index.directory, index.state())
        assert listed(scan(again.snapshot())) == there


@each_clustering
@pytest.mark.parametrize("round_robin", [False, True])
@pytest.mark.parametrize(("g", "e"), [(2, 2), (4, 4), (2, 8), (8, 1), (1, 8)])
@pytest.mark.slow
def test_an_update_touches_g_plus_e_minus_1_sub_indices(
    tmp_path: Path, clustering: str, round_robin: bool, g: int, e: int
) -> None:
    index = create(tmp_path, DoublyPartitioned(g, e, round_robin), clustering)
    random = np.random.default_rng(7)
    most = 0
    for now in range(0, 36, INTERVAL):
        rows = [
            (int(random.integers(5)), 0.0, now * 100 + i, now - i % 2, now + int(random.integers(1, LIFETIME)))
            for i in range(64)
        ]
        counts = update(index, now, rows)
        if now > 0:
            assert counts.touched == g + e - 1
            assert len(counts.inserts_into) == e
            assert len(counts.deletes_from) == g
            most = max(most, counts.written)
            assert max(counts.read, counts.written) <= counts.touched
    if round_robin and max(g, e) <= 4:
        assert most == g + e - 1


@pytest.mark.parametrize("partitioning", [wave_by_insertion(4), DoublyPartitioned(2, 2)])
def test_rebuild_keeps_the_rows_of_a_key_together_by_their_ends(
    tmp_path: Path, partitioning: DoublyPartitioned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mullion.storage.lifetime_index.rebuild.AT_A_TIME", 5)
    index = create(tmp_path, partitioning, "rebuild")
    random = np.random.default_rng(3)
    for now in range(0, 40, INTERVAL):
        keys, ends = random.integers(0, 6, 30).tolist(), (now + random.integers(1, 17, 30)).tolist()
        update(
            index, now, [(k, 0.0, now * 100 + i, now, end) for i, (k, end) in enumerate(zip(keys, ends, strict=True))]
        )
        for sub in index.snapshot().subs:
            assert isinstance(sub, Rebuilt)
            rows = [row for table in sub.tables() for row in table.to_pylist()]
            found = list(dict.fromkeys(row["k"] for row in rows))
            assert sub.keys.values.to_pylist() == found
            assert rows == sorted(rows, key=lambda row: (found.index(row["k"]), row[END]))


def test_norebuild_uses_empty_buckets_again(tmp_path: Path) -> None:
    """The file holds two versions of what is there, however many updates came."""
    index = create(tmp_path, DoublyPartitioned(2, 2), "norebuild")
    most = 0
    for now in range(0, 160, INTERVAL):
        update(index, now, [(i % 4, 0.0, now * 100 + i, now, now + 2 + i % 14) for i in range(40)])
        sizes = sum(path.stat().st_size for path in tmp_path.glob("*.buckets"))
        if now < 80:
            most = max(most, sizes)
        else:
            assert sizes <= 1.2 * most


def test_norebuild_adds_to_a_bucket_with_room_without_reading_it(tmp_path: Path) -> None:
    index = create(tmp_path, wave_by_insertion(1), "norebuild")
    update(index, 0, [(k, 0.0, k, 0, 10) for k in range(50)])
    file = tmp_path / "000.buckets"
    size = file.stat().st_size
    counts = update(index, 2, [(7, 0.0, 100, 2, 9), (7, 0.0, 101, 2, 5)])
    assert (counts.bytes_read, file.stat().st_size) == (0, size)
    assert listed(search(index.snapshot(), 7)) == [(7, 0.0, 7, 0, 10), (7, 0.0, 100, 2, 9), (7, 0.0, 101, 2, 5)]
    counts = update(index, 4, [(7, 0.0, 102, 4, 20)])
    assert (counts.bytes_read, file.stat().st_size) == (0, size + 4096)
    counts = update(index, 5, [])
    assert (counts.bytes_read, counts.deleted) == (4096, 1)
    assert listed(search(index.snapshot(), 7)) == [(7, 0.0, 7, 0, 10), (7, 0.0, 100, 2, 9), (7, 0.0, 102, 4, 20)]


@each_clustering
def test_large_sub_indices_are_edited_piece_by_piece(
    tmp_path: Path, clustering: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mullion.storage.lifetime_index.rebuild.AT_A_TIME", 400)
    monkeypatch.setattr("benchmarks.bucket_index.norebuild.AT_A_TIME", 400)
    index = create(tmp_path, DoublyPartitioned(2, 2), clustering)
    there: list[Row] = []
    for now in range(0, 16, INTERVAL):
        fresh = [(i % 11, float(i), now * 1000 + i, now, now + 1 + i % 16) for i in range(300)]
        update(index, now, fresh)
        there = [row for row in there + fresh if row[4] > now]
        assert listed(scan(index.snapshot())) == there


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [1, -5]),
    "double": (pa.float64(), [1.5, -2.5]),
    "decimal": (pa.decimal128(12, 2), [Decimal("1.50"), Decimal("-2.25")]),
    "date": (pa.date32(), [datetime.date(2020, 1, 2), datetime.date(1960, 1, 2)]),
    "timestamp": (pa.timestamp("us"), [datetime.datetime(2020, 1, 2, 3), datetime.datetime(1960, 1, 2)]),
    "bytes": (pa.binary(3), [b"abc", b"\x00xy"]),
    "string": (pa.string(), ["a", "", "long " * 50]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "c"]),
    "list": (pa.list_(pa.int64()), [[1, 2], []]),
}


@pytest.mark.parametrize("name", VALUES)
@each_clustering
@pytest.mark.parametrize("is_key", [False, True])
def test_values_of_all_types_come_back(tmp_path: Path, name: str, clustering: str, is_key: bool) -> None:
    type_, values = VALUES[name]
    schema = pa.schema({"k": type_} if is_key else {"k": pa.int64(), "v": type_})

    def build() -> LifetimeIndex:
        return create(tmp_path, DoublyPartitioned(2, 2), clustering, schema)

    no_key = is_key and name == "list"
    no_record = clustering == "norebuild" and name in ("string", "dictionary", "list")
    if no_key or no_record:
        with pytest.raises(NotSupported, match="is not supported yet"):
            build()
        return
    index = build()
    values = [*values, None, *values]
    for now in (0, 2):
        column = pa.array(values, type_)
        rows = {"k": column} if is_key else {"k": pa.array([1] * len(values)), "v": column}
        times = np.full(len(values), now)
        index.update(now, pa.table(rows), times, times + 3 + np.arange(len(values)) % 4)
    name = "k" if is_key else "v"
    found = scan(index.snapshot(), at=2).column(name).to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, values * 2))
    if is_key:
        for value in {repr(v): v for v in values}.values():
            wanted = sum(v == value for v in values) * 2
            assert search(index.snapshot(), [value], at=2).column("k").to_pylist() == [value] * wanted


@each_clustering
def test_keys_of_floats_are_equal_as_in_group_by(tmp_path: Path, clustering: str) -> None:
    index = create(tmp_path, DoublyPartitioned(2, 2), clustering, pa.schema({"k": pa.float64()}))
    values = np.array([0.0, -0.0, np.nan, -np.nan, 1.0])
    index.update(0, pa.table({"k": values}), np.zeros(5, np.int64), np.full(5, 8))
    assert [len(search(index.snapshot(), value)) for value in (0.0, -0.0, float("nan"), 1.0, 2.0)] == [2, 2, 2, 1, 0]


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    index = create(tmp_path, DoublyPartitioned(2, 2), "rebuild")
    update(index, 10, [])
    with pytest.raises(ValueError, match="cannot be updated at 8"):
        update(index, 8, [])
    with pytest.raises(ValueError, match="after the update at 12"):
        update(index, 12, [(1, 0.0, 0, 13, 14)])
    with pytest.raises(ValueError, match="has the columns"):
        index.update(12, pa.table({"x": [1]}), np.array([1]), np.array([20]))
    with pytest.raises(ValueError, match="rebuild or norebuild"):
        create(tmp_path, DoublyPartitioned(2, 2), "other")
    with pytest.raises(ValueError, match="no column k"):
        create(tmp_path, DoublyPartitioned(2, 2), "rebuild", pa.schema({"x": pa.int64()}))
