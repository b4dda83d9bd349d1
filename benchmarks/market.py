"""The stock market of krishnamurthy 2006 (Table 7): an hour of trades, closing prices of the day before, and indexes.

A symbol's price stays near its closing price, as on a real market: it has moved since the day before, drifts from
minute to minute, and changes by a cent from trade to trade.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mullion.surface.trades import EVENTS, HOUR, NOON, SYMBOLS, generate_trades

INDEXES = ("r3000", "r2000", "r1000")
LISTED = 0.8
"""The share of symbols that the largest index holds; the others are too small for it."""
LARGEST = 1 / 3
"""The share of the largest index that r1000 takes; r2000 holds the rest of it."""

MOVE = 0.02
"""Standard deviation of a symbol's move since the day before."""
DRIFT = 0.0005
"""Standard deviation of its drift in a minute."""
CENT = 0.01
MINUTES = 60


@dataclass(frozen=True)
class Market:
    """One stream and two static tables."""

    trades: pa.Table
    close: pa.Table
    index: pa.Table

    @cached_property
    def codes(self) -> npt.NDArray[np.int64]:
        """The row of each trade's symbol in both tables."""
        return _codes(self.trades["symbol"], self.close["symbol"].combine_chunks())

    @cached_property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """What predicates speak of, for each trade."""
        price, volume = self.trades["price"].to_numpy(), self.trades["volume"].to_numpy()
        cp = self.close["cp"].to_numpy()[self.codes]
        found = {"volume": volume, "value": price * volume, "change": np.abs(price - cp) / cp}
        return found | {name: self.index[name].to_numpy()[self.codes] for name in INDEXES}


def generate_market(events: int = EVENTS, *, seed: int = 7) -> Market:
    """The same for the same seed. Times, symbols and volumes are those of `generate_trades`."""
    rng = np.random.default_rng([seed, 1])
    trades = generate_trades(events, seed=seed)
    names = pa.array([f"S{i:04d}" for i in range(SYMBOLS)])
    cp = np.asarray(np.round(np.maximum(np.exp(rng.normal(3.0, 1.0, SYMBOLS)), 1.0), 2), np.float64)
    prices = _prices(rng, trades, _codes(trades["symbol"], names), cp)
    trades = trades.set_column(trades.schema.get_field_index("price"), "price", pa.array(prices))
    close = pa.table({"symbol": names, "cp": cp})
    return Market(trades, close, pa.table({"symbol": names, **_memberships(rng)}))


def _codes(symbols: pa.ChunkedArray, names: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.index_in(symbols, names).to_numpy(), np.int64)


def _prices(
    rng: np.random.Generator, trades: pa.Table, codes: npt.NDArray[np.int64], cp: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    moves = rng.normal(0.0, MOVE, SYMBOLS)[:, None] + np.cumsum(rng.normal(0.0, DRIFT, (SYMBOLS, MINUTES)), axis=1)
    minutes = (trades["ts"].cast(pa.int64()).to_numpy() - NOON) * MINUTES // HOUR
    around = cp[codes] * (1 + moves[codes, minutes])
    ticks = rng.integers(-1, 2, len(trades)) * CENT
    return np.round(np.maximum(around + ticks, CENT), 2)


def _memberships(rng: np.random.Generator) -> dict[str, npt.NDArray[np.bool_]]:
    """A symbol is in r3000 if it is in r2000 or in r1000, and never in both of these."""
    rank = rng.permutation(SYMBOLS)
    listed, large = int(SYMBOLS * LISTED), int(SYMBOLS * LISTED * LARGEST)
    return {"r3000": rank < listed, "r2000": (rank >= large) & (rank < listed), "r1000": rank < large}


def write_table(path: Path, table: pa.Table) -> Path:
    """A small table as one Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path
