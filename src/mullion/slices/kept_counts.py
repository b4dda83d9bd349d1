"""How often each value occurs in windows that are kept from batch to batch, for medians, distinct counts and the like.

    the window of value counts    (slot, group, value) -> count     slides as any other: rows enter and leave
    cells, in order               slot, group | value 3 7 9 | ...   what came is merged in, what is gone left out

A step moves what enters and leaves, and goes once over the cells, a few nanoseconds each; built anew, all rows of the
window would be coded and sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from mullion.aggregates.extremes import Smallest
from mullion.aggregates.values import has_order
from mullion.expressions.arrays import Codes, Index, Whole, grown
from mullion.expressions.coding.code_table import CodeTable
from mullion.expressions.readonly import frozen
from mullion.expressions.vector import Vector, arrow_type
from mullion.planner.plan import EVENTS, Grouping, StateColumn
from mullion.slices.group_states import CellCounts, GroupStates
from mullion.slices.kept_window import KeptWindow
from mullion.slices.kernels.cells import LineCells, merge_cells
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.window_lines import WindowLines


class LinesOfValues(WindowLines):
    """Lines of which a group is a group of the window beside it, by its number there, and a value: itself, where it is
    a number, or else its code."""

    def __init__(self, grouping: Grouping, beside: WindowLines) -> None:
        self._beside = beside
        types = grouping.key_types[len(grouping.group_keys) :]
        self._has_order = has_order(types)
        self._value_schema = pa.schema([(str(i), arrow_type(type_)) for i, type_ in enumerate(types)])
        super().__init__(grouping, beside.slots)

    @property
    def size(self) -> int:
        return super().size + self._values.size

    def clear(self) -> None:
        super().clear()
        self._values = CodeTable(self._value_schema)

    def _schema_of(self, grouping: Grouping) -> pa.Schema:
        value = self._value_schema.types[0] if self._has_order else pa.int64()
        return pa.schema([*([("group", pa.int64())] if self._beside.are_grouped else []), ("value", value)])

    def _keys_of(self, partials: pa.Table) -> pa.Table:
        first = self._keys - len(self._value_schema)
        values = pa.table([partials.column(f"key{i}") for i in range(first, self._keys)], schema=self._value_schema)
        groups = [pa.array(self._beside.group_codes(partials))] if self._beside.are_grouped else []
        value = values.column(0) if self._has_order else self._coded(values)
        return pa.table([*groups, value], schema=self.schema)

    def _coded(self, values: pa.Table) -> pa.Array:
        present = np.logical_and.reduce([np.asarray(column.is_valid()) for column in values.columns])
        codes = np.zeros(len(values), np.int64)
        codes[present] = self._values.codes(values if present.all() else values.filter(pa.array(present)))
        return pa.array(codes, mask=~present)

    def forget_values(self) -> None:
        """Let go the values that no group has any more, once they are as many as the others."""
        if len(self._values) > 2 * len(self._groups) + 1024:
            used = self._groups.rows(self._groups.known()).column("value").drop_null()
            unused = np.zeros(self._values.room, np.bool_)
            unused[self._values.known()] = True
            unused[np.asarray(used)] = False
            self._values.forget(np.flatnonzero(unused))


class KeptCounts:
    """The value counts of the windows of some slots, by the lines of the window beside which it slides.

    Requires: values that are whole numbers in their order, or of which it is only asked how many differ.
    Time: O(rows that enter or leave) for a step, and O(cells) that are moved.
    Space: O(cells).
    """

    def __init__(self, grouping: Grouping, beside: KeptWindow, at: int) -> None:
        self._beside, self._lines = beside.lines, LinesOfValues(grouping, beside.lines)
        self._window = KeptWindow(grouping, beside.slots, (), at, self._lines)
        self._types = grouping.key_types[len(grouping.group_keys) :]
        self._begin()

    @property
    def size(self) -> int:
        return self._window.size + self._nulls.nbytes + sum(field.nbytes for field in self._cells)

    @property
    def operations(self) -> int:
        return self._window.operations

    def slide(self, entries: Sequence[PartialSubWindows], low: int, high: int) -> None:
        if low >= self._window.high:
            self._begin()
        self._window.slide(entries, low, high)
        self._lines.forget_values()

    def _begin(self) -> None:
        self._cells = LineCells(*(np.empty(0, np.int64) for _ in LineCells._fields))
        self._nulls: Whole = np.empty(0, np.int64)
        """Since when the number of a cell is that of a NULL, which nobody counts."""

    def of(self, lines: Sequence[Index]) -> list[CellCounts]:
        """The cells of lines of the window beside it, which has gone on as far."""
        self._update()
        line, value, cell, _ = self._cells
        times = self._window.totals(EVENTS)[0][cell]
        self._window.operations += len(times)
        return [
            CellCounts(value, times, np.searchsorted(line, own), np.searchsorted(line, own, "right")) for own in lines
        ]

    def _update(self) -> None:
        """Take in the cells that came, and leave out those that are gone."""
        there, since, before = self._window.totals(EVENTS)[0] > 0, self._lines.since[: self._lines.room], self._cells
        stays = there[before.cell] & (since[before.cell] == before.since)
        there[before.cell[stays]] = False
        self._nulls = grown(self._nulls, len(since), 0)
        new = np.flatnonzero(there & (self._nulls[: len(since)] != since))
        if len(new) or not stays.all():
            came = self._new_cells(new)
            room = LineCells(*(np.empty(int(stays.sum()) + len(came.cell), np.int64) for _ in LineCells._fields))
            merge_cells(LineCells(*frozen(*before)), stays, LineCells(*frozen(*came)), room)
            self._cells = room

    def _new_cells(self, new: Codes) -> LineCells:
        keys, slot, since = self._lines.keys(new), self._lines.slot[new], self._lines.since[new]
        values = keys.column("value")
        present = np.asarray(values.is_valid())
        self._nulls[new[~present]] = since[~present]
        line = self._beside.of(slot, np.asarray(keys.column("group"))) if self._beside.are_grouped else slot
        value = new
        if has_order(self._types):
            value = Smallest(self._types[0]).load((Vector.from_arrow(values, self._types[0]),))[0]
        new, since, line, value = (field[present] for field in (new, since, line, value))
        order = np.lexsort((value, line))
        return LineCells(line[order], value[order], new[order], since[order])


class CountedWindow(KeptWindow):
    """Windows with the value counts that some aggregates need, which slide beside them."""

    def __init__(
        self,
        grouping: Grouping,
        slots: Sequence[str],
        states: Iterable[StateColumn],
        at: int,
        counting: Iterable[Grouping],
    ) -> None:
        super().__init__(grouping, slots, states, at)
        self._counts = {other.name: KeptCounts(other, self, at) for other in counting}

    @property
    def size(self) -> int:
        return super().size + sum(counts.size for counts in self._counts.values())

    def reads(self, grouping: str) -> bool:
        return super().reads(grouping) or grouping in self._counts

    def _leave(self, entries: Sequence[PartialSubWindows], low: int, *, is_flipped: bool) -> None:
        """Value counts move after groups have come, and before they are gone: they know groups by their numbers."""
        for counts in self._counts.values():
            before = counts.operations
            counts.slide(entries, low, self.high)
            self.operations += counts.operations - before
        super()._leave(entries, low, is_flipped=is_flipped)

    def groups(self, slots: Iterable[str]) -> dict[str, GroupStates]:
        held = super().groups(slots)
        lines = [own.lines for own in held.values()]
        cells = {name: counts.of(lines) for name, counts in self._counts.items()}
        return {
            slot: own._replace(counts={name: counted[i] for name, counted in cells.items()})
            for i, (slot, own) in enumerate(held.items())
        }
