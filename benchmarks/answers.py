"""What every measured path must answer: a benchmark of wrong answers is worth nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.workloads import Window
from mullion.errors import MullionError

TOLERANCE = 1e-9
"""Relative: the order in which floating point numbers are added is not the same everywhere."""


class Answer(NamedTuple):
    """The answers of one query: where each window starts (microseconds) and its total, in the order of time."""

    starts: npt.NDArray[np.int64]
    totals: npt.NDArray[np.float64]


def answer(starts: npt.ArrayLike, totals: npt.ArrayLike) -> Answer:
    starts, totals = np.asarray(starts, np.int64), np.asarray(totals, np.float64)
    order = np.argsort(starts)
    return Answer(starts[order], totals[order])


class Oracle:
    """Adds up the events of every window by itself, one window after the other, without Spark, slices or polars."""

    def __init__(self, trades: pa.Table) -> None:
        self.times = trades["ts"].cast(pa.int64()).to_numpy()
        self.values = trades["price"].to_numpy() * trades["volume"].to_numpy()

    def answer(self, window: Window, mask: npt.NDArray[np.bool_] | None = None) -> Answer:
        """Windows end at multiples of the slide; those that hold an event are answered. The mask selects events."""
        times, values = self._selected(mask)
        starts, low, high = windows_of(times, window)
        return answer(starts, [values[a:b].sum() for a, b in zip(low, high, strict=True)])

    def by_group(
        self, window: Window, codes: npt.NDArray[np.int64], mask: npt.NDArray[np.bool_] | None = None
    ) -> Answer:
        """For every group that a window holds; see `group_keys` for what stands in place of the starts."""
        times, values = self._selected(mask)
        codes = codes if mask is None else codes[mask]
        keys: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        totals: list[npt.NDArray[np.float64]] = [np.empty(0)]
        for start, a, b in zip(*windows_of(times, window), strict=True):
            present = np.unique(codes[a:b])
            keys.append(group_keys(start, present))
            totals.append(np.asarray(np.bincount(codes[a:b], weights=values[a:b])[present], np.float64))
        return answer(np.concatenate(keys), np.concatenate(totals))

    def _selected(self, mask: npt.NDArray[np.bool_] | None) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        return (self.times, self.values) if mask is None else (self.times[mask], self.values[mask])


def windows_of(
    times: npt.NDArray[np.int64], window: Window
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Where the windows that hold an event start, and which events they hold."""
    if not len(times):
        return np.empty(0, np.int64), np.empty(0, np.intp), np.empty(0, np.intp)
    range_, slide = window
    ends = np.arange(times[0] // slide + 1, (times[-1] + range_) // slide + 1) * slide
    low, high = np.searchsorted(times, ends - range_), np.searchsorted(times, ends)
    holds = high > low
    return (ends - range_)[holds], low[holds], high[holds]


def group_keys(starts: npt.ArrayLike, codes: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """A number for each window and group: windows of whole seconds leave room for a million groups."""
    return np.asarray(starts, np.int64) + np.asarray(codes, np.int64)


def check(what: str, window: Window, got: Answer, expected: Answer, *, part: bool = False) -> None:
    """Raises when an answer is missing, too many or wrong. With `part`, windows at either end may be missing."""
    if part and len(got.starts):
        inside = (expected.starts >= got.starts[0]) & (expected.starts <= got.starts[-1])
        expected = Answer(expected.starts[inside], expected.totals[inside])
    name = f"{what}: the window of {window[0]} us every {window[1]} us"
    if not len(got.starts):
        raise MullionError(f"{name} has no answers")
    if not np.array_equal(got.starts, expected.starts):
        raise MullionError(f"{name} has {len(got.starts)} answers, {len(expected.starts)} are right, or at other times")
    wrong = ~np.isclose(got.totals, expected.totals, rtol=TOLERANCE, atol=0)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise MullionError(f"{name} is wrong at {got.starts[i]}: {got.totals[i]!r} instead of {expected.totals[i]!r}")
