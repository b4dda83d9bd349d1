"""A sub-window: rows that came together, sorted by the codes of their keys. Its table is never changed.

    codes of keys  3 3 5 8         found by binary search or by merging
    table          the rows, their ids, starts and ends (see `timed_tables`), made when a save first asks for it

Retractions and releases change when rows end and until when windows hold them. Both are kept beside the table, and how
they were before the last changes stays known until `settle`:

|                                                | now     | before the last cuts | in the table  |
|------------------------------------------------|---------|----------------------|---------------|
| when the row ends                              | `end`   | `end_before`         | `end_saved`   |
| until when its windows hold it; None: its end  | `held`  | `held_before`        | `held_saved`  |
| until when it meets rows of other inputs       | `meets` | `meets_before`       | `meets_saved` |

The last line is the second where there is one, otherwise the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Ids, Index, Mask, Times
from mullion.expressions.coding.hashes import Keys, mixed
from mullion.operators.kernels.join import KeyRuns, ranges_expanded
from mullion.operators.timed_rows import Retractions, TimedRows
from mullion.operators.timed_tables import as_table, from_table


@dataclass(eq=False)
class KeyedSubWindow:
    rows: pa.Table
    keys: Keys
    ids: Ids
    start: Times
    end: Times
    held_until: Times | None = None
    end_before: Times = field(init=False)
    """The same array as `end` when there were no cuts."""
    held_before: Times | None = field(init=False)
    end_saved: Times = field(init=False)
    held_saved: Times | None = field(init=False)

    def __post_init__(self) -> None:
        self.end_saved, self.held_saved = self.end_before, self.held_before = self.end, self.held_until

    def __len__(self) -> int:
        return len(self.start)

    @staticmethod
    def of(rows: TimedRows, keys: Keys) -> KeyedSubWindow:
        """Rows with their keys, put in order."""
        codes = keys.codes
        if len(codes) > 1 and not (codes[1:] >= codes[:-1]).all():
            order = np.argsort(codes, kind="stable")
            rows, keys = rows.take(order), keys.take(order)
        return KeyedSubWindow(rows.rows, keys, rows.ids, rows.start, rows.end, rows.held_until)

    @cached_property
    def table(self) -> pa.Table:
        """The rows with their lives as they were when they came: the same object at every save."""
        return as_table(TimedRows(self.rows, self.ids, self.start, self.end_saved, self.held_saved))

    @cached_property
    def timed(self) -> TimedRows:
        """The rows with their lives as they are now."""
        return TimedRows(self.rows, self.ids, self.start, self.end, self.held_until)

    @property
    def meets(self) -> Times:
        return self.end if self.held_until is None else self.held_until

    @property
    def meets_before(self) -> Times:
        return self.end_before if self.held_before is None else self.held_before

    @property
    def meets_saved(self) -> Times:
        return self.end_saved if self.held_saved is None else self.held_saved

    def changed(self) -> Index:
        """The rows that were cut since the table was made."""
        if self.end is self.end_saved and self.held_until is self.held_saved:
            return np.zeros(0, np.intp)
        return np.flatnonzero((self.end != self.end_saved) | (self.meets != self.meets_saved))

    def retracted(self) -> Retractions:
        """The rows that the last cuts ended."""
        rows = np.flatnonzero(self.end != self.end_before)
        return Retractions(self.ids[rows], self.end[rows])

    @cached_property
    def runs(self) -> KeyRuns:
        return KeyRuns.of(self.keys.codes)

    @cached_property
    def is_clean(self) -> bool:
        """Whether rows of equal codes have equal keys, as nearly always."""
        if self.keys.exact or len(self) < 2:
            return True
        same = np.flatnonzero(self.keys.codes[1:] == self.keys.codes[:-1])
        return bool(self.keys.take(same).equals(self.keys.take(same + 1)).all())

    @cached_property
    def memo(self) -> dict[str, Any]:
        """What is found out about the table, which never changes, and may be asked again."""
        return {}

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
        """The rows that are retracted, and which of the retractions each has: the rows of its ids that live then."""
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

    def is_meant(
        self, retracted: Retractions, which: Index, rows: Index, *, released: bool, part: slice = slice(None)
    ) -> Mask:
        """Which of these rows live when they are retracted, and have the ids that are meant, or have them as `part` of
        their own."""
        at = retracted.at[which]
        meant = (self.start[rows] <= at) & (at < (self.meets if released else self.end)[rows])
        if retracted.ids.shape[1] > 1:
            meant &= (self.ids[rows, part] == retracted.ids[which]).all(axis=1)
        return meant

    def cut(self, rows: Index, at: Times) -> None:
        """End these rows earlier."""
        if self.end is self.end_before:
            self.end = self.end.copy()
        self.end[rows] = at
        if self.held_until is not None:
            self.release(rows, np.minimum(self.held_until[rows], at))
        self._forget_lives()

    def release(self, rows: Index, at: Times) -> None:
        """Hold these rows no longer than until then."""
        if self.held_until is None or self.held_until is self.held_before:
            self.held_until = self.meets.copy()
        self.held_until[rows] = at
        self._forget_lives()

    def _forget_lives(self) -> None:
        for name in ("timed", "first_end", "last_end"):
            self.__dict__.pop(name, None)

    def settle(self) -> None:
        """The last cuts are history."""
        self.end_before, self.held_before = self.end, self.held_until

    def alive(self, now: int) -> Index:
        """The rows that are still to meet others."""
        return np.flatnonzero(self.meets > now)


def restored(table: pa.Table, keys: Keys) -> KeyedSubWindow:
    """A sub-window from its table that was saved. `keys` are those of its rows."""
    rows = from_table(table)
    window = KeyedSubWindow(rows.rows, keys, rows.ids, rows.start, rows.end, rows.held_until)
    window.__dict__["table"] = table
    return window


def codes_of_ids(ids: Ids) -> Times:
    return ids[:, 0] if ids.shape[1] == 1 else mixed([ids[:, i] for i in range(ids.shape[1])], len(ids))


def equal_codes(own: Times, wanted: Times) -> tuple[Index, Index]:
    """Where a code is one of the wanted ones, and which."""
    order = np.argsort(wanted, kind="stable")
    known = wanted[order]
    rows, places = ranges_expanded(np.searchsorted(known, own), np.searchsorted(known, own, "right"))
    return rows, order[places]
