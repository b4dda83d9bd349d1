"""EXCEPT ALL over windows: of v1 equal rows on the left and v2 on the right, the v1 - v2 youngest of the left remain.

    left     a |---------------|
             b     |---------------|
    right             |---|
    result   a |------|   |----|
             b     |---------------|

Both sides are kept with their multiplicities (golab 2.2.2). A step works on the values to which something happens; of
those, on all rows only where the right has any, since elsewhere all of the left is there. A stay promises the end of
its row, and a negative tuple tells when the right ends it earlier. A row may come back: ids are that of the left row,
and the start of the stay.

Requires: nothing.
Time: what a change moves: one row of the left for each row of the right that comes or goes, and one for each of the
left that ends while it is excluded.
Space: both windows.
Guarantee: of v1 equal rows on the left and v2 on the right, v1 - v2 at every moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Difference
from mullion.expressions.arrays import Codes, Index, Mask, Times, grown
from mullion.expressions.coding.code_table import CodeTable
from mullion.expressions.coding.dictionary import decoded_schema
from mullion.expressions.coding.hashes import keys_of
from mullion.instants import EVER_BEFORE, FOREVER, NEVER
from mullion.language.query import Column
from mullion.operators.base import Operator, Parts
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.ending_rows import EndingRows, Step
from mullion.operators.kernels.difference import (
    LEFT_ENDS,
    LEFT_STARTS,
    RIGHT_CHANGES,
    ChangedValues,
    MinuendRows,
    RowChanges,
    surplus,
)
from mullion.operators.kernels.stays import EarlyEnds, Stays
from mullion.operators.punctuated import Punctuated
from mullion.operators.registry import implements
from mullion.operators.timed_rows import Delta, TimedRows

THROUGHOUT = EVER_BEFORE
"""The note of a row that has been there since it started."""
EXCLUDED = EVER_BEFORE + 1
"""The note of a row that is not there. Any other note tells since when it is."""


@implements(Difference)
class DifferenceOperator(Operator):
    """Rows of the left in excess of equal rows of the right, the youngest of them."""

    def __init__(self, node: Difference, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        left, right = inputs
        self.schema, self.width = decoded_schema(left.schema), left.width + 1
        self._values = CodeTable(self.schema)
        scans = construction.scans
        of_left, of_right = (construction.has_retractions(side.pattern) for side in (node.left, node.right))
        self._left = EndingRows(self.schema, left.width, scans=scans, by_id=of_left, by_key=True)
        self._right = EndingRows(self.schema, right.width, scans=scans, by_id=of_right, by_key=False)
        self._left_count, self._right_count = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._before = EVER_BEFORE
        sides = (node.left, node.right) if not of_left and not of_right else ()
        self._ending = [Punctuated.of(side, [Column(name) for name, _ in side.columns]) for side in sides]
        """The sides of whose keys a stream tells that they are over."""

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        left, right = (self._begin(side, delta, now) for side, delta in zip(self._sides, inputs, strict=True))
        self._make_room()
        delta = self._sweep(left, right, now)
        ended = self._count(self._left, self._left_count, left), self._count(self._right, self._right_count, right)
        self._left.finish(left, now)
        self._right.finish(right, now)
        self._forget(np.union1d(*ended))
        self._before = now
        return delta

    @property
    def _sides(self) -> tuple[EndingRows, EndingRows]:
        return self._left, self._right

    def _begin(self, side: EndingRows, delta: Delta, now: int) -> Step:
        fresh = delta.fresh.lasting().without_dictionaries()
        rows = fresh.rows.rename_columns(self.schema.names)
        fresh = TimedRows(rows, fresh.ids, fresh.start, fresh.end)
        return side.begin(fresh, self._values.codes(rows), delta.retracted, now)

    def _make_room(self) -> None:
        room = self._values.room
        self._left_count, self._right_count = grown(self._left_count, room, 0), grown(self._right_count, room, 0)

    def _sweep(self, left: Step, right: Step, now: int) -> Delta:
        changes = _Changes.of(self._left, left, self._right, right)
        contested = self._contested(changes, right)
        changes = changes.take(contested[changes.code] | ~changes.is_plain_end)
        rows = self._rows(left, contested)
        stored = self._left.stored
        code, start, promised = stored.code[rows], stored.start[rows], stored.end[rows]
        index_of = np.empty(len(stored), np.intp)
        index_of[rows] = np.arange(len(rows))
        end = promised.copy()
        end[index_of[left.early]] = left.at
        since = self._since(rows)
        since[index_of[left.inserted]] = NEVER
        group = np.unique(changes.code)
        first = np.searchsorted(code, np.append(group, len(contested)))
        first_change = np.searchsorted(changes.code, np.append(group, len(contested)))
        of_left = changes.kind != RIGHT_CHANGES
        what = changes.what.copy()
        what[of_left] = index_of[what[of_left]]
        most = len(rows) + len(what)
        stays, early_ends = Stays.room(most), EarlyEnds.room(most)
        count, ended = surplus(
            ChangedValues(first, first_change, self._right_count[group]),
            MinuendRows(start, end, promised, since),
            RowChanges(changes.time, changes.kind, what),
            self._before,
            stays,
            early_ends,
        )
        self._keep_since(rows, since)
        return stored.delta_of(rows, stays.first(count), early_ends.first(ended), now)

    def _contested(self, changes: _Changes, right: Step) -> Mask:
        """Codes to which something happens and that the right has at some time of the step."""
        happens = np.zeros(self._values.room, np.bool_)
        happens[changes.code] = True
        has = self._right_count[: self._values.room] > 0
        has[self._right.stored.code[right.inserted]] = True
        return happens & has

    def _rows(self, left: Step, contested: Mask) -> Index:
        """The rows of the left to work on, by value, oldest first."""
        stored = self._left.stored
        touched = np.concatenate([left.inserted, left.early])
        alone = touched[~contested[stored.code[touched]]]
        rows = np.concatenate([stored.of_codes(np.flatnonzero(contested), self._before - 1), alone])
        order: Index = np.lexsort((rows, stored.code[rows]))
        return rows[order]

    def _since(self, rows: Index) -> Times:
        stored = self._left.stored
        note = stored.note[rows]
        since: Times = np.where(note == THROUGHOUT, stored.start[rows], np.where(note == EXCLUDED, NEVER, note))
        return since

    def _keep_since(self, rows: Index, since: Times) -> None:
        stored = self._left.stored
        stored.note[rows] = np.where(since == stored.start[rows], THROUGHOUT, np.where(since == NEVER, EXCLUDED, since))

    def _count(self, side: EndingRows, count: Codes, step: Step) -> Codes:
        """Bring the multiplicities of a side up to date; the codes of rows that have ended."""
        ended: Codes = side.stored.code[np.concatenate([step.expired, step.early])]
        np.add.at(count, side.stored.code[step.inserted], 1)
        np.subtract.at(count, ended, 1)
        return ended

    def _forget(self, codes: Codes) -> None:
        over = codes[(self._left_count[codes] == 0) & (self._right_count[codes] == 0)]
        self._left.stored.unlink(over)
        self._values.forget(over)

    # Keys that are over

    def purge(self, ended: Mapping[str, pa.Table]) -> None:
        """Let go of rows that stay as they are until they end: the other side has none that are equal and gets none;
        or neither side gets any, and none of both ends."""
        if not any(own is not None and own.stream in ended for own in self._ending):
            return
        known = self._values.known()
        of_left, of_right = (self._over_until(own, known) for own in self._ending)
        ending = np.zeros(self._values.room, np.bool_)
        for side in self._sides:
            rows = side.there()
            ending[side.stored.code[rows[side.stored.end[rows] < FOREVER]]] = True
        fixed = (of_left == FOREVER) & (of_right == FOREVER) & ~ending
        alone = [(of_right, self._right_count == 0), (of_left, self._left_count == 0)]
        counts = self._left_count, self._right_count
        going = [self._staying(s, *own, fixed) for s, own in zip(self._sides, alone, strict=True)]
        for side, rows, count in zip(self._sides, going, counts, strict=True):
            np.subtract.at(count, side.stored.code[rows], 1)
            side.stored.ended(rows)
        self._forget(known)

    @staticmethod
    def _staying(side: EndingRows, over_until: Times, is_alone: Mask, fixed: Mask) -> Index:
        rows = side.there()
        code, end = side.stored.code[rows], side.stored.end[rows]
        return rows[(is_alone[code] & (over_until[code] >= end)) | fixed[code]]

    def _over_until(self, own: Punctuated | None, known: Codes) -> Times:
        """By code until when values are over on a side; NEVER where they are not."""
        until = np.full(self._values.room, NEVER)
        if own is not None and len(known):
            until[known] = self.closed[own.stream].until(
                keys_of(own.chosen(self._values.rows(known).columns), len(known))
            )
        return until

    def structures(self) -> dict[str, str]:
        over = " and ".join(sorted({own.stream for own in self._ending if own is not None}))
        without = f", without values that are over in {over}" if over else ""
        return {"left": self._left.kept_in + without, "right": self._right.kept_in + without, "values": "counts"}

    @property
    def rows_held(self) -> int:
        return len(self._left) + len(self._right)

    def parts(self) -> Parts:
        before = pa.table({"before": [self._before]})
        return {**self._left.parts("left"), **self._right.parts("right"), "before": [before]}

    def restore(self, parts: Parts) -> None:
        self._left.restore(parts, "left", self._values.codes)
        self._right.restore(parts, "right", self._values.codes)
        self._make_room()
        for side, count in zip(self._sides, (self._left_count, self._right_count), strict=True):
            np.add.at(count, side.stored.code[side.there()], 1)
        self._before = parts["before"][0]["before"][0].as_py()


@dataclass(frozen=True)
class _Changes:
    """What happens in a step, by code and then in the order of time."""

    code: Codes
    time: Times
    kind: Codes
    what: Codes
    """Where a row of the left stands, or by how much the right changes."""
    is_plain_end: Mask
    """Whether a row of the left ends as it promised: it matters only where the right has its value."""

    @staticmethod
    def of(left_rows: EndingRows, left: Step, right_rows: EndingRows, right: Step) -> _Changes:
        lefts, rights = left_rows.stored, right_rows.stored
        on_left, on_right = (left.inserted, left.expired, left.early), (right.inserted, right.expired, right.early)
        sizes = [len(rows) for rows in (*on_left, *on_right)]
        of_left, of_right = np.concatenate(on_left), np.concatenate(on_right)
        code = np.concatenate([lefts.code[of_left], rights.code[of_right]])
        time = np.concatenate([lefts.start[left.inserted], lefts.end[left.expired], left.at,
                               rights.start[right.inserted], rights.end[right.expired], right.at])  # fmt: skip
        kind = np.repeat([LEFT_STARTS, LEFT_ENDS, LEFT_ENDS, *[RIGHT_CHANGES] * 3], sizes)
        what = np.concatenate([of_left, np.repeat([1, -1, -1], sizes[3:])])
        plain = np.repeat([False, True, False, False, False, False], sizes)
        return _Changes(code, time, kind, what, plain).take(np.lexsort((kind, time, code)))

    def take(self, which: Index | Mask) -> _Changes:
        return _Changes(
            self.code[which], self.time[which], self.kind[which], self.what[which], self.is_plain_end[which]
        )
