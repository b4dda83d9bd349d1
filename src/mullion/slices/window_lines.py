"""The lines of windows that slide together: a slot and a group that has a row in its window.

Lines and groups are numbered as long as they are there, so that what is known of them stands in arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Codes, Index, Mask, Times, grown
from mullion.expressions.coding.code_table import CodeTable
from mullion.expressions.vector import arrow_type
from mullion.planner.plan import Grouping
from mullion.slices.subwindow import PartialSubWindows

NOTHING = np.empty(0, np.int64), np.empty(0, np.int64)
LINES = pa.schema([("slot", pa.int64()), ("group", pa.int64())])

MOMENTS = count(1)
"""They tell apart the groups that have a line one after the other, in whatever window."""


class WindowLines:
    def __init__(self, grouping: Grouping, slots: Sequence[str]) -> None:
        self.slots = tuple(slots)
        self.number_of = {slot: number for number, slot in enumerate(self.slots)}
        self.are_grouped = bool(grouping.keys)
        """Without keys each slot is one line, which is always there."""
        self._keys = len(grouping.keys)
        self.schema = self._schema_of(grouping)
        self._looked_up = WeakKeyDictionary[PartialSubWindows, tuple[Times, Codes]]()
        """Of sub-windows, the slices of their rows that came in last, and the groups of these."""
        self.clear()

    def clear(self) -> None:
        self._groups, self._lines = CodeTable(self.schema), CodeTable(LINES)
        self._number = np.zeros(0, np.int64)
        """How many lines each group has."""
        self.slot, self.group, self.since = (np.zeros(0, np.int64) for _ in range(3))
        """Of each line."""
        self._looked_up.clear()

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        looked_up = sum(slices.nbytes + codes.nbytes for slices, codes in self._looked_up.values())
        return self._groups.size + self._lines.size + looked_up

    @property
    def room(self) -> int:
        """All lines are less than this."""
        return self._lines.room if self.are_grouped else len(self.slots)

    def of_rows(self, entry: PartialSubWindows, rows: PartialSubWindows) -> tuple[Index, Codes]:
        """Rows of an entry that belong to slots, once for each of these, and their lines."""
        at, slot = rows.members(self.number_of, np.arange(len(rows.slices)))
        if not self.are_grouped:
            return at, slot
        used = np.zeros(len(rows.slices), np.bool_)
        used[at] = True
        group = np.zeros(len(rows.slices), np.int64)
        group[used] = self._codes(entry, rows, used)
        lines = self.of(slot.astype(np.int64, copy=False), group[at])
        self.slot, self.group, self.since = (
            grown(column, self.room, 0) for column in (self.slot, self.group, self.since)
        )
        self.slot[lines], self.group[lines] = slot, group[at]
        return at, lines

    def of(self, slot: Codes, group: Codes) -> Codes:
        """The lines of groups in the windows of these slots."""
        return self._lines.codes(pa.table([pa.array(slot), pa.array(group)], schema=LINES))

    def _codes(self, entry: PartialSubWindows, rows: PartialSubWindows, used: Mask) -> Codes:
        """The groups of some rows. They are looked up once, when rows enter: as long as some are inside, a group keeps
        its number."""
        own = rows.slices[used]
        if not len(own):
            return np.zeros(0, np.int64)
        slices, codes = self._looked_up.get(entry, NOTHING)
        first, last = np.searchsorted(slices, own[0]), np.searchsorted(slices, own[-1], "right")
        if np.array_equal(slices[first:last], own):
            return codes[first:last]
        codes = self.group_codes(rows.table if used.all() else rows.table.filter(pa.array(used)))
        self._looked_up[entry] = own, codes
        return codes

    def group_codes(self, partials: pa.Table) -> Codes:
        """The numbers of the groups of partials, which need not be those of this grouping."""
        return self._groups.codes(self._keys_of(partials))

    def _schema_of(self, grouping: Grouping) -> pa.Schema:
        """What tells groups apart."""
        return pa.schema([(str(i), arrow_type(type_)) for i, type_ in enumerate(grouping.key_types)])

    def _keys_of(self, partials: pa.Table) -> pa.Table:
        return partials.select([f"key{i}" for i in range(self._keys)]).rename_columns(self.schema.names)

    def begin(self, new: Codes) -> None:
        """Lines are there from now on that were not."""
        self.since[new] = next(MOMENTS)
        self._number = grown(self._number, self._groups.room, 0)
        np.add.at(self._number, self.group[new], 1)

    def release(self, gone: Codes) -> None:
        """Lines give their numbers back, and then groups that have none any more."""
        self._lines.forget(gone)
        groups = np.unique(self.group[gone])
        np.subtract.at(self._number, self.group[gone], 1)
        self._groups.forget(groups[self._number[groups] == 0])

    def keys(self, lines: Codes) -> pa.Table:
        """The keys of each line."""
        return self._groups.rows(self.group[lines])

    def different_keys(self, lines: Codes) -> tuple[pa.Table, Index]:
        """The keys of all groups that have one of these lines, and where that of each line stands among them."""
        codes = self.group[lines]
        there = np.zeros(self._groups.room, np.bool_)
        there[codes] = True
        return self._groups.rows(np.flatnonzero(there)), (np.cumsum(there) - 1)[codes]
