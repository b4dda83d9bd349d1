"""Rows of an input that can still be seen, in immutable sub-windows.

    add:   [ 1 2 3 4 5 6 7 8 ] [ 9 10 11 ] [ 12 ]  + [ 13 ]   the two small ones become one: as many sub-windows as
           [ 1 2 3 4 5 6 7 8 ] [ 9 10 11 ] [ 12 13 ]          the logarithm of the rows, each row rewritten as often

Ends that negative tuples bring are kept beside the sub-windows, which stay as they are. A sub-window leaves as a whole
when none of its rows is needed any more; one that is mostly not needed is written anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.expressions.arrays import Ids, Index, Mask, Times
from mullion.operators.base import Parts
from mullion.operators.timed_rows import Retractions, TimedRows

START, END, ID = "#start", "#end", "#id"


def as_table(lives: TimedRows) -> pa.Table:
    """Rows and their lives as one table."""
    table = lives.rows
    columns = {START: lives.start, END: lives.end}
    columns |= {f"{ID}{i}": lives.ids[:, i] for i in range(lives.ids.shape[1])}
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    return table


def from_table(table: pa.Table) -> TimedRows:
    """What `as_table` made a table of."""
    names = [name for name in table.schema.names if name.startswith(ID)]
    own = [name for name in table.schema.names if name not in (START, END, *names)]
    ids = np.stack([_numbers(table, name) for name in names], axis=1)
    return TimedRows(table.select(own), ids, _numbers(table, START), _numbers(table, END))


def _numbers(table: pa.Table, name: str) -> Times:
    return np.asarray(table.column(name).combine_chunks(), np.int64)


@dataclass
class SubWindow:
    """Some rows as they came, and their ends as they are known now."""

    table: pa.Table
    lives: TimedRows
    end: Times

    @staticmethod
    def of(lives: TimedRows) -> SubWindow:
        return SubWindow(as_table(lives), lives, lives.end)

    @property
    def now(self) -> TimedRows:
        return self.lives if self.end is self.lives.end else replace(self.lives, end=self.end)

    @cached_property
    def _by_id(self) -> tuple[Index, npt.NDArray[np.void]]:
        keys = keys_of(self.lives.ids)
        order = np.argsort(keys, kind="stable")
        return order, keys[order]

    def finish(self, retracted: Retractions) -> None:
        """Take over earlier ends. Of several rows with one id, it is the one that lives then that ends."""
        order, keys = self._by_id
        wanted = keys_of(retracted.ids)
        low, high = np.searchsorted(keys, wanted, "left"), np.searchsorted(keys, wanted, "right")
        which = np.repeat(np.arange(len(retracted)), high - low)
        row = order[np.arange(len(which)) - np.repeat(np.cumsum(high - low) - (high - low), high - low) + low[which]]
        at = retracted.at[which]
        living = (self.lives.start[row] < at) & (at < self.end[row])
        if living.any():
            self.end = self.end.copy()
            self.end[row[living]] = at[living]


def keys_of(ids: Ids) -> npt.NDArray[np.void]:
    """Each row's numbers as one value that can be sorted and sought."""
    whole = np.ascontiguousarray(ids)
    return whole.view(np.dtype((np.void, 8 * ids.shape[1]))).ravel()


@dataclass
class Held:
    """All rows that can still be seen."""

    schema: pa.Schema
    width: int
    chunks: list[SubWindow] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(chunk.end) for chunk in self.chunks)

    def add(self, fresh: TimedRows) -> None:
        """Rows that are there at some time."""
        fresh = replace(fresh, held=None)
        living = fresh.end > fresh.start
        if not living.all():
            fresh = fresh.take(living)
        if not len(fresh):
            return
        while self.chunks and len(self.chunks[-1].end) < 2 * len(fresh):
            fresh = TimedRows.concat([self.chunks.pop().now, fresh])
        self.chunks.append(SubWindow.of(fresh))

    def finish(self, retracted: Retractions) -> None:
        """Rows that end earlier than they promised."""
        if len(retracted):
            for chunk in self.chunks:
                chunk.finish(retracted)

    def keep(self, needed: Callable[[TimedRows], Mask]) -> None:
        """Only rows that are needed must stay; a few more may."""
        kept = []
        for chunk in self.chunks:
            mask = needed(chunk.now)
            count = np.count_nonzero(mask)
            if 2 * count > len(mask):
                kept.append(chunk)
            elif count:
                kept.append(SubWindow.of(chunk.now.take(mask)))
        self.chunks = kept

    @property
    def lives(self) -> TimedRows:
        if not self.chunks:
            return TimedRows.empty(self.schema, self.width)
        return TimedRows.concat([chunk.now for chunk in self.chunks])

    def parts(self) -> Parts:
        """Sub-windows as they are, and the ends of those in which some changed."""
        ends = [
            pa.table({"chunk": np.full(len(changed), i), "row": changed, "end": chunk.end[changed]})
            for i, chunk in enumerate(self.chunks)
            if len(changed := np.flatnonzero(chunk.end != chunk.lives.end))
        ]
        return {"rows": [chunk.table for chunk in self.chunks], "ends": ends}

    def restore(self, parts: Parts) -> None:
        self.chunks = [SubWindow(table, lives := from_table(table), lives.end) for table in parts.get("rows", ())]
        for table in parts.get("ends", ()):
            chunk, row, end = (_numbers(table, name) for name in ("chunk", "row", "end"))
            mine = self.chunks[int(chunk[0])]
            mine.end = mine.end.copy()
            mine.end[row] = end


__all__ = ["Held", "SubWindow", "as_table", "from_table", "keys_of"]
