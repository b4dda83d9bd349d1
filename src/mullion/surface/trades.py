"""Generated trades: an hour of a stock market, as krishnamurthy 2006 describes it.

Volumes repeat as they do on the stock market (section 4.3.3), and the hour has as many trades as the one that the paper
measures (section 6.1).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
    ranks = np.searchsorted(weights, rng.random(size) * weights[-1], side="right")
    return np.minimum(ranks, values - 1).astype(np.int64)


def _volumes(rng: np.random.Generator, size: int) -> npt.NDArray[np.int32]:
    """Half are 100, with fourteen others they make over nine tenths, and the rest are rare sizes up to 1.6 million."""
    common = np.array(COMMON_VOLUMES, np.int32)
    rare = np.unique(np.geomspace(10, LARGEST_VOLUME, 4 * RARE_VOLUMES).astype(np.int32) // 10 * 10)
    rare = rng.permutation(rare[~np.isin(rare, common)])[:RARE_VOLUMES]
    kind = rng.random(size)
    others = common[1:][rng.integers(0, len(common) - 1, size)]
    odd = rare[rng.integers(0, len(rare), size)]
    return np.where(kind < HUNDREDS, common[0], np.where(kind < HUNDREDS + OTHER_COMMON, others, odd))
