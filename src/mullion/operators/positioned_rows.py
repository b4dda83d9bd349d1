"""Rows by position, for kernels that go from row to row: in sub-windows, found by id, by code, or by looking at all.

A `RowStore` is probed with many rows at once, sub-window by sub-window. Distinct, anti-join and difference follow the
rows of one value instead, so here a row is a position in arrays that run through all sub-windows.

    sub-window   [ rows of step 1 ][ rows of step 2 ][ rows of step 3 ]        immutable tables
    start, end     .  .  .  .  .     .  .  .  .  .     .  .  .  .  .           arrays, by position
    link                    <-----------.<----------------.                    to the row before of the same code

Rows stand in the order in which they came: by start, then id. What has ended is left where it is and forgotten when it
is half of all (so a row costs constant time, whenever it ends); whole sub-windows go as they are.

`by_id`: a hash from ids to rows, for negative tuples. `by_key`: the links. Without them rows are searched for one by
one; `eager` forgets what has ended at every step, as the direct approach does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Codes, Ids, Index, Times, grown, packed
from mullion.instants import EVER_BEFORE
from mullion.operators.base import Parts
from mullion.operators.kernels.links import link_all, linked_rows
from mullion.operators.kernels.stays import EarlyEnds, Stays
from mullion.operators.merging import is_merged, most_merged
from mullion.operators.picking import picked
from mullion.operators.timed_rows import Delta, Retractions, TimedRows, in_time_order
from mullion.operators.timed_tables import as_table, from_table

FEW = 1024
"""So many rows may have ended before it matters."""


class PositionedRows:
    def __init__(
        self, schema: pa.Schema, width: int, *, by_id: bool = False, by_key: bool = False, eager: bool = False
    ) -> None:
        self.schema, self.width = schema, width
        self.by_key = by_key
        self.ids = np.empty((0, width), np.int64)
        self.start, self.end, self.code, self.note = (np.empty(0, np.int64) for _ in range(4))
        """`note` is whatever number the owner wants to keep with a row."""
        self.link, self.last = np.empty(0, np.int64), np.empty(0, np.int64)
        self.size = 0
        self._eager, self._by_id = eager, by_id
        self._position_of: dict[Hashable, int] = {}
        self._tables: list[pa.Table] = []
        self._columns: list[pa.Table] = []
        """The same without ids, starts and ends."""
        self._nothing = schema.empty_table()
        self._after_compaction = 0
        self._now = EVER_BEFORE

    @property
    def kept_in(self) -> str:
        """The structure, in words for people."""
        if self._eager:
            return "list"
        hashes = [name for name, has in (("key", self.by_key), ("id", self._by_id)) if has]
        return f"hash by {' and '.join(hashes)}" if hashes else "array"

    def __len__(self) -> int:
        return self.size

    def add(self, fresh: TimedRows, codes: Codes) -> Index:
        """Keep rows. Returns where they stand, in the order of their starts."""
        order = in_time_order(fresh.start, fresh.ids)
        if order is not None:
            fresh, codes = fresh.take(order), codes[order]
        if len(fresh):
            self._add_table(as_table(fresh.with_rows(fresh.rows.select(self.schema.names).combine_chunks())))
        return self._append(fresh.ids, fresh.start, fresh.end, codes)

    def _append(self, ids: Ids, start: Times, end: Times, codes: Codes) -> Index:
        first, size = self.size, self.size + len(start)
        self.ids = grown(self.ids, size, 0)
        self.start, self.end, self.code = (grown(a, size, 0) for a in (self.start, self.end, self.code))
        self.note = grown(self.note, size, EVER_BEFORE)
        self.ids[first:size], self.start[first:size], self.end[first:size] = ids, start, end
        self.code[first:size], self.note[first:size] = codes, EVER_BEFORE
        self.size = size
        if self._by_id:
            self._position_of.update(zip(hashable(ids), range(first, size), strict=True))
        if self.by_key:
            self._link(first)
        return np.arange(first, size)

    def find(self, retracted: Retractions) -> tuple[Index, Times]:
        """Where retracted rows stand, and when they end. Retractions of rows that never came are passed over."""
        if not len(retracted):
            return np.empty(0, np.intp), retracted.at
        known = self._position_of if self._by_id else self._alike(retracted.ids)
        at = np.fromiter((known.get(key, -1) for key in hashable(retracted.ids)), np.intp, len(retracted))
        return at[at >= 0], retracted.at[at >= 0]

    def _alike(self, ids: Ids) -> dict[Hashable, int]:
        """Rows that may have one of these ids, by looking at all."""
        alike = np.isin(self.ids[: self.size, 0], ids[:, 0]) & (self.end[: self.size] > EVER_BEFORE)
        at = np.flatnonzero(alike)
        return dict(zip(hashable(self.ids[at]), at.tolist(), strict=True))

    def ended(self, positions: Index) -> None:
        """These rows have ended. Their ids may have come again since."""
        if self._by_id:
            for key, position in zip(hashable(self.ids[positions]), positions.tolist(), strict=True):
                if self._position_of.get(key) == position:
                    del self._position_of[key]
        self.end[positions] = EVER_BEFORE

    def of_codes(self, codes: Codes, since: int) -> Index:
        """The rows of some codes, each given once, that end after `since`."""
        if not len(codes) or not self.size:
            return np.empty(0, np.intp)
        if self.by_key:
            known = codes[codes < len(self.last)]
            out = np.empty(self.size, np.intp)
            return out[: linked_rows(known, since, self.last, self.link, self.end, out)]
        wanted = np.zeros(max(int(self.code[: self.size].max()), int(codes.max())) + 1, np.bool_)
        wanted[codes] = True
        return np.flatnonzero(wanted[self.code[: self.size]] & (self.end[: self.size] > since))

    def ending(self, before: int) -> Index:
        """The rows that end earlier than this, by looking at all."""
        end = self.end[: self.size]
        return np.flatnonzero((end < before) & (end > EVER_BEFORE))

    def use_keys(self, by_key: bool) -> None:
        """Change how rows are found by their codes."""
        self.by_key = by_key
        if by_key:
            self.last.fill(-1)
            self._link(0)

    def unlink(self, codes: Codes) -> None:
        """These codes have no rows any more and may come to mean something else."""
        self.last[codes[codes < len(self.last)]] = -1

    def _link(self, first: int) -> None:
        size = self.size
        self.link = grown(self.link, size, -1)
        if size > first:
            self.last = grown(self.last, int(self.code[first:size].max()) + 1, -1)
        link_all(first, size, self.code, self.last, self.link)

    def forget_ended(self, now: int) -> Index | None:
        """Forget the rows that end before `now`, when it is time to: which rows are left, by where they stood."""
        self._now = now
        if not self._eager and self.size < 2 * self._after_compaction + FEW:
            return None
        staying = np.flatnonzero(self.end[: self.size] >= now)
        if len(staying) < self.size:
            self._set_tables([part for part in self._cut(staying) if len(part)])
            self.ids, self.start, self.end = (packed(a, staying) for a in (self.ids, self.start, self.end))
            self.code, self.note = packed(self.code, staying), packed(self.note, staying)
            self.size = len(staying)
            if self._by_id:
                self._position_of = dict(zip(hashable(self.ids[: self.size]), range(self.size), strict=True))
            self.use_keys(self.by_key)
        self._after_compaction = self.size
        return staying

    def rows(self, positions: Index) -> pa.Table:
        """The columns of rows."""
        return picked(self._columns, positions) if len(positions) else self._nothing

    def delta_of(self, rows: Index, stays: Stays, early_ends: EarlyEnds, now: int) -> Delta:
        """Stays of these rows as a delta. The ids of a stay are those of its row, and its start."""
        stays = Stays(*(column[np.argsort(stays.start, kind="stable")] for column in stays))
        row, ended = rows[stays.row], rows[early_ends.row]
        fresh = TimedRows(self.rows(row), np.column_stack([self.ids[row], stays.start]), stays.start, stays.end)
        return Delta(fresh, Retractions(np.column_stack([self.ids[ended], early_ends.start]), early_ends.at), now)

    def _cut(self, staying: Index) -> list[pa.Table]:
        """What is left of each sub-window: all of it as it is, or a new one."""
        offsets = np.concatenate([[0], np.cumsum([len(table) for table in self._tables])])
        bounds = np.searchsorted(staying, offsets)
        parts = []
        for number, table in enumerate(self._tables):
            rows = staying[bounds[number] : bounds[number + 1]]
            parts.append(table if len(rows) == len(table) else table.take(pa.array(rows - offsets[number])))
        return parts

    def _add_table(self, table: pa.Table) -> None:
        most = most_merged(self.size)
        while self._tables and is_merged(len(self._tables[-1]), len(table), most=most):
            table = pa.concat_tables([self._tables.pop(), table]).combine_chunks()
            self._columns.pop()
        self._tables.append(table)
        self._columns.append(table.select(self.schema.names))

    def _set_tables(self, tables: list[pa.Table]) -> None:
        self._tables, self._columns = tables, [table.select(self.schema.names) for table in tables]

    def parts(self, name: str) -> Parts:
        """The sub-windows, and what has changed of their rows since: that they have ended, and notes."""
        size = self.size
        promised = np.concatenate([np.asarray(t["#end"]) for t in self._tables]) if self._tables else self.end[:0]
        end = np.where(self.end[:size] < self._now, EVER_BEFORE, self.end[:size])
        changed = np.flatnonzero((promised != end) | (self.note[:size] != EVER_BEFORE))
        table = pa.table({"row": changed, "end": end[changed], "note": self.note[:size][changed]})
        return {name: list(self._tables), f"{name}.changed": [table]}

    def restore(self, parts: Parts, name: str, codes: Callable[[pa.Table], Codes]) -> None:
        """Take rows back, which have these codes."""
        by_id, self._by_id = self._by_id, False
        by_key, self.by_key = self.by_key, False
        for table in parts[name]:
            rows = from_table(table)
            self._append(rows.ids, rows.start, rows.end, np.zeros(len(rows), np.int64))
        self._set_tables(list(parts[name]))
        (changed,) = parts[f"{name}.changed"]
        at = np.asarray(changed["row"], np.intp)
        self.end[at], self.note[at] = np.asarray(changed["end"]), np.asarray(changed["note"])
        there = np.flatnonzero(self.end[: self.size] > EVER_BEFORE)
        self.code[there] = codes(self.rows(there))
        self._by_id = by_id
        if by_id:
            self._position_of = dict(zip(hashable(self.ids[there]), there.tolist(), strict=True))
        self.use_keys(by_key)


def hashable(ids: Ids) -> list[Hashable]:
    """Ids for a dictionary."""
    if ids.shape[1] == 1:
        numbers: list[Hashable] = ids[:, 0].tolist()
        return numbers
    return list(map(tuple, ids.tolist()))
