"""A folder with a script and its trades."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from surface.shell import (
    NOON,
    SCRIPT,
    SECOND,
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three minutes of trades, one file each; the last also holds a late trade and one without a time."""
    folder = tmp_path_factory.mktemp("world")
    (folder / "data").mkdir()
    (folder / "script.sql").write_text(SCRIPT)
    for minute in range(3):
        times: list[int | None] = [NOON + (60 * minute + 6 * i) * SECOND for i in range(10)]
        if minute == 2:
            times += [NOON, None]
        length = len(times)
        table = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "symbol": ["AB"[i % 2] for i in range(length)],
                "price": [float(minute * 100 + i) for i in range(length)],
                "volume": pa.array(range(length), pa.int32()),
            }
        )
        file = folder / "data" / f"{minute}.parquet"
        pq.write_table(table, file)
        os.utime(file, (1_000_000 + minute, 1_000_000 + minute))
    return folder


@pytest.fixture
def here(world: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(world)
    yield world
