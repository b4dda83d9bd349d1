"""How many rows there are of each value, for inputs that only tell when a row ends (golab 3.2.2).

    rows of one value   |-----a-----|     |--d--|
                            |--b--|
                                 |--c--|
    count               1   2    3 2 1 0  1     0
    crossings           on             off on   off

A row that starts when the last one ends leaves no gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Codes, Ids, Mask, Times, grown
from mullion.operators.base import Parts
from mullion.operators.ending_rows import EndingRows
from mullion.operators.kernels.distinct import crossings
from mullion.operators.timed_rows import Retractions, TimedRows


@dataclass(frozen=True)
class Crossings:
    """When values come and go, in the order of time."""

    code: Codes
    time: Times
    on: Mask
    ids: Ids
    """Of the row that came first or went last."""


class Multiplicities:
    """Counts of rows by code. The rows are hashed by id, or kept in one list that is scanned."""

    def __init__(self, schema: pa.Schema, width: int, *, scans: bool) -> None:
        self._rows = EndingRows(schema, width, scans=scans, by_id=True, by_key=False)
        self._count = np.zeros(0, np.int64)

    @property
    def kept_in(self) -> str:
        """The structure, in words for people."""
        return f"counts, {self._rows.kept_in}"

    def __len__(self) -> int:
        """How many rows are stored."""
        return len(self._rows)

    def advance(self, fresh: TimedRows, codes: Codes, retracted: Retractions, now: int) -> Crossings:
        """What the rows change that start and end before `now`. Every new row ends after it starts."""
        stored = self._rows.stored
        happened = self._rows.begin(fresh, codes, retracted, now)
        self._count = grown(self._count, int(codes.max(initial=-1)) + 1, 0)
        row = np.concatenate([happened.inserted, happened.expired, happened.early])
        time = np.concatenate([stored.start[happened.inserted], stored.end[happened.expired], happened.at])
        step = np.repeat([1, -1], [len(happened.inserted), len(happened.expired) + len(happened.early)])
        order = np.lexsort((row, -step, time))
        row, time, step = row[order], time[order], step[order]
        out = np.empty(len(row), np.intp)
        out = out[: crossings(stored.code[row], step, self._count, out)]
        row = row[out]
        changes = Crossings(stored.code[row], time[out], step[out] > 0, stored.ids[row])
        self._rows.finish(happened, now)
        return changes

    def present(self, codes: Codes) -> Mask:
        """Which codes have any row now."""
        self._count = grown(self._count, int(codes.max(initial=-1)) + 1, 0)
        is_present: Mask = self._count[codes] > 0
        return is_present

    def parts(self, name: str) -> Parts:
        return self._rows.parts(name)

    def restore(self, parts: Parts, name: str, codes: Callable[[pa.Table], Codes]) -> None:
        self._rows.restore(parts, name, codes)
        self._count = np.bincount(self._rows.stored.code[self._rows.there()]).astype(np.int64)
