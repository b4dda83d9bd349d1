"""What a commit stands on survives a power cut before the commit does, though files go to the disk side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mullion.storage.files import SWEPT
from without_spark import engine_without_spark

BATCHES = 5


class Disk:
    """A disk that takes long for some files, and what is on it."""

    def __init__(self, out: Path, slow: str) -> None:
        self._out, self._slow = out, slow
        self._sync, self._replace = os.fsync, os.replace
        self._synced, self.commits = set[str](), list[tuple[str, int]]()

    def sync(self, handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")
        time.sleep(0.03 if self._slow in path else 0.0)
        self._sync(handle)
        self._synced.add(path)

    def replace(self, old: Path, new: Path) -> None:
        if new.parent.name == "commits":
            needed = list(self._needed(new.parent.parent))
            lost = [path for path in needed if str(path) not in self._synced]
            assert not lost, f"{lost} would be lost"
            self.commits.append((new.parent.parent.parent.name, len(needed)))
        self._replace(old, new)
        if str(old) in self._synced:
            self._synced.add(str(new))
        self._synced.discard(str(new.parent))

    def _needed(self, journal: Path) -> Iterator[Path]:
        """Files that only commits give a meaning, answers, and the folders of both."""
        folders = [journal / folder for folder in SWEPT]
        query = "total" if journal.parent.name == "streams" else "seen"
        for folder in (*folders, (self._out / query).resolve()):
            files = [path for path in folder.glob("*") if path.is_file() and not path.name.startswith(".")]
            yield from [*files, folder] if files else []


@pytest.mark.slow
@pytest.mark.parametrize("slow", ["/out/", "/intake", "/shelf"])
def test_a_commit_comes_after_all_that_it_stands_on(slow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events, checkpoint, out = tmp_path / "events", tmp_path / "checkpoint", tmp_path / "out"
    events.mkdir()
    for i in range(BATCHES):
        times = pa.array([1_000_000 * (3 * i + j) for j in range(3)], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"ts": times, "x": pa.array([i, i + 1, 7], pa.int32())}), events / f"{i}.parquet")
    disk = Disk(out, slow)
    monkeypatch.setattr("os.fsync", disk.sync)
    monkeypatch.setattr("os.replace", disk.replace)
    with engine_without_spark(checkpoint=checkpoint, out=out) as engine:
        engine.execute(
            f"CREATE STREAM s (ts TIMESTAMP, x INT) USING parquet OPTIONS (path '{events}', maxFilesPerTrigger '1') "
            "TIMESTAMP BY ts;"
            "CREATE QUERY total AS SELECT sum(x) AS total FROM s [RANGE '4 s' SLIDE '2 s'];"
            "CREATE QUERY seen AS SELECT DISTINCT x FROM s [RANGE '5 s' SLIDE '2 s']"
        )
        engine.run()
    of = [sum(needed for kind, needed in disk.commits if kind == own) for own in ("streams", "relations")]
    assert len(disk.commits) >= 2 * BATCHES and min(of) > BATCHES
