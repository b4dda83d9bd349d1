"""The rows of a grouping's slots in one sequence, in which any window of any slot and group is one range."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mullion.aggregates.values import OverValues
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.expressions.arrays import Index, Times
from mullion.expressions.coding.dictionary import combine, ordered_codes
from mullion.expressions.vector import Vector
from mullion.planner.plan import EVENTS, Grouping, StateColumn
from mullion.planner.slices import distinct
from mullion.planner.synopsis_choice import walk_pays
from mullion.slices.base import Synopsis
from mullion.slices.basic_interval import BasicInterval
from mullion.slices.folded import Folded
from mullion.slices.interval import Interval
from mullion.slices.running import Running
from mullion.slices.subwindow import Rows
from mullion.slices.value_counts import Counted, ValueCounts

SYNOPSES: dict[str, type[Running] | type[Interval] | type[BasicInterval]] = {
    synopsis.name: synopsis for synopsis in (Running, Interval, BasicInterval, Folded)
}

MOST_REMEMBERED = 1_000_000
"""Answers of a state that are kept for the next aggregate; more are computed anew to bound memory."""


@dataclass
class RowSequence:
    """The rows of some slots in the order (slot, group, slice): any window of any slot and group is one range."""

    rows: Rows
    chosen: Index
    ranks: npt.NDArray[np.int64]
    """For each place, (slot * number of groups + group) * number of slices + rank of its slice: ascending."""
    slices: npt.NDArray[np.int64]
    groups: int
    present: npt.NDArray[np.int64]
    """slot * number of groups + group, where that group has a row in that slot; ascending."""
    first: Index
    """A row of each of these, to take the keys from."""
    stored: dict[StateColumn, tuple[Vector, ...]] = field(default_factory=dict)
    synopses: dict[tuple[StateColumn, str], Synopsis] = field(default_factory=dict)
    answers: dict[StateColumn, tuple[Index, Index, tuple[Vector, ...]]] = field(default_factory=dict)
    """The last answers of each state."""
    counted: dict[str, CountedRows] = field(default_factory=dict)

    def answer(self, state: StateColumn, low: Index, high: Index) -> tuple[Vector, ...]:
        """The state over each range. Aggregates and queries that ask for the same ranges are answered once (golab
        8.3.1, rules CS1 and CS3)."""
        if state in self.answers:
            last_low, last_high, states = self.answers[state]
            if _same(last_low, low) and _same(last_high, high):
                return states
        states = state.partial.finish(self.synopsis(state, low, high).between(low, high), self._stored(state))
        if len(low) <= MOST_REMEMBERED:
            self.answers[state] = low, high, states
        return states

    def synopsis(self, state: StateColumn, low: Index, high: Index) -> Synopsis:
        """The synopsis that answers these ranges soonest; each is built once."""
        name = state.synopsis
        if name == Interval.name and walk_pays(low, high, state.partial):
            name = BasicInterval.name
        if (state, name) not in self.synopses:
            self.synopses[state, name] = SYNOPSES[name](state.partial, state.partial.load(self._stored(state)))
        return self.synopses[state, name]

    def _stored(self, state: StateColumn) -> tuple[Vector, ...]:
        if state not in self.stored:
            self.stored[state] = tuple(v.take(self.chosen) for v in self.rows.state(state))
        return self.stored[state]

    def ranges(self, start: Times, end: Times, line: Times) -> tuple[Index, Index]:
        """Where the rows of a slot and group within [start, end) lie."""
        base = line * len(self.slices)
        low = np.searchsorted(self.ranks, base + np.searchsorted(self.slices, start))
        high = np.searchsorted(self.ranks, base + np.searchsorted(self.slices, end))
        return low, high

    def lines(self, slot: Index) -> tuple[Index, Index]:
        """For each slot given, where its groups begin in `present` and how many they are."""
        begin = np.searchsorted(self.present, slot * self.groups)
        return begin, np.searchsorted(self.present, (slot + 1) * self.groups) - begin

    def operations(self) -> int:
        states = sum(synopsis.operations for synopsis in self.synopses.values())
        return states + sum(counts.operations for counts in self.counted.values())


def _same(a: Index, b: Index) -> bool:
    return a is b or np.array_equal(a, b)


class CountedRows:
    """The value counts of some slots: one sequence that all holistic aggregates over the values are answered from."""

    def __init__(self, rows: Rows, grouping: Grouping, slots: Index) -> None:
        columns = [rows.key(i) for i in range(len(grouping.group_keys), rows.keys)]
        present = np.logical_and.reduce([np.asarray(c.is_valid()) for c in columns])
        self._sequence = sequence_of(rows, grouping, slots, present)
        coded = [ordered_codes(c, rows.key_type(len(grouping.group_keys) + i)) for i, c in enumerate(columns)]
        code, self._values = coded[0]
        size = len(self._values)
        if len(coded) > 1:
            code, size = combine([(np.maximum(c, 0), max(1, len(v))) for c, v in coded], len(rows))
        chosen = self._sequence.chosen
        self._counts = ValueCounts(code[chosen], rows.state(EVENTS)[0].values[chosen], size)

    def within(self, start: Times, end: Times, line: Times) -> Counted:
        return self._counts.within(*self._sequence.ranges(start, end, line))

    def lower(self, aggregate: BoundAggregate, counted: Counted) -> Vector:
        assert isinstance(aggregate.aggregate, OverValues) and aggregate.argument_type is not None
        return aggregate.aggregate.lower_counts(aggregate.argument_type, self._values, counted)

    @property
    def operations(self) -> int:
        return self._counts.operations


def sequence_of(
    rows: Rows, grouping: Grouping, slots: Index, wanted: npt.NDArray[np.bool_] | None = None
) -> RowSequence:
    names = grouping.slot_names
    chosen, slot = rows.members({names[i]: int(i) for i in slots})
    if wanted is not None and not wanted.all():
        kept = wanted[chosen]
        chosen, slot = chosen[kept], slot[kept]
    group, groups = rows.groups
    slices = distinct(rows.slices)
    line = slot * max(1, groups) + group[chosen]
    ranks = line * len(slices) + np.searchsorted(slices, rows.slices)[chosen]
    if len(ranks) and not (ranks[1:] >= ranks[:-1]).all():
        order = np.argsort(ranks, kind="stable")
        chosen, ranks, line = chosen[order], ranks[order], line[order]
    starts = np.flatnonzero(np.concatenate([[True], line[1:] != line[:-1]])) if len(line) else chosen[:0]
    return RowSequence(rows, chosen, ranks, slices, max(1, groups), line[starts], chosen[starts])
