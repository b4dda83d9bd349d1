"""Synopses that a user creates on a column: fed with every event in its order, asked at any time.

`CREATE SYNOPSIS t ON trades(price) USING timegram (buckets 64, rows 100000)` and `USING ordered_sharing (rows ..)`.
Events that wait for their place are not in the structure yet; an answer takes them in by themselves.

What questions see is never changed: a batch feeds a copy, which takes the place of the one before with the commit.
A copy shares all rows, so that it costs no more than a batch brings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from typing import Any, Self

import numpy as np
import pyarrow as pa

from mullion.aggregates.extremes import float_order
from mullion.catalog.synopses import StreamSynopsis
from mullion.expressions.vector import Vector
from mullion.language.types import Type
from mullion.slices.order import times_of
from mullion.slices.ordered_sharing import OrderedSharing
from mullion.slices.recent_rows import RecentRows
from mullion.slices.timegram import TimeGram
from mullion.slices.waiting_values import WaitingValues

TIMES, VALUES, ENDS = "times", "values", "ends"
"""Parts of a synopsis that commits keep; those of ordered sharing are called max and min."""


class ColumnSynopsis:
    """The structure of one synopsis, and the times of the rows that it holds."""

    def __init__(self, definition: StreamSynopsis, *, since: int | None = None) -> None:
        """`since`: the newest event that came before it was made. It takes what is later than that: events that waited
        then, and those that take their places among them, are not whole for it."""
        self.definition, self.since = definition, since
        self.gram: TimeGram | None = None
        self.shared: dict[str, OrderedSharing] = {}
        if definition.kind == "timegram":
            self.gram = _timegram(definition)
        else:
            self.shared = {name: OrderedSharing(definition.rows, name) for name in ("max", "min")}
        self._times = RecentRows(definition.rows, np.int64)
        self._saved: int | None = None
        """The rows that commits have; None before the first one."""
        self._saved_ends: pa.Table | None = None

    def copy(self) -> Self:
        """One that may take events while others read this one."""
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        copied._times = self._times.copy()
        copied.gram = None if self.gram is None else self.gram.copy()
        copied.shared = {name: structure.copy() for name, structure in self.shared.items()}
        return copied

    def add_events(self, events: pa.Table, type_: Type) -> None:
        """Events in their order."""
        if self.since is not None:
            events = events.filter(pa.array(times_of(events) > self.since))
        vector = Vector.from_arrow(events.column(self.definition.column), type_)
        values = vector.to_doubles()
        for structure in self._structures():
            structure.extend(values, vector.valid)
        self._times.append(times_of(events))

    def _structures(self) -> list[TimeGram | OrderedSharing]:
        return [*self.shared.values(), *([] if self.gram is None else [self.gram])]

    # Windows

    def holds(self, rows: int, waiting: WaitingValues) -> bool:
        """Whether the last so many events came since it was made, or it saw all there were."""
        if rows > self.definition.rows or self.since is None:
            return rows <= self.definition.rows
        (times,) = self._times.last(rows)
        return rows <= len(times) + int((waiting.times > self.since).sum())

    def opens(self, rows: int, waiting: WaitingValues) -> int | None:
        """The time of the oldest of the last rows."""
        if len(waiting) >= rows or not self._times.seen:
            return int(waiting.times[-rows:][0]) if len(waiting) else None
        (times,) = self._times.last(rows - len(waiting))
        return int(times[0])

    def rows_later_than(self, time: int, waiting: WaitingValues) -> int | None:
        """How many events are later; None where it does not hold all of them."""
        (times,) = self._times.last(self.definition.rows)
        has_all = self._times.seen <= self.definition.rows or (len(times) > 0 and int(times[0]) <= time)
        if not has_all or (self.since is not None and time < self.since):
            return None
        return sum(len(own) - int(np.searchsorted(own, time, "right")) for own in (times, waiting.times))

    # Answers over the last rows

    def exact(self, function: str, rows: int, waiting: WaitingValues) -> float | None:
        """max or min of the last rows."""
        tail, rest = waiting.tail(rows), self._rest(rows, waiting)
        found = [tail.largest if function == "max" else tail.least]
        if rest:
            values, valid = self.shared[function].lookup([rest])
            found.append(float(values[0]) if valid[0] else None)
        return _extreme(function, found)

    def bounds(self, function: str, rows: int, waiting: WaitingValues) -> tuple[Any, Any]:
        """Bounds between which the answer over the last rows lies; None without a value."""
        tail, rest = waiting.tail(rows), self._rest(rows, waiting)
        if function in ("max", "min"):
            own = tail.largest if function == "max" else tail.least
            low, high = self._looked_up(function, rest)
            return _extreme(function, [own, low]), _extreme(function, [own, high])
        if function in ("sum", "avg") and not tail.number:
            return self._looked_up(function, rest)
        count = tail.number + int(self._looked_up("count", rest)[0] or 0) if function != "sum" else 0
        if function == "count":
            return count, count
        low, high = self._looked_up("sum", rest)
        total = _plus(low, tail.parts, -np.inf), _plus(high, tail.parts, np.inf)
        if function == "sum":
            return total
        return float(np.nextafter(total[0] / count, -np.inf)), float(np.nextafter(total[1] / count, np.inf))

    def _rest(self, rows: int, waiting: WaitingValues) -> int:
        """How many of the last rows do not wait."""
        return min(rows - len(waiting), self._times.seen) if rows > len(waiting) else 0

    def _looked_up(self, function: str, rows: int) -> tuple[float | None, float | None]:
        assert self.gram is not None
        if not rows:
            return None, None
        low, high, valid = self.gram.lookup(function, [min(rows, self.definition.rows)])
        return (float(low[0]), float(high[0])) if valid[0] else (None, None)

    # What a restart needs

    def snapshot(self) -> dict[str, Any]:
        structures = [structure.snapshot() for structure in self._structures()]
        return {"of": self._words, "since": self.since, "seen": self._times.seen, "structures": structures}

    @property
    def _words(self) -> list[Any]:
        own = self.definition
        return [own.stream, own.column, own.kind, own.rows, own.buckets, list(own.boundaries)]

    def is_same(self, state: Mapping[str, Any]) -> bool:
        """Whether a commit tells of a synopsis that was created with the same words."""
        return bool(state["of"] == self._words)

    def tables(self, *, whole: bool) -> Iterator[tuple[str, bool, pa.Table]]:
        """The parts to commit, and whether they are whole: all rows, or those that came since the last commit."""
        whole = whole or self._saved is None
        after = 0 if self._saved is None or whole else self._saved
        (times,) = self._times.last(min(self.definition.rows, self._times.seen - after))
        yield TIMES, whole, pa.table({"time": times})
        for name, structure in self.shared.items():
            yield name, whole, structure.stairs_after(after)
        if self.gram is not None:
            yield VALUES, whole, self.gram.rows_after(after)
            ends = self.gram.ends()
            if whole or ends != self._saved_ends:
                yield ENDS, True, ends
            self._saved_ends = ends
        self._saved = self._times.seen

    def restore(self, state: Mapping[str, Any], tables: Mapping[str, Sequence[pa.Table]]) -> None:
        """As a commit left it: the parts that are whole, and what later commits added to them."""
        parts = {name: pa.concat_tables(own) for name, own in tables.items()}
        self.since = state["since"]
        if self.gram is not None:
            self.gram = TimeGram.restore(state["structures"][0], parts[VALUES], parts[ENDS])
            self._saved_ends = parts[ENDS]
        else:
            restored = zip(self.shared, state["structures"], strict=True)
            self.shared = {name: OrderedSharing.restore(own, parts[name]) for name, own in restored}
        times = parts[TIMES]["time"].to_numpy()
        self._times.seen = self._times.before = state["seen"] - len(times)
        self._times.append(times)
        self._saved = state["seen"]


def _timegram(definition: StreamSynopsis) -> TimeGram:
    if definition.boundaries:
        return TimeGram(definition.rows, boundaries=list(definition.boundaries))
    return TimeGram(definition.rows, buckets=definition.buckets or 64)


def _extreme(function: str, found: list[float | None]) -> float | None:
    values = [value for value in found if value is not None]
    if len(values) < 2:
        return values[0] if values else None
    order = float_order(np.array(values))
    return values[int(order.argmax() if function == "max" else order.argmin())]


def _plus(bound: float | None, parts: tuple[float, ...] | None, side: float) -> float:
    """The bound with the numbers added, rounded outwards where that is not exact."""
    if parts is None:
        return side
    terms = [*parts, *([] if bound is None else [bound])]
    if not np.isfinite(terms).all():
        return float(np.sum(terms))
    try:
        total = fsum(terms)
        left = fsum([*terms, -total])
    except OverflowError:
        return side
    return float(np.nextafter(total, side)) if left * side > 0 else total
