"""What the window of a slot holds, kept from batch to batch, so that the next window costs what enters and leaves.

    rows by slice   | .. | leave |   stay, not looked at    | enter |
                         [ the window that was answered last ]
                                 [ the next window                  ]

A state with an exact inverse is a total for each group, to which is added and from which is subtracted (golab 2.3.4,
the running synopsis, of which only the ends are needed; li 3.2.2, full differential). Others are kept in two stacks.

All of it follows from the sub-windows: it is never committed, and built again where it does not fit any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from mullion.aggregates import Invertible, Partial
from mullion.aggregates.base import State
from mullion.expressions.arrays import Codes, Index, Times, grown
from mullion.expressions.coding.code_table import CodeTable
from mullion.expressions.coding.dictionary import runs
from mullion.expressions.vector import arrow_type
from mullion.planner.plan import EVENTS, Grouping, StateColumn
from mullion.slices.stacks import Front, wider
from mullion.slices.subwindow import PartialSubWindows

NO_LINE = np.zeros(1, np.intp)
NOTHING = np.empty(0, np.int64), np.empty(0, np.int64)

MOMENTS = count(1)
"""They tell apart the groups that have a line one after the other, in whatever window."""


class GroupStates(NamedTuple):
    """What a window holds: the keys of each group, and its states."""

    keys: pa.Table
    states: dict[StateColumn, State]
    lines: Index
    """Where the window has each group,"""
    since: Times
    """and since when: another number there is another group."""


class KeptWindow:
    """The window of one slot: all rows of the grouping's sub-windows from `low` up to `high`, but not with it.

    Requires: partials whose states may be combined wherever they were loaded.
    Time: O(rows that enter or leave) for a step, and O(groups) for what it holds.
    Space: O(groups), and O(rows) for states without an inverse.
    """

    def __init__(self, grouping: Grouping, slot: str, states: Iterable[StateColumn], at: int) -> None:
        self.grouping, self.slot = grouping.name, slot
        self.low = self.high = at
        """Which slices have been taken in."""
        self.operations = 0
        self.moved = self.held = 0
        """Rows that entered or left since its groups were asked for, and the groups that it had then."""
        self._since: Times = np.empty(0, np.int64)
        self._keys = len(grouping.keys)
        schema = pa.schema([(str(i), arrow_type(type_)) for i, type_ in enumerate(grouping.key_types)])
        self._lines, self._schema = CodeTable(schema), schema
        self._looked_up = WeakKeyDictionary[PartialSubWindows, tuple[Times, Codes]]()
        """Of sub-windows, the slices of their rows that came in last, and the groups of these."""
        self.states = tuple(dict.fromkeys((EVENTS, *states)))
        self._totals: dict[StateColumn, State] = {state: state.partial.identity(0) for state in self.states}
        self._fronts: dict[StateColumn, State] = {}
        self._front: Front | None = None
        self._flipped = at
        """Up to here rows are in the front, from here on in the back."""

    @property
    def _stacked(self) -> list[StateColumn]:
        return [state for state in self.states if not isinstance(state.partial, Invertible)]

    # The window slides

    def slide(self, entries: Sequence[PartialSubWindows], low: int, high: int) -> None:
        """Go on to a window that neither starts nor ends before this one."""
        if low >= self.high:
            self._empty(low)
        is_flipped = bool(self._stacked) and low > self._flipped
        self._enter(entries, self.high, high, is_flipped=is_flipped)
        self.high = high
        self._leave(entries, low, is_flipped=is_flipped)
        if is_flipped:
            self._flip(entries)

    def forget(self, entries: Sequence[PartialSubWindows], horizon: int) -> None:
        """Let go what lies before the horizon, while it is still there."""
        if self.low < horizon:
            self.slide(entries, horizon, max(self.high, horizon))

    def holds_some_of(self, entry: PartialSubWindows) -> bool:
        """Whether slices of the entry have been taken in already."""
        return bool(len(entry.slices)) and entry.oldest < self.high and entry.newest >= self.low

    def _empty(self, at: int) -> None:
        self.low = self.high = self._flipped = at
        self._lines = CodeTable(self._schema)
        self._looked_up.clear()
        self._totals = {state: state.partial.identity(0) for state in self.states}
        self._front, self._fronts = None, {}

    def _enter(self, entries: Sequence[PartialSubWindows], low: int, high: int, *, is_flipped: bool) -> None:
        for entry, rows in self._rows(entries, low, high):
            lines = self._codes(entry, rows)
            order, starts = runs(lines)
            distinct = lines[order][starts]
            self.moved += len(lines)
            self._begin(distinct)
            for state in self.states:
                partial = state.partial
                if is_flipped and not isinstance(partial, Invertible):
                    continue
                total = wider(partial, self._totals[state], self._room)
                _put(total, distinct, partial.combine(_at(total, distinct), _reduced(state, rows, order, starts)))
                self._totals[state] = total
                self.operations += len(lines)

    def _begin(self, lines: Codes) -> None:
        """Groups are about to enter: note since when those are here that were not."""
        there = wider(EVENTS.partial, self._totals[EVENTS], self._room)[0]
        self._since = grown(self._since, self._room, 0)
        self._since[lines[there[lines] == 0]] = next(MOMENTS)

    def _leave(self, entries: Sequence[PartialSubWindows], low: int, *, is_flipped: bool) -> None:
        left = []
        for entry, rows in self._rows(entries, self.low, low):
            lines = self._codes(entry, rows)
            order, starts = runs(lines)
            distinct = lines[order][starts]
            self.moved += len(lines)
            for state in self.states:
                partial = state.partial
                if isinstance(partial, Invertible):
                    total = self._totals[state]
                    _put(total, distinct, partial.invert(_at(total, distinct), _reduced(state, rows, order, starts)))
                    self.operations += len(lines)
            left.append(distinct)
        self.low = max(self.low, low)
        if self._front is not None and not is_flipped:
            self._front.leave(low)
        if left and self._keys:
            self._release(np.unique(np.concatenate(left)))

    def _release(self, lines: Codes) -> None:
        """Groups of which nothing is left give their numbers back."""
        gone = lines[self._totals[EVENTS][0][lines] == 0]
        if not len(gone):
            return
        for state in self._stacked:
            self._totals[state] = wider(state.partial, self._totals[state], self._room)
            _put(self._totals[state], gone, state.partial.identity(len(gone)))
        self._lines.forget(gone)

    def _flip(self, entries: Sequence[PartialSubWindows]) -> None:
        """All rows of the window become the front."""
        found = sorted(self._rows(entries, self.low, self.high), key=lambda part: part[1].oldest)
        lines, parts = [self._codes(entry, rows) for entry, rows in found], [rows for _, rows in found]
        self._front = Front(_joined(lines), _joined([rows.slices for rows in parts]), self._room)
        for state in self._stacked:
            partial = state.partial
            loaded = [partial.load(rows.state(state)) for rows in parts]
            fields = tuple(np.concatenate(f) for f in zip(*loaded, strict=True)) if loaded else partial.identity(0)
            self._fronts[state], combined = self._front.suffixes(partial, fields)
            self._totals[state] = partial.identity(self._room)
            self.operations += combined
        self._flipped = self.high

    def _rows(
        self, entries: Sequence[PartialSubWindows], low: int, high: int
    ) -> Iterator[tuple[PartialSubWindows, PartialSubWindows]]:
        """Sub-windows, and their rows of the slot in [low, high), in the order of slices."""
        for entry in entries if low < high else ():
            is_near = entry.oldest < high and entry.newest >= low
            if is_near and entry.grouping == self.grouping and entry.knows(self.slot):
                rows = entry.within(low, high).of_slot(self.slot)
                if len(rows.slices):
                    yield entry, rows

    def _codes(self, entry: PartialSubWindows, rows: PartialSubWindows) -> Codes:
        """The groups of rows. They are looked up once, when rows enter: as long as some are inside, a group keeps its
        number."""
        if not self._keys:
            return np.zeros(len(rows.slices), np.int64)
        slices, codes = self._looked_up.get(entry, NOTHING)
        first, last = np.searchsorted(slices, rows.slices[0]), np.searchsorted(slices, rows.slices[-1], "right")
        if np.array_equal(slices[first:last], rows.slices):
            return codes[first:last]
        keys = rows.table.select([f"key{i}" for i in range(self._keys)]).rename_columns(self._schema.names)
        codes = self._lines.codes(keys)
        self._looked_up[entry] = rows.slices, codes
        return codes

    @property
    def _room(self) -> int:
        return self._lines.room if self._keys else 1

    # What it holds

    def groups(self) -> GroupStates:
        """Every group that has a row in the window; without keys, one whether it has some or not."""
        lines = np.flatnonzero(self._totals[EVENTS][0]) if self._keys else NO_LINE
        keys = self._lines.rows(lines) if self._keys else self._schema.empty_table()
        self.held = len(lines)
        since = self._since[lines] if self._keys else NO_LINE
        return GroupStates(keys, {state: self._state(state, lines) for state in self.states}, lines, since)

    def _state(self, state: StateColumn, lines: Index) -> State:
        partial = state.partial
        self.operations += len(lines)
        total = _at(wider(partial, self._totals[state], self._room), lines)
        if self._front is None or isinstance(partial, Invertible):
            return total
        known, rows = self._front.inside(lines)
        _put(total, known, partial.combine(_at(self._fronts[state], rows), _at(total, known)))
        return total


def _reduced(state: StateColumn, rows: PartialSubWindows, order: Index | slice, starts: Index) -> State:
    partial: Partial = state.partial
    return partial.reduce(tuple(field[order] for field in partial.load(rows.state(state))), starts)


def _at(state: State, index: Index) -> State:
    return tuple(field[index] for field in state)


def _put(state: State, index: Index, values: State) -> None:
    for field, some in zip(state, values, strict=True):
        field[index] = some


def _joined(arrays: Sequence[Codes]) -> Codes:
    return np.concatenate(arrays) if arrays else np.empty(0, np.int64)
