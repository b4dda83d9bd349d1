"""The data and the query sets of the measurements.

Both follow krishnamurthy 2006: an hour of trades (section 6.1) whose volumes repeat as they do on the stock market
(section 4.3.3), and the queries of workload A, which differ in their windows only (section 6.2).
"""

from __future__ import annotations

import os
from itertools import pairwise
from math import gcd
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mullion.errors import MullionError

Window = tuple[int, int]
"""Range and slide in microseconds."""

EVENTS = 1_138_636
"""Trades in the hour that the paper measures (6.2)."""

NOON = 1101902400_000_000
"""2004-12-01 12:00 UTC in microseconds: the hour that the paper measures."""

SECOND = 1_000_000
HOUR = 3600 * SECOND
SYMBOLS = 3000

COMMON_VOLUMES = (100, 200, 300, 500, 1000, 400, 600, 700, 800, 2000, 900, 1500, 5000, 10_000, 1200)
HUNDREDS = 0.5
"""The share of trades of 100 pieces."""
OTHER_COMMON = 0.41
"""The share of the other fourteen common volumes: together with the hundreds they are over nine tenths."""
RARE_VOLUMES = 1900
LARGEST_VOLUME = 1_600_000

_ROW_GROUP = 100_000


def generate_trades(events: int = EVENTS, *, seed: int = 7, start: int = NOON, span: int = HOUR) -> pa.Table:
    """Trades of an hour, ordered by time, with the distribution that the paper reports; the same for the same seed."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(start, start + span, events))
    names = pa.array([f"S{i:04d}" for i in range(SYMBOLS)])
    return pa.table(
        {
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "symbol": names.take(pa.array(_zipf(rng, SYMBOLS, events))),
            "price": np.round(np.exp(rng.normal(3.0, 1.0, events)), 2),
            "volume": _volumes(rng, events),
        }
    )


def _zipf(rng: np.random.Generator, values: int, size: int) -> npt.NDArray[np.int64]:
    """Ranks 0, 1, ... of which rank k is chosen in proportion to 1 / (k + 1)."""
    weights = np.cumsum(1.0 / np.arange(1, values + 1))
    found = np.searchsorted(weights, rng.random(size) * weights[-1], side="right")
    return np.minimum(found, values - 1).astype(np.int64)


def _volumes(rng: np.random.Generator, size: int) -> npt.NDArray[np.int32]:
    """Half are 100, with fourteen others they make over nine tenths, and the rest are rare sizes up to 1.6 million."""
    common = np.array(COMMON_VOLUMES, np.int32)
    rare = np.unique(np.geomspace(10, LARGEST_VOLUME, 4 * RARE_VOLUMES).astype(np.int32) // 10 * 10)
    rare = rng.permutation(rare[~np.isin(rare, common)])[:RARE_VOLUMES]
    kind = rng.random(size)
    others = common[1:][rng.integers(0, len(common) - 1, size)]
    odd = rare[rng.integers(0, len(rare), size)]
    return np.where(kind < HUNDREDS, common[0], np.where(kind < HUNDREDS + OTHER_COMMON, others, odd))


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
