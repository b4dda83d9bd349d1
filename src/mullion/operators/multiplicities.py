"""How many rows there are of each value, for inputs that only tell when a row ends (golab 3.2.2).

    rows of one value   |-----a-----|     |--d--|
                            |--b--|
                                 |--c--|
    count               1   2    3 2 1 0  1     0
    crossings           on             off on   off

An end is found on the agenda when it was promised, by the row's id when a negative tuple tells it. A row that starts
when the last one ends leaves no gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mullion.kernels.agenda import Agenda
from mullion.kernels.distinct import crossings
from mullion.operators.base import Parts
from mullion.operators.kept import KeptRows
from mullion.operators.lives import EVER_BEFORE, FOREVER, Gone, Ids, Index, Lives, Mask, Times
from mullion.operators.values import Codes, grown


@dataclass(frozen=True)
class Crossings:
    """When values come and go, in the order of time."""

    code: Codes
    time: Times
    on: Mask
    ids: Ids
    """Of the row that came first or went last."""


class Multiplicities:
    """Counts of rows by code. The rows are kept as the strategy wants them: hashed by id, or in one list ("direct")."""

    def __init__(self, schema: pa.Schema, width: int, strategy: str) -> None:
        self._listed = strategy == "direct"
        self.kept = KeptRows(schema, width, by_id=not self._listed, eager=self._listed)
        self.count = np.zeros(0, np.int64)
        self._agenda = Agenda()

    def advance(self, lives: Lives, codes: Codes, gone: Gone, now: int) -> Crossings:
        """What the rows that came and went change. All lives have a length."""
        kept = self.kept
        early = kept.find(gone.ids)
        came = kept.add(lives, codes)
        if len(codes):
            self.count = grown(self.count, int(codes.max()) + 1, 0)
        late = np.setdiff1d(self._due(came, now), early)
        row = np.concatenate([came, late, early])
        time = np.concatenate([kept.start[came], kept.end[late], gone.at])
        step = np.repeat([1, -1], [len(came), len(late) + len(early)])
        order = np.lexsort((row, -step, time))
        row, time, step = row[order], time[order], step[order]
        out = np.empty(len(row), np.intp)
        out = out[: crossings(kept.code[row], step, self.count, out)]
        row = row[out]
        found = Crossings(kept.code[row], time[out], step[out] > 0, kept.ids[row])
        kept.ended(np.concatenate([late, early]))
        if kept.forget_ended(now) is not None:
            self._agenda = Agenda()
            self._plan(np.arange(len(kept)))
        return found

    def _due(self, came: Index, now: int) -> Index:
        """The rows whose promised end has come."""
        if self._listed:
            return self.kept.ending(now)
        self._plan(came)
        due = self._agenda.before(now)
        return due[self.kept.end[due] > EVER_BEFORE]

    def _plan(self, rows: Index) -> None:
        if not self._listed:
            end = self.kept.end[rows]
            known = (end < FOREVER) & (end > EVER_BEFORE)
            self._agenda.add(end[known], rows[known])

    def covered(self, codes: Codes) -> Mask:
        """Which codes have any row now."""
        self.count = grown(self.count, int(codes.max(initial=-1)) + 1, 0)
        found: Mask = self.count[codes] > 0
        return found

    def parts(self, name: str) -> Parts:
        return self.kept.parts(name)

    def restore(self, parts: Parts, name: str, codes: Callable[[pa.Table], Codes]) -> None:
        kept = self.kept
        kept.restore(parts, name, codes)
        there = np.flatnonzero(kept.end[: len(kept)] > EVER_BEFORE)
        self.count = np.bincount(kept.code[there]).astype(np.int64)
        self._plan(there)


__all__ = ["Crossings", "Multiplicities"]
