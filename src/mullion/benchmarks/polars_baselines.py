"""The same questions asked of polars: one group_by_dynamic for each, in the shapes that suit it best.

Polars comes with the `bench` extra only, so it is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mullion.benchmarks.answers import Answer, answer
from mullion.benchmarks.workloads import Window

Frame = Any
"""A polars DataFrame."""
Lazy = Any
"""A polars LazyFrame."""


def is_installed() -> bool:
    return find_spec("polars") is not None


def read(directory: Path) -> Frame:
    """The needed columns in memory, the product computed once."""
    return _values(directory).collect()


def one_by_one(frame: Frame, windows: Sequence[Window]) -> list[Frame]:
    """From memory, one query after the other."""
    values = frame.lazy().set_sorted("ts")
    return [_asked(values, window).collect() for window in windows]


def all_at_once(frame: Frame, windows: Sequence[Window]) -> list[Frame]:
    """From memory, all queries in one call, so that polars may run them side by side."""
    values = frame.lazy().set_sorted("ts")
    found: list[Frame] = _polars().collect_all([_asked(values, window) for window in windows])
    return found


def from_files(directory: Path, windows: Sequence[Window]) -> list[Frame]:
    """Every query reads the files itself."""
    values = _values(directory).set_sorted("ts")
    return [_asked(values, window).collect() for window in windows]


def answers(frames: Sequence[Frame]) -> list[Answer]:
    """Polars leaves out windows that start more than a slide before the first event."""
    return [answer(frame["ts"].cast(_polars().Int64).to_numpy(), frame["total"].to_numpy()) for frame in frames]


def _polars() -> Any:
    return import_module("polars")


def _values(directory: Path) -> Lazy:
    """Instants without a time zone, which polars groups faster, and the product that all queries add up."""
    pl = _polars()
    trades = pl.scan_parquet(directory / "*.parquet")
    return trades.select(pl.col("ts").dt.replace_time_zone(None), value=pl.col("price") * pl.col("volume"))


def _asked(values: Lazy, window: Window) -> Lazy:
    """Polars' windows start at multiples of `every`; shifted, they end there as Mullion's do."""
    range_, slide = window
    grouped = values.group_by_dynamic(
        "ts", every=f"{slide}us", period=f"{range_}us", offset=f"{-range_ % slide}us", closed="left"
    )
    return grouped.agg(total=_polars().col("value").sum())
