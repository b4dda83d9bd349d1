"""Small indices of rows with different lifetimes, in every way of keeping them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.bucket_index import Bucketed
from mullion.storage.lifetime_index import (
    END,
    START,
    Calendar,
    Definition,
    DoublyPartitioned,
    LifetimeIndex,
    wave_by_expiry,
    wave_by_insertion,
)
from mullion.storage.lifetime_index.rows import alive
from mullion.storage.lifetime_index.snapshot import Snapshot

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.float64(), "id": pa.int64()})
LIFETIME, INTERVAL = 16, 2
PARTITIONINGS = {
    "one sub-index": wave_by_insertion(1),
    "wave by insertion": wave_by_insertion(4),
    "wave by expiry": wave_by_expiry(4),
    "chronological 2x2": DoublyPartitioned(2, 2, round_robin=False),
    "round-robin 2x2": DoublyPartitioned(2, 2),
    "round-robin 4x2": DoublyPartitioned(4, 2),
    "round-robin 3x3, which no cycle is a multiple of": DoublyPartitioned(3, 3),
}
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where files cost least."""
CLUSTERINGS = ("rebuild", pytest.param(Bucketed.kind, marks=pytest.mark.slow))
"""The second is for benchmarks alone."""

each_partitioning = pytest.mark.parametrize("partitioning", PARTITIONINGS.values(), ids=PARTITIONINGS)
each_clustering = pytest.mark.parametrize("clustering", CLUSTERINGS)


Row = tuple[int | None, float, int, int, int]
"""Key, value, id, start, end."""


def create(
    directory: Path,
    partitioning: DoublyPartitioned,
    clustering: str,
    schema: pa.Schema = SCHEMA,
) -> LifetimeIndex:
    definition = Definition(schema, "k", Calendar(partitioning, LIFETIME, INTERVAL), clustering, bucket_rows=3)
    return LifetimeIndex.create(directory, definition)


def update(index: LifetimeIndex, now: int, rows: list[Row], gone: list[int] | None = None) -> Any:
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)]
    start, end = (np.array([row[i] for row in rows], np.int64) for i in (3, 4))
    wanted = None if gone is None else pa.table({"id": pa.array(gone, pa.int64())})
    return index.update(now, pa.table(columns, schema=SCHEMA), start, end, gone=wanted)


def scan(snapshot: Snapshot, at: int | None = None) -> pa.Table:
    """The rows that are there, by default when the index was updated."""
    return _there(snapshot, [table for sub in snapshot.subs for table in sub.tables()], at)


def search(snapshot: Snapshot, values: Any, at: int | None = None) -> pa.Table:
    """Those with this key, or one of these."""
    keys = pa.array(values if isinstance(values, list) else [values], snapshot.spec.key_type)
    return _there(snapshot, [sub.search(keys) for sub in snapshot.subs if sub.rows], at)


def _there(snapshot: Snapshot, tables: list[pa.Table], at: int | None) -> pa.Table:
    nothing = snapshot.spec.stored.empty_table()
    return nothing if snapshot.now is None else alive(pa.concat_tables([nothing, *tables]), at or snapshot.now)


def listed(table: pa.Table) -> list[Row]:
    assert table.schema.names == ["k", "v", "id", START, END]
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=lambda row: row[2])
