"""The result of a plan as a materialised view, kept by how its rows leave (golab 3.5.2).

| view | rows leave | for |
|---|---|---|
| Calendar | with the day in which they end | upa, where ends are known when rows come |
| Hashed | when a negative tuple names them, or at their end | nt, and upa where ends may come early |
| Listed | when they are found by looking at all | scan |
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mullion.algebra.update_pattern import Pattern
from mullion.operators.positioned_rows import PositionedRows
from mullion.operators.timed_rows import Delta, TimedRows

DAYS = 10
"""Of a calendar in the longest life of a row: as many as the paper's calendar queues have."""

ENOUGH = 2_000
"""New rows that are put into a calendar together."""


class View(Protocol):
    def take(self, delta: Delta) -> None: ...

    def __len__(self) -> int: ...

    def starts(self, now: int) -> npt.NDArray[np.int64]:
        """When each row came that lives at a time."""


class Calendar:
    """Rows by the day in which they end. A day leaves as a whole when it is over.

        day        | 4 |  5  | 6 |       new
        rows       | a | b c | d |       e f

    New rows wait until there are enough of them to be put into their days together.
    """

    def __init__(self, longest: int) -> None:
        self.day = max(1, longest // DAYS)
        self.days: dict[int, list[TimedRows]] = {}
        self.new: list[TimedRows] = []
        self.waiting, self.held = 0, 0

    def take(self, delta: Delta) -> None:
        assert not len(delta.retracted), "rows end when they promised"
        self.new.append(delta.fresh)
        self.waiting += len(delta.fresh)
        self.held += len(delta.fresh)
        if self.waiting >= ENOUGH:
            self._put(TimedRows.concat(self.new))
            self.new, self.waiting = [], 0
        for over in [day for day in self.days if (day + 1) * self.day <= delta.now]:
            self.held -= sum(map(len, self.days.pop(over)))

    def _put(self, fresh: TimedRows) -> None:
        day = fresh.end // self.day
        if (day[1:] < day[:-1]).any():
            order = np.argsort(day, kind="stable")
            fresh, day = fresh.take(order), day[order]
        bounds = [0, *(np.flatnonzero(np.diff(day)) + 1).tolist(), len(day)]
        for first, last in pairwise(bounds):
            rows = fresh.rows.slice(first, last - first)
            part = TimedRows(rows, fresh.ids[first:last], fresh.start[first:last], fresh.end[first:last])
            self.days.setdefault(int(day[first]), []).append(part)

    def __len__(self) -> int:
        return self.held

    def starts(self, now: int) -> npt.NDArray[np.int64]:
        parts = [part for day in (*self.days.values(), self.new) for part in day]
        return np.concatenate([np.zeros(0, np.int64), *(part.start[part.end > now] for part in parts)])


class Kept:
    """Rows in the order in which they came, in a hash by id or in a list that is looked through at every step."""

    def __init__(self, delta: Delta, *, by_id: bool) -> None:
        fresh = delta.fresh
        self.rows = PositionedRows(fresh.rows.schema, fresh.ids.shape[1], by_id=by_id, eager=not by_id)

    def take(self, delta: Delta) -> None:
        self.rows.ended(self.rows.find(delta.retracted)[0])
        fresh = delta.fresh
        lasting = fresh.end > fresh.start
        self.rows.add(fresh if lasting.all() else fresh.take(lasting), np.zeros(int(lasting.sum()), np.int64))
        self.rows.forget_ended(delta.now)

    def __len__(self) -> int:
        return len(self.rows)

    def starts(self, now: int) -> npt.NDArray[np.int64]:
        size = len(self.rows)
        return self.rows.start[:size][self.rows.end[:size] > now]


def view_for(pattern: Pattern, strategy: str, longest: int, first: Delta) -> View:
    """The view that a strategy keeps. `longest` is the longest life of a row."""
    if strategy == "upa" and pattern is not Pattern.STRICT:
        return Calendar(longest)
    return Kept(first, by_id=strategy != "scan")
