"""The same questions asked of polars: one group_by_dynamic for each, in the shapes that suit it best.

Polars comes with the `bench` extra only, so it is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.answers import Answer, answer
from benchmarks.market import INDEXES
from benchmarks.questions import QUANTITIES, Question

Frame = Any
"""A polars DataFrame."""
Lazy = Any
"""A polars LazyFrame."""


def is_installed() -> bool:
    return find_spec("polars") is not None


def read(directory: Path) -> Frame:
    """The needed columns in memory, the product computed once."""
    return _values(directory).collect()


def join(trades: Path, close: Path, index: Path) -> Frame:
    """The columns that predicates speak of and the product, of trades joined with both tables, in memory."""
    pl = _polars()
    joined = pl.scan_parquet(trades / "*.parquet").join(pl.scan_parquet(close), on="symbol", maintain_order="left")
    joined = joined.join(pl.scan_parquet(index), on="symbol", maintain_order="left")
    value, change = pl.col("price") * pl.col("volume"), (pl.col("price") - pl.col("cp")).abs() / pl.col("cp")
    return joined.select(_time(pl), *INDEXES, "volume", value=value, change=change).collect()


def one_by_one(frame: Frame, questions: Sequence[Question]) -> list[Frame]:
    """From memory, one query after the other."""
    values = frame.lazy().set_sorted("ts")
    return [_asked(values, question).collect() for question in questions]


def all_at_once(frame: Frame, questions: Sequence[Question]) -> list[Frame]:
    """From memory, all queries in one call, so that polars may run them side by side."""
    values = frame.lazy().set_sorted("ts")
    found: list[Frame] = _polars().collect_all([_asked(values, question) for question in questions])
    return found


def from_files(directory: Path, questions: Sequence[Question]) -> list[Frame]:
    """Every query reads the files itself."""
    values = _values(directory).set_sorted("ts")
    return [_asked(values, question).collect() for question in questions]


def answers(frames: Sequence[Frame]) -> list[Answer]:
    """Polars leaves out windows that start more than a slide before the first event."""
    return [answer(frame["ts"].cast(_polars().Int64).to_numpy(), frame["total"].to_numpy()) for frame in frames]


def _polars() -> Any:
    return import_module("polars")


def _time(pl: Any) -> Any:
    return pl.col("ts").dt.replace_time_zone(None)


def _columns() -> dict[str, Any]:
    return {name: _polars().col(name) for name in (*INDEXES, *QUANTITIES)}


def _values(directory: Path) -> Lazy:
    """Instants without a time zone, which polars groups faster, and the product that all queries add up."""
    pl = _polars()
    trades = pl.scan_parquet(directory / "*.parquet")
    return trades.select(_time(pl), value=pl.col("price") * pl.col("volume"))


def _asked(values: Lazy, question: Question) -> Lazy:
    """Polars' windows start at multiples of `every`; shifted, they end there as Mullion's do."""
    range_, slide = question.window
    if question.predicate is not None:
        values = values.filter(question.predicate.holds(_columns())).set_sorted("ts")
    grouped = values.group_by_dynamic(
        "ts", every=f"{slide}us", period=f"{range_}us", offset=f"{-range_ % slide}us", closed="left"
    )
    return grouped.agg(total=_polars().col("value").sum())
