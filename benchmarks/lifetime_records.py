"""Records with random lifetimes, ways to index them on disk, and how long each takes (golab 4.4).

A record has 1,000 bytes: a search key out of 100, the times when it comes and goes, and contents. One comes in each
unit of time and lives between 1 and S units, uniformly; so there are always about S / 2. At first the index is filled
with these. Then come 36 updates with new records, until as many came as there were. After an update one key is looked
up, and after some of them everything is read.

How it is measured: an update is over when all that it wrote is on the disk (fsync) and old files are removed. Before
every update, search and scan the pages of all files are dropped from the page cache (posix_fadvise), so that they read
from the disk, however much memory there is. What is found is looked at byte by byte, since files that are only mapped
into memory would not be read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.bucket_index import Bucketed
from mullion.expressions.arrays import Times
from mullion.storage.lifetime_index import (
    Calendar,
    Definition,
    DoublyPartitioned,
    LifetimeIndex,
    wave_by_expiry,
    wave_by_insertion,
)

KEYS = 100
CONTENTS = 980
"""Bytes; the key takes 4, the times 16."""
RECORD = 1_000
SCHEMA = pa.schema({"key": pa.int32(), "contents": pa.binary(CONTENTS)})
BUCKETS_PER_KEY = 2.5
"""In each sub-index, on average."""
SEED = 2006


@dataclass(frozen=True)
class Technique:
    """A way to index, by the paper's name: R-ins4, D-exp9, Rebuild4x4, NoRebuild2x2 chr."""

    kind: str
    insertions: int
    expiries: int = 1

    @property
    def name(self) -> str:
        kind, _, how = self.kind.partition(" ")
        size = f"{self.insertions}x{self.expiries}" if kind.endswith("ebuild") else f"{self.sub_indices}"
        return f"{kind}{size}{how and ' ' + how}"

    @property
    def sub_indices(self) -> int:
        return self.insertions * self.expiries

    @property
    def clustering(self) -> str:
        return "rebuild" if self.kind.startswith("R") else Bucketed.kind

    @property
    def partitioning(self) -> DoublyPartitioned:
        if "-ins" in self.kind:
            return wave_by_insertion(self.sub_indices)
        if "-exp" in self.kind:
            return wave_by_expiry(self.sub_indices)
        return DoublyPartitioned(self.insertions, self.expiries, round_robin="chr" not in self.kind)


@dataclass(frozen=True)
class Workload:
    """How many records, and how evenly they come."""

    megabytes: int
    updates: int = 36
    fluctuating: bool = False
    """The rate varies at random by a factor of up to four."""
    scan_every: int = 6
    """After how many updates everything is read."""
    measured: int | None = None
    """How many of the updates are made; None: all. From the first to the last there is as much in the index."""

    @property
    def records(self) -> int:
        return self.megabytes * 1_000_000 // RECORD

    @property
    def interval(self) -> int:
        """Between updates; the new records of `updates` intervals are as many as there are at first."""
        return self.records // self.updates

    @property
    def lifetime(self) -> int:
        return 2 * self.updates * self.interval

    @cached_property
    def arrivals(self) -> list[int]:
        """New records of every update."""
        random = np.random.default_rng(SEED + 1)
        shares = 4 ** random.uniform(-0.5, 0.5, self.updates) if self.fluctuating else np.ones(self.updates)
        return np.round(shares / shares.mean() * self.interval).astype(int).tolist()

    def create(self, technique: Technique, directory: Path) -> LifetimeIndex:
        bucket = self.records / (KEYS * technique.sub_indices * BUCKETS_PER_KEY)
        calendar = Calendar(technique.partitioning, self.lifetime, self.interval)
        definition = Definition(SCHEMA, "key", calendar, technique.clustering, max(1, round(bucket)))
        return LifetimeIndex.create(directory, definition)


class Source:
    """The same records for every technique."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._random = np.random.default_rng(SEED)

    def first(self) -> tuple[pa.Table, Times, Times]:
        """Records that came before 0 and are still there."""
        span = self._workload.lifetime
        start = np.arange(-span + 1, 1)
        end = start + self._lives(span)
        there = end > 0
        return self._table(int(there.sum())), start[there], end[there]

    def next(self, now: int, count: int) -> tuple[pa.Table, Times, Times]:
        """So many records, evenly over the interval that ends now."""
        interval = self._workload.interval
        start = now - interval + 1 + np.arange(count) * interval // max(1, count)
        return self._table(count), start, start + self._lives(count)

    def key(self) -> int:
        return int(self._random.integers(KEYS))

    def _lives(self, count: int) -> Times:
        return self._random.integers(1, self._workload.lifetime + 1, count)

    def _table(self, count: int) -> pa.Table:
        keys = self._random.integers(0, KEYS, count, np.int32)
        contents = pa.py_buffer(self._random.bytes(count * CONTENTS))
        return pa.table([keys, pa.Array.from_buffers(SCHEMA.field("contents").type, count, [None, contents])], SCHEMA)


@dataclass(frozen=True)
class Measured:
    """Averages of one technique."""

    technique: Technique
    workload: Workload
    update: float
    """Seconds."""
    probe: float
    scan: float
    touched: float
    """Sub-indices that an update looks into."""
    read: float
    """Bytes of an update."""
    written: float
    spread: float
    """The standard deviation of sub-index sizes, as a part of their mean."""

    @property
    def told(self) -> str:
        """On one line."""
        times = f"update {self.update:.3f} s, probe {1000 * self.probe:.1f} ms, scan {self.scan:.3f} s"
        return f"{self.technique.name}: {times}, {self.touched:g} touched, {self.written / 1e6:,.0f} MB written"

    def to_json(self) -> dict[str, Any]:
        names = ("update", "probe", "scan", "touched", "read", "written", "spread")
        workload = {"megabytes": self.workload.megabytes, "fluctuating": self.workload.fluctuating}
        return {"technique": self.technique.name, **workload, **{name: getattr(self, name) for name in names}}


def measure(technique: Technique, workload: Workload, folder: Path) -> Measured:
    """Fill an index, update it, ask it; the directory is gone afterwards."""
    directory = folder / "index"
    shutil.rmtree(directory, ignore_errors=True)
    try:
        return _measure(technique, workload, workload.create(technique, directory))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _measure(technique: Technique, workload: Workload, index: LifetimeIndex) -> Measured:
    source = Source(workload)
    index.update(0, *source.first())
    updates, probes, scans, counts, spreads = [], [], [], [], []
    for number, arrivals in enumerate(workload.arrivals[: workload.measured], 1):
        now = number * workload.interval
        seconds, count = _timed(index, partial(index.update, now, *source.next(now, arrivals)))
        updates.append(seconds)
        counts.append(count)
        probes.append(_timed(index, partial(_probe, index, source.key()))[0])
        if number % workload.scan_every == 0 or number == (workload.measured or workload.updates):
            scans.append(_timed(index, lambda: look_at(_tables(index)))[0])
        spreads.append(np.std(index.sizes) / np.mean(index.sizes))
    return Measured(
        technique,
        workload,
        update=float(np.mean(updates)),
        probe=float(np.mean(probes)),
        scan=float(np.mean(scans)),
        touched=float(np.mean([count.touched for count in counts])),
        read=float(np.mean([count.bytes_read for count in counts])),
        written=float(np.mean([count.bytes_written for count in counts])),
        spread=float(np.mean(spreads)),
    )


def _tables(index: LifetimeIndex) -> Iterator[pa.Table]:
    """All rows, some at a time."""
    return (table for sub in index.snapshot().subs for table in sub.tables())


def _probe(index: LifetimeIndex, key: int) -> int:
    keys = pa.array([key], index.snapshot().spec.key_type)
    return look_at(sub.search(keys) for sub in index.snapshot().subs if sub.rows)


def _timed(index: LifetimeIndex, work: Callable[[], Any]) -> tuple[float, Any]:
    forget(index.directory)
    begin = perf_counter()
    done = work()
    return perf_counter() - begin, done


def forget(directory: Path) -> None:
    """Have the system drop the pages of all files here, which are on the disk, from its cache."""
    for path in directory.iterdir():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def look_at(tables: Iterable[pa.Table]) -> int:
    """Read every byte of the contents."""
    total = 0
    for table in tables:
        for chunk in table.column("contents").chunks:
            data = np.frombuffer(chunk.buffers()[1], np.uint8)
            part = data[chunk.offset * CONTENTS : (chunk.offset + len(chunk)) * CONTENTS]
            total ^= int(np.bitwise_xor.reduce(part))
    return total
