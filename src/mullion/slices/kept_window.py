"""What windows of one length hold, kept from batch to batch, so that the next ones cost what enters and leaves.

    rows by slice   | .. | leave |   stay, not looked at    | enter |
                         [ the window that was answered last ]
                                 [ the next window                  ]

All slots whose windows have the same ends slide together: a line is a slot and a group that has a row in its window,
and a row that enters is added to the line of each slot that it belongs to, for all of them in a few calls.

A state with an exact inverse is a total for each line, to which is added and from which is subtracted (golab 2.3.4,
the running synopsis, of which only the ends are needed; li 3.2.2, full differential). Others are kept in two stacks.

All of it follows from the sub-windows: it is never committed, and built again where it does not fit any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial as bound
from typing import NamedTuple

import numpy as np

from mullion.aggregates import Invertible, Partial
from mullion.aggregates.base import State
from mullion.expressions.arrays import Codes, Index, Whole
from mullion.expressions.coding.dictionary import runs
from mullion.planner.plan import EVENTS, Grouping, StateColumn
from mullion.slices.group_states import GroupStates
from mullion.slices.numbered_values import NumberedValues
from mullion.slices.stacks import Front, wider
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.window_lines import WindowLines


class Moving(NamedTuple):
    """Rows that enter or leave, once for each slot that they belong to, by line."""

    rows: PartialSubWindows
    at: Index
    """The row of each."""
    starts: Index
    """Where those of the next line begin."""
    lines: Codes
    """The different lines."""

    def reduced(self, partial: Partial, loaded: State) -> State:
        """What comes to each line, or goes from it."""
        return partial.reduce(_at(loaded, self.at), self.starts)


class KeptWindow:
    """Windows of some slots: all their rows of the grouping's sub-windows from `low` up to `high`, but not with it.

    Requires: partials whose states may be combined wherever they were loaded.
    Time: O(rows that enter or leave, once for each of their slots) for a step, and O(groups) for what it holds.
    Space: O(groups) for each slot, and O(rows) for states without an inverse.
    """

    def __init__(
        self,
        grouping: Grouping,
        slots: Sequence[str],
        states: Iterable[StateColumn],
        at: int,
        lines: WindowLines | None = None,
    ) -> None:
        self.grouping, self.slots = grouping.name, tuple(slots)
        self.lines = WindowLines(grouping, slots) if lines is None else lines
        self.low = self.high = at
        """Which slices have been taken in."""
        self.operations = 0
        self.moved: Index = np.zeros(len(self.slots), np.intp)
        self.held: Index = np.zeros(len(self.slots), np.intp)
        """Of each slot, the rows that entered or left since it was told so, and the groups that it had last."""
        self.states = tuple(dict.fromkeys((EVENTS, *states)))
        self._empty(at)

    @property
    def _stacked(self) -> list[StateColumn]:
        return [state for state in self.states if not isinstance(state.partial, Invertible)]

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        arrays = [field for fields in (*self._totals.values(), *self._fronts.values()) for field in fields]
        front = 0 if self._front is None else self._front.size
        numbers = sum(table.size for table in self._numbers.values())
        return sum(field.nbytes for field in arrays) + front + numbers + self.lines.size

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

    def reads(self, grouping: str) -> bool:
        """Whether the rows of the grouping are in it."""
        return grouping == self.grouping

    def holds_some_of(self, entry: PartialSubWindows) -> bool:
        """Whether slices of the entry have been taken in already."""
        return bool(len(entry.slices)) and entry.oldest < self.high and entry.newest >= self.low

    def _empty(self, at: int) -> None:
        self.low = self.high = self._flipped = at
        self.lines.clear()
        self._totals: dict[StateColumn, State] = {state: state.partial.identity(0) for state in self.states}
        self._front: Front | None = None
        self._fronts: dict[StateColumn, State] = {}
        """Up to `_flipped` rows are in the front, from there on in the back."""
        self._numbers: dict[StateColumn, NumberedValues] = {}
        for state in self.states:
            self._begin_numbers(state)

    def _enter(self, entries: Sequence[PartialSubWindows], low: int, high: int, *, is_flipped: bool) -> None:
        for moving in self._moving(entries, low, high):
            self._begin(moving.lines)
            for state in self.states:
                partial = state.partial
                if is_flipped and not isinstance(partial, Invertible):
                    continue
                coming = moving.reduced(partial, self._loaded(state, [moving.rows]))
                self._totals[state] = total = wider(partial, self._totals[state], self.lines.room)
                _put(total, moving.lines, partial.combine(_at(total, moving.lines), coming))
                self.operations += len(moving.at)

    def _begin(self, lines: Codes) -> None:
        """Rows are about to enter: note since when lines are here that were not."""
        if self.lines.are_grouped:
            self.lines.begin(lines[self.totals(EVENTS)[0][lines] == 0])

    def _leave(self, entries: Sequence[PartialSubWindows], low: int, *, is_flipped: bool) -> None:
        left = []
        for moving in self._moving(entries, self.low, low):
            for state in self.states:
                partial = state.partial
                if isinstance(partial, Invertible):
                    total = self._totals[state]
                    going = moving.reduced(partial, self._loaded(state, [moving.rows]))
                    _put(total, moving.lines, partial.invert(_at(total, moving.lines), going))
                    self.operations += len(moving.at)
            left.append(moving.lines)
        self.low = max(self.low, low)
        if self._front is not None and not is_flipped:
            self._front.leave(low)
        if left and self.lines.are_grouped:
            self._release(np.unique(np.concatenate(left)))

    def _release(self, lines: Codes) -> None:
        """Lines of which nothing is left give their numbers back, and then groups that have none any more."""
        gone = lines[self._totals[EVENTS][0][lines] == 0]
        if not len(gone):
            return
        for state in self._stacked:
            self._totals[state] = wider(state.partial, self._totals[state], self.lines.room)
            _put(self._totals[state], gone, state.partial.identity(len(gone)))
        self.lines.release(gone)

    def _flip(self, entries: Sequence[PartialSubWindows]) -> None:
        """All rows of the window become the front."""
        found = [(*self.lines.of_rows(entry, rows), rows) for entry, rows in self._rows(entries, self.low, self.high)]
        found.sort(key=lambda part: part[2].oldest)
        parts = [rows for _, _, rows in found]
        begins = np.cumsum([0, *(len(rows.slices) for rows in parts)])
        times = _joined([rows.slices[at] for at, _, rows in found])
        self._front = Front(_joined([lines for _, lines, _ in found]), times, self.lines.room)
        every = _joined([at + begin for (at, _, _), begin in zip(found, begins.tolist(), strict=False)])
        for state in self._stacked:
            partial = state.partial
            self._fronts.pop(state, None)
            self._begin_numbers(state)
            fields = _at(self._loaded(state, parts), every)
            self._fronts[state], combined = self._front.suffixes(partial, fields)
            self._totals[state] = partial.identity(self.lines.room)
            self.operations += combined
        self._flipped = self.high

    # Values that are numbered

    def _begin_numbers(self, state: StateColumn) -> None:
        if state.partial.is_numbered:
            self._numbers[state] = NumberedValues(state, bound(self._relabel, state))

    def _relabel(self, state: StateColumn, before: Whole, after: Whole) -> None:
        """Labels of values have become others."""
        for fields in (self._totals[state], self._fronts.get(state, ())):
            for labels in fields:
                there = labels != state.partial.identity(1)[0][0]
                labels[there] = after[np.searchsorted(before, labels[there])]

    def _loaded(self, state: StateColumn, parts: Sequence[PartialSubWindows]) -> State:
        """The states of rows, one after the other."""
        if not parts:
            return state.partial.identity(0)
        if state in self._numbers:
            return self._numbers[state].load(parts)
        loaded = [state.partial.load(rows.state(state)) for rows in parts]
        return loaded[0] if len(loaded) == 1 else tuple(np.concatenate(f) for f in zip(*loaded, strict=True))

    # Rows and their lines

    def _rows(
        self, entries: Sequence[PartialSubWindows], low: int, high: int
    ) -> Iterator[tuple[PartialSubWindows, PartialSubWindows]]:
        """Sub-windows, and their rows in [low, high), in the order of slices."""
        for entry in entries if low < high else ():
            if entry.oldest < high and entry.newest >= low and entry.grouping == self.grouping:
                rows = entry.within(low, high)
                if len(rows.slices):
                    yield entry, rows

    def _moving(self, entries: Sequence[PartialSubWindows], low: int, high: int) -> Iterator[Moving]:
        for entry, rows in self._rows(entries, low, high):
            at, lines = self.lines.of_rows(entry, rows)
            if len(at):
                order, starts = runs(lines)
                slots = self.lines.slot[lines] if self.lines.are_grouped else lines
                self.moved += np.bincount(slots, minlength=len(self.slots))
                yield Moving(rows, at[order], starts, lines[order][starts])

    # What it holds

    def totals(self, state: StateColumn) -> State:
        """What came to each line of a state that has an inverse."""
        return _at(wider(state.partial, self._totals[state], self.lines.room), slice(self.lines.room))

    def groups(self, slots: Iterable[str]) -> dict[str, GroupStates]:
        """For each of these slots every group that has a row in its window; without keys, one in any case."""
        wanted = [self.lines.number_of[slot] for slot in slots]
        if not self.lines.are_grouped:
            self.held[wanted] = 1
            return {
                self.slots[number]: GroupStates(
                    self.lines.schema.empty_table(), line, self._states(line), line, line, line
                )
                for number in wanted
                for line in [np.array([number])]
            }
        lines, slot_of = np.flatnonzero(self._totals[EVENTS][0]), self.lines.slot
        if len(self.slots) > 1:
            slot = slot_of[lines]
            if len(wanted) < len(self.slots):
                lines = lines[np.isin(slot, wanted)]
                slot = slot_of[lines]
            lines = lines[np.argsort(slot.astype(np.int16) if len(self.slots) < 1 << 15 else slot, kind="stable")]
        bounds = np.searchsorted(slot_of[lines], np.arange(len(self.slots) + 1))
        self.held[wanted] = np.diff(bounds)[wanted]
        keys, at = self.lines.different_keys(lines)
        every = GroupStates(keys, at, self._states(lines), self.lines.group[lines], self.lines.since[lines], lines)
        return {self.slots[number]: every.between(bounds[number], bounds[number + 1]) for number in wanted}

    def _states(self, lines: Index) -> dict[StateColumn, State]:
        return {state: self._state(state, lines) for state in self.states}

    def _state(self, state: StateColumn, lines: Index) -> State:
        partial = state.partial
        self.operations += len(lines)
        total = _at(wider(partial, self._totals[state], self.lines.room), lines)
        if self._front is not None and not isinstance(partial, Invertible):
            known, rows = self._front.inside(lines)
            _put(total, known, partial.combine(_at(self._fronts[state], rows), _at(total, known)))
        return self._numbers[state].finished(total) if state in self._numbers else total


def _at(state: State, index: Index | slice) -> State:
    return tuple(field[index] for field in state)


def _put(state: State, index: Index, values: State) -> None:
    for field, some in zip(state, values, strict=True):
        field[index] = some


def _joined(arrays: Sequence[Codes]) -> Codes:
    return np.concatenate(arrays) if arrays else np.empty(0, np.int64)
