"""Stored rows whose ends matter when they come. A row ends as it promised, or earlier, when it is retracted.

Promised ends stand in a heap; the direct approach looks at all rows for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Codes, Index, Times
from mullion.instants import EVER_BEFORE, FOREVER
from mullion.operators.base import Parts
from mullion.operators.kernels.expiry_heap import ExpiryHeap
from mullion.operators.positioned_rows import PositionedRows
from mullion.operators.timed_rows import Retractions, TimedRows


@dataclass(frozen=True)
class Step:
    """What happened to rows in one step, by where they stand."""

    inserted: Index
    expired: Index
    """Those whose promised end has come."""
    early: Index
    """Those that ended before they promised, `at` these times."""
    at: Times


class EndingRows:
    """`scans`: whether ends are found by looking at all rows. `by_id`: whether retractions may come. `by_key`: whether
    rows are looked for by their codes."""

    def __init__(self, schema: pa.Schema, width: int, *, scans: bool, by_id: bool, by_key: bool) -> None:
        self._scans, hashes = scans, not scans
        self.stored = PositionedRows(schema, width, by_id=by_id and hashes, by_key=by_key and hashes, eager=scans)
        self._expiries = ExpiryHeap()

    @property
    def kept_in(self) -> str:
        """The structure, in words for people."""
        return self.stored.kept_in if self._scans else f"{self.stored.kept_in}, heap of ends"

    def __len__(self) -> int:
        return len(self.stored)

    def begin(self, fresh: TimedRows, codes: Codes, retracted: Retractions, now: int) -> Step:
        """Take in new rows, and find those that end. Every new row ends after it starts."""
        early, at = self.stored.find(retracted)
        inserted = self.stored.add(fresh, codes)
        return Step(inserted, np.setdiff1d(self._due(inserted, now), early), early, at)

    def finish(self, step: Step, now: int) -> None:
        """Forget the rows that have ended. The others may stand elsewhere afterwards."""
        self.stored.ended(np.concatenate([step.expired, step.early]))
        if self.stored.forget_ended(now) is not None:
            self._expiries = ExpiryHeap()
            self._plan(self.there())

    def there(self) -> Index:
        """The rows that have not ended."""
        return np.flatnonzero(self.stored.end[: len(self.stored)] > EVER_BEFORE)

    def _due(self, inserted: Index, now: int) -> Index:
        if self._scans:
            return self.stored.ending(now)
        self._plan(inserted)
        due = self._expiries.before(now)
        return due[self.stored.end[due] > EVER_BEFORE]

    def _plan(self, rows: Index) -> None:
        if not self._scans:
            known = rows[self.stored.end[rows] < FOREVER]
            self._expiries.add(self.stored.end[known], known)

    def parts(self, name: str) -> Parts:
        return self.stored.parts(name)

    def restore(self, parts: Parts, name: str, codes: Callable[[pa.Table], Codes]) -> None:
        self.stored.restore(parts, name, codes)
        self._plan(self.there())
