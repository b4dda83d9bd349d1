"""Synopses that a user creates on a column: fed with every event in its order, asked at any time.

`CREATE SYNOPSIS t ON trades(price) USING timegram (buckets 64, rows 100000)` and `USING ordered_sharing (rows ..)`.
Events that wait for their place are not in the structure yet; an answer takes them in by themselves.

What questions see is never changed: a batch feeds a copy, which takes the place of the one before with the commit.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from copy import deepcopy
from math import fsum
from typing import Any, Self

import numpy as np
import pyarrow as pa

from mullion.aggregates.extremes import float_from_order, float_order
from mullion.catalog.synopses import Synopsis
from mullion.expressions.arrays import Real
from mullion.expressions.vector import Vector
from mullion.language.types import Type
from mullion.slices.order import times_of
from mullion.slices.ordered_sharing import OrderedSharing
from mullion.slices.timegram import TimeGram


class ColumnSynopsis:
    """The structures of one synopsis, and the times of the rows that they hold."""

    def __init__(self, definition: Synopsis, *, since: int | None = None) -> None:
        """`since`: the newest event that came before it was made. It takes what is later than that: events that waited
        then, and those that take their places among them, are not whole for it."""
        self.definition, self.since = definition, since
        self.grams: list[TimeGram] = []
        self.shared: list[OrderedSharing] = []
        if definition.kind == "timegram":
            self.grams = [_timegram(definition)]
        else:
            self.shared = [OrderedSharing(definition.rows, "max"), OrderedSharing(definition.rows, "min")]
        self._times = np.empty(0, np.int64)
        self._looking = threading.Lock()
        """Ordered sharing remembers what a lookup found."""

    def copy(self) -> Self:
        """One that may take events while others read this one. O(rows), as the commit that follows is."""
        copied = type(self)(self.definition, since=self.since)
        with self._looking:
            copied.grams, copied.shared = deepcopy(self.grams), deepcopy(self.shared)
        copied._times = self._times
        return copied

    def take(self, events: pa.Table, type_: Type) -> None:
        """Events in their order."""
        if self.since is not None:
            events = events.filter(pa.array(times_of(events) > self.since))
        vector = Vector.from_arrow(events.column(self.definition.column), type_)
        values = vector.values.astype(np.float64)
        for structure in self._structures():
            structure.extend(values, vector.valid)
        self._times = np.concatenate([self._times, times_of(events)])[-self.definition.rows :]

    def _structures(self) -> list[TimeGram | OrderedSharing]:
        return [*self.grams, *self.shared]

    def holds(self, rows: int, waiting: pa.Table | None) -> bool:
        """Whether the last so many events came since it was made, or it saw all there were."""
        if rows > self.definition.rows or self.since is None:
            return rows <= self.definition.rows
        return rows <= len(self._times) + (0 if waiting is None else int((times_of(waiting) > self.since).sum()))

    def opens(self, rows: int, waiting: pa.Table | None) -> int | None:
        """The time of the oldest of the last rows."""
        times = self._times if waiting is None else np.concatenate([self._times, np.sort(times_of(waiting))])
        return int(times[-rows:][0]) if len(times) else None

    def exact(self, function: str, rows: int, waiting: pa.Table | None, type_: Type) -> float | None:
        """max or min of the last rows."""
        newest = _newest(waiting, self.definition.column, type_, rows)
        parts = [newest.values[newest.valid].astype(np.float64)]
        if rows > len(newest) and self._times.size:
            with self._looking:
                found = self.shared[0 if function == "max" else 1].lookup([rows - len(newest)])
            parts.append(found.values[found.valid])
        order = float_order(np.concatenate(parts))
        if not len(order):
            return None
        best = order.max() if function == "max" else order.min()
        return float(float_from_order(np.array([best]), np.float64)[0])

    def bounds(self, function: str, rows: int, waiting: pa.Table | None, type_: Type) -> tuple[Any, Any]:
        """Bounds between which the answer over the last rows lies; None without a value."""
        newest = _newest(waiting, self.definition.column, type_, rows)
        own = newest.values[newest.valid].astype(np.float64)
        rest = rows - len(newest)
        gram = self.grams[0]
        count = len(own) + (_bounds(gram, "count", rest)[0] or 0 if rest > 0 else 0)
        if function == "count":
            return int(count), int(count)
        if not count:
            return None, None
        if function in ("max", "min"):
            low, high = _bounds(gram, function, rest) if rest > 0 else (None, None)
            return _extreme(function, own, low), _extreme(function, own, high)
        low, high = _bounds(gram, "sum", rest) if rest > 0 else (None, None)
        total = _plus(low, own, -np.inf), _plus(high, own, np.inf)
        if function == "sum":
            return total
        return float(np.nextafter(total[0] / count, -np.inf)), float(np.nextafter(total[1] / count, np.inf))

    def snapshot(self) -> tuple[list[dict[str, Any]], list[pa.Table]]:
        states, tables = zip(*(s.snapshot() for s in self._structures()), strict=True)
        return [*states, {"since": self.since}], [*tables, pa.table({"times": self._times})]

    def restore(self, states: list[Mapping[str, Any]], tables: list[pa.Table]) -> None:
        *states, own_state = states
        self.since = own_state["since"]
        if self.grams:
            self.grams = [TimeGram.restore(dict(states[0]), tables[0])]
        else:
            self.shared = [OrderedSharing.restore(dict(s), t) for s, t in zip(states, tables[:2], strict=True)]
        self._times = np.array(tables[-1].column("times").combine_chunks(), np.int64)


def _timegram(definition: Synopsis) -> TimeGram:
    if definition.boundaries:
        return TimeGram(definition.rows, boundaries=list(definition.boundaries))
    return TimeGram(definition.rows, buckets=definition.buckets or 64)


def _newest(waiting: pa.Table | None, column: str, type_: Type, rows: int) -> Vector:
    """The values that wait, at most the last so many."""
    if waiting is None or not len(waiting):
        return Vector.of(type_, [])
    ordered = waiting.take(pa.array(np.argsort(times_of(waiting), kind="stable")))
    return Vector.from_arrow(ordered.column(column).slice(max(0, len(ordered) - rows)), type_)


def _bounds(gram: TimeGram, function: str, rows: int) -> tuple[float | None, float | None]:
    found = gram.lookup(function, [rows])
    return (float(found.low[0]), float(found.high[0])) if found.valid[0] or function == "count" else (None, None)


def _extreme(function: str, own: Real, bound: float | None) -> float:
    values = own if bound is None else np.append(own, bound)
    order = float_order(values)
    return float(float_from_order(np.array([order.max() if function == "max" else order.min()]), np.float64)[0])


def _plus(bound: float | None, own: Real, side: float) -> float:
    """The bound with the values added, and room for rounding."""
    total = (fsum(own) if np.isfinite(own).all() else float(own.sum())) + (bound or 0.0)
    return float(np.nextafter(total, side)) if len(own) and bound is not None else total
