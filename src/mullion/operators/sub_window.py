"""A sub-window: rows that came together, sorted by key, never changed.

    codes of keys  3 3 5 8         found by binary search or by merging
    #id0           7 9 2 4         who they are
    #start #end    ...             their lives; #held where INTERNAL windows let go of rows before they end

Only the ends of rows that negative tuples cut off differ from what the table holds; they are kept beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Ids, Index, Mask, Times
from mullion.expressions.hashing import Keys, mixed
from mullion.operators.kernels.join import Runs, ranges_expanded
from mullion.operators.timed_rows import Retractions, TimedRows

START, END, HELD = "#start", "#end", "#held"


def id_names(width: int) -> list[str]:
    return [f"#id{i}" for i in range(width)]


@dataclass(eq=False)
class SubWindow:
    table: pa.Table
    """The columns of the rows, and #id0.., #start, #end."""
    keys: Keys
    ids: Ids
    start: Times
    end: Times
    held: Times | None = None
    as_saved: tuple[Times, Times | None] = field(init=False)
    """The ends that the table has, and until when rows are held."""
    was: Times = field(init=False)
    """The ends before the last cuts; the same array as `end` when there were none."""
    was_held: Times | None = field(init=False)

    def __post_init__(self) -> None:
        self.as_saved = self.was, self.was_held = self.end, self.held

    def __len__(self) -> int:
        return len(self.start)

    @staticmethod
    def of(lives: TimedRows, keys: Keys) -> SubWindow:
        """Rows with their keys, put in order."""
        codes = keys.codes
        if len(codes) > 1 and not (codes[1:] >= codes[:-1]).all():
            order = np.argsort(codes, kind="stable")
            lives, keys = lives.take(order), keys.take(order)
        numbers = [*lives.ids.T, lives.start, lives.end]
        names = [*lives.rows.column_names, *id_names(lives.ids.shape[1]), START, END]
        if lives.held is not None:
            numbers.append(lives.held)
            names.append(HELD)
        table = pa.Table.from_arrays([*lives.rows.columns, *map(pa.array, numbers)], names)
        return SubWindow(table, keys, lives.ids, lives.start, lives.end, lives.held)

    @staticmethod
    def restored(table: pa.Table, keys: Keys, width: int) -> SubWindow:
        """From a table that was saved. `keys` are those of its rows."""
        ids = np.column_stack([_numbers(table, name) for name in id_names(width)])
        held = _numbers(table, HELD) if HELD in table.column_names else None
        return SubWindow(table, keys, ids, _numbers(table, START), _numbers(table, END), held)

    @property
    def rows(self) -> pa.Table:
        return self.table.select(range(self.table.column_names.index(id_names(1)[0])))

    @property
    def lives(self) -> TimedRows:
        return TimedRows(self.rows, self.ids, self.start, self.end, self.held)

    @property
    def meets(self) -> Times:
        """Until when a row meets those of other inputs."""
        return self.end if self.held is None else self.held

    @property
    def promised(self) -> Times:
        """Until when it would have met others without any cuts."""
        end, held = self.as_saved
        return end if held is None else held

    def changed(self) -> Index:
        """The rows that were cut since the table was made."""
        end, held = self.as_saved
        if self.end is end and self.held is held:
            return np.zeros(0, np.intp)
        return np.flatnonzero((self.end != end) | (self.meets != self.promised))

    @property
    def met(self) -> Times:
        """The same before the last cuts."""
        return self.was if self.was_held is None else self.was_held

    @cached_property
    def runs(self) -> Runs:
        return Runs.of(self.keys.codes)

    @cached_property
    def heads(self) -> Keys:
        """The first key of every run."""
        return self.keys.take(self.runs.first[:-1])

    @cached_property
    def is_clean(self) -> bool:
        """Whether rows of equal codes have equal keys, as nearly always."""
        if self.keys.exact or len(self) < 2:
            return True
        same = np.flatnonzero(self.keys.codes[1:] == self.keys.codes[:-1])
        return bool(self.keys.take(same).equals(self.keys.take(same + 1)).all())

    @cached_property
    def first_end(self) -> int:
        return int(self.meets.min())

    @cached_property
    def last_end(self) -> int:
        return int(self.meets.max())

    @cached_property
    def _by_id(self) -> tuple[Index, Times]:
        codes = codes_of_ids(self.ids)
        order = np.argsort(codes, kind="stable")
        return order, codes[order]

    def find(self, retracted: Retractions, codes: Times, *, released: bool = False) -> tuple[Index, Index]:
        """The rows that are gone and where they stand in `gone`: those of its ids that live at its times."""
        order, known = self._by_id
        if not len(codes) or codes.max() < known[0] or codes.min() > known[-1]:
            return np.zeros(0, np.intp), np.zeros(0, np.intp)
        which, places = ranges_expanded(np.searchsorted(known, codes), np.searchsorted(known, codes, "right"))
        rows = order[places]
        meant = self.is_meant(retracted, which, rows, released=released)
        return rows[meant], which[meant]

    def scan(self, retracted: Retractions, codes: Times, *, released: bool = False) -> tuple[Index, Index]:
        """As `find`, looking at every row."""
        rows, which = equal_codes(codes_of_ids(self.ids), codes)
        meant = self.is_meant(retracted, which, rows, released=released)
        return rows[meant], which[meant]

    def is_meant(self, retracted: Retractions, which: Index, rows: Index, *, released: bool) -> Mask:
        """Which of these rows live when they are said to be gone, and have the ids that are meant."""
        at = retracted.at[which]
        meant = (self.start[rows] <= at) & (at < self.meets[rows] if released else at < self.end[rows])
        if self.ids.shape[1] > 1:
            meant &= (self.ids[rows] == retracted.ids[which]).all(axis=1)
        return meant

    def cut(self, rows: Index, at: Times) -> None:
        """End these rows earlier."""
        if self.end is self.was:
            self.end = self.end.copy()
        self.end[rows] = at
        if self.held is not None:
            self.release(rows, np.minimum(self.held[rows], at))
        self._forget_bounds()

    def release(self, rows: Index, at: Times) -> None:
        """Hold these rows no longer than until then."""
        if self.held is None or self.held is self.was_held:
            self.held = self.meets.copy()
        self.held[rows] = at
        self._forget_bounds()

    def _forget_bounds(self) -> None:
        for name in ("first_end", "last_end"):
            self.__dict__.pop(name, None)

    def settle(self) -> None:
        """The last cuts are history."""
        self.was, self.was_held = self.end, self.held

    def alive(self, now: int) -> Index:
        """The rows that are still to meet others."""
        return np.flatnonzero(self.meets > now)


def codes_of_ids(ids: Ids) -> Times:
    return ids[:, 0] if ids.shape[1] == 1 else mixed([ids[:, i] for i in range(ids.shape[1])], len(ids))


def equal_codes(mine: Times, wanted: Times) -> tuple[Index, Index]:
    """Where a code is one of the wanted ones, and which."""
    order = np.argsort(wanted, kind="stable")
    known = wanted[order]
    rows, places = ranges_expanded(np.searchsorted(known, mine), np.searchsorted(known, mine, "right"))
    return rows, order[places]


def _numbers(table: pa.Table, name: str) -> Times:
    return np.asarray(table.column(name).to_numpy(), np.int64)


__all__ = ["END", "HELD", "START", "SubWindow", "codes_of_ids", "equal_codes", "id_names"]
