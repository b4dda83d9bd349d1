"""Two links of generated events in files, one file a micro-batch: what Spark and Mullion are both given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mullion.surface.trades import SECOND

START = 1_700_000_000 * SECOND
HOUR = 3600 * SECOND


@dataclass(frozen=True)
class Links:
    """`events` on each link within an hour, in `files` files, from `sources` addresses, some far busier than others."""

    directory: Path
    events: int
    files: int
    sources: int
    seed: int = 11

    def paths(self) -> tuple[Path, Path]:
        return self.directory / "link1", self.directory / "link2"

    def write(self) -> None:
        random = np.random.default_rng(self.seed)
        for path in self.paths():
            path.mkdir(parents=True)
            times = np.sort(random.integers(0, HOUR, self.events)) + START
            columns = {
                "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
                "src": pa.array(self._sources(random)),
                "bytes": pa.array(random.integers(40, 1500, self.events).astype(np.int32)),
            }
            table = pa.table(columns)
            edges = np.searchsorted(times, START + np.arange(self.files + 1) * HOUR // self.files)
            for i in range(self.files):
                part = table.slice(edges[i], edges[i + 1] - edges[i])
                pq.write_table(part, path / f"part-{i:04d}.parquet")

    def _sources(self, random: np.random.Generator) -> np.ndarray:
        """Skewed: the square of a uniform number, so that the first hundredth of the addresses has a tenth of it."""
        return (random.random(self.events) ** 2 * self.sources).astype(np.int64)
