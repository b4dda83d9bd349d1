"""The files of trades that measurements read, and the query sets of workload A.

The queries of workload A differ in their windows only (krishnamurthy 6.2). The trades are those of the demonstration.
"""

from __future__ import annotations

import os
from itertools import pairwise
from math import gcd
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mullion.errors import MullionError
from mullion.surface.trades import EVENTS, NOON, SECOND, generate_trades

Window = tuple[int, int]
"""Range and slide in microseconds."""

_ROW_GROUP = 100_000


def write_trades(
    directory: str | os.PathLike[str], *, files: int = 12, events: int = EVENTS, table: pa.Table | None = None
) -> Path:
    """The trades as Parquet files that follow one another in time, and in modification time too.

    A file stream takes its files in the order of their modification times. Give `table` to write trades made before.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    table = generate_trades(events) if table is None else table
    bounds = np.linspace(0, len(table), files + 1).astype(int).tolist()
    for i, (low, high) in enumerate(pairwise(bounds)):
        path = folder / f"part-{i:05d}.parquet"
        pq.write_table(table.slice(low, high - low), path, row_group_size=_ROW_GROUP)
        changed = NOON // SECOND + i
        os.utime(path, (changed, changed))
    return folder


def workload_a(n: int, *, seed: int = 1) -> list[Window]:
    """Windows of whole seconds: ranges of 600 to 900 s, slides of 300 to 600 s, uniformly and all different."""
    return [(r * SECOND, s * SECOND) for r, s in _distinct_windows(n, seed, (600, 900), (300, 600))]


def workload_a_microseconds(n: int, *, seed: int = 1) -> list[Window]:
    """The same with ranges and slides of any microsecond: no grid coarser than a microsecond holds their edges."""
    low, high = (600 * SECOND, 900 * SECOND), (300 * SECOND, 600 * SECOND)
    windows = _distinct_windows(n, seed, low, high)
    step = common_step(windows)
    if n > 1 and step != 1:
        raise MullionError(f"the windows of seed {seed} share a grid of {step} us", hint="take another seed")
    return windows


def _distinct_windows(n: int, seed: int, ranges: tuple[int, int], slides: tuple[int, int]) -> list[Window]:
    """Both bounds belong to the choice. No two queries have the same window."""
    rng = np.random.default_rng(seed)
    found: dict[Window, None] = {}
    while len(found) < n:
        found[int(rng.integers(*ranges, endpoint=True)), int(rng.integers(*slides, endpoint=True))] = None
    return list(found)


def common_step(windows: list[Window]) -> int:
    """The step of the coarsest grid on which all windows start and end."""
    return gcd(*(value for window in windows for value in window))


def sum_query(window: Window, stream: str = "trades") -> str:
    """The query of workload A.

    >>> sum_query((600_000_000, 300_000_000))
    "SELECT sum(price * volume) AS total FROM trades [RANGE '600 s' SLIDE '300 s']"
    """
    return f"SELECT sum(price * volume) AS total FROM {stream} [{range_slide(window)}]"


def range_slide(window: Window) -> str:
    """A window as Mullion's SQL writes it between brackets."""
    return f"RANGE '{_text(window[0])}' SLIDE '{_text(window[1])}'"


def _text(duration: int) -> str:
    return f"{duration // SECOND} s" if duration % SECOND == 0 else f"{duration} us"
