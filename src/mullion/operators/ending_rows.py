"""Kept rows whose ends matter when they come: each is found as its promised end comes, or a negative tuple tells of it.

Promised ends stand on an agenda; the direct approach looks at all rows for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Codes, Index, Times
from mullion.instants import EVER_BEFORE, FOREVER
from mullion.operators.base import Parts
from mullion.operators.kernels.expiry_heap import Agenda
from mullion.operators.positioned_rows import PositionedRows
from mullion.operators.timed_rows import Retractions, TimedRows


@dataclass(frozen=True)
class Step:
    """What happened to rows in one step, by where they stand."""

    came: Index
    late: Index
    """Those whose promised end has come."""
    early: Index
    """Those that ended before they promised, `at` these times."""
    at: Times


class EndingRows:
    """`scans`: whether ends are found by looking at all rows. `by_id`: whether retractions may come. `by_key`: whether
    rows are looked for by their codes."""

    def __init__(self, schema: pa.Schema, width: int, *, scans: bool, by_id: bool, by_key: bool) -> None:
        self._listed, hashed = scans, not scans
        self.kept = PositionedRows(schema, width, by_id=by_id and hashed, by_key=by_key and hashed, eager=self._listed)
        self._agenda = Agenda()

    @property
    def kept_in(self) -> str:
        """The structure, in words for people."""
        return self.kept.kept_in if self._listed else f"{self.kept.kept_in}, heap of ends"

    def __len__(self) -> int:
        return len(self.kept)

    def begin(self, lives: TimedRows, codes: Codes, retracted: Retractions, now: int) -> Step:
        """Take in new rows, and find those that end. All lives have a length."""
        early, at = self.kept.find(retracted)
        came = self.kept.add(lives, codes)
        return Step(came, np.setdiff1d(self._due(came, now), early), early, at)

    def finish(self, step: Step, now: int) -> None:
        """Forget the rows that have ended. The others may stand elsewhere afterwards."""
        self.kept.ended(np.concatenate([step.late, step.early]))
        if self.kept.forget_ended(now) is not None:
            self._agenda = Agenda()
            self._plan(self.there())

    def there(self) -> Index:
        """The rows that have not ended."""
        return np.flatnonzero(self.kept.end[: len(self.kept)] > EVER_BEFORE)

    def _due(self, came: Index, now: int) -> Index:
        if self._listed:
            return self.kept.ending(now)
        self._plan(came)
        due = self._agenda.before(now)
        return due[self.kept.end[due] > EVER_BEFORE]

    def _plan(self, rows: Index) -> None:
        if not self._listed:
            known = rows[self.kept.end[rows] < FOREVER]
            self._agenda.add(self.kept.end[known], known)

    def parts(self, name: str) -> Parts:
        return self.kept.parts(name)

    def restore(self, parts: Parts, name: str, codes: Callable[[pa.Table], Codes]) -> None:
        self.kept.restore(parts, name, codes)
        self._plan(self.there())


__all__ = ["EndingRows", "Step"]
