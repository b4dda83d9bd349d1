"""The rows of a grouping's slots in one sequence, in which any window of any slot and group is one range."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.aggregates.base import State
from mullion.aggregates.count import Count
from mullion.aggregates.integer_states import WholeNumbers
from mullion.aggregates.values import OverValues
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.expressions.arrays import Index, Mask, Times
from mullion.expressions.vector import Vector
from mullion.lazy import cached_property
from mullion.planner.plan import EVENTS, Grouping, StateColumn
from mullion.planner.synopsis_choice import walk_pays
from mullion.questions_first import give_way
from mullion.slices.arrange import rank_of_keys
from mullion.slices.base import Synopsis
from mullion.slices.basic_interval import BasicInterval
from mullion.slices.coded_values import coded_values
from mullion.slices.folded import Folded
from mullion.slices.interval import Interval
from mullion.slices.kernels import ranges
from mullion.slices.kernels.ranges import Lines, Segments
from mullion.slices.rows import SubWindowRows
from mullion.slices.running import Running
from mullion.slices.value_counts import MOST_KEPT, CountedRanges, ValueCounts

SYNOPSES: dict[str, type[Running] | type[Interval] | type[BasicInterval]] = {
    synopsis.name: synopsis for synopsis in (Running, Interval, BasicInterval, Folded)
}

MOST_REMEMBERED = 4_000_000
"""Answers of a state that are kept for the next aggregate; more are computed anew to bound memory."""

SPARSE = 4
"""From so many possible lines a row on, lines are numbered by those that there are."""


NOT_FINISHED: tuple[None, tuple[Vector, ...]] = None, ()


@dataclass
class RowSequence:
    """The rows of some slots in the order (slot, group, slice): any window of any slot and group is one range."""

    rows: SubWindowRows
    chosen: Index
    lines: Lines
    groups: int
    present: npt.NDArray[np.int64]
    """slot * number of groups + group of each line; ascending."""
    stored: dict[StateColumn, tuple[Vector, ...]] = field(default_factory=dict)
    synopses: dict[tuple[StateColumn, str], Synopsis] = field(default_factory=dict)
    answers: dict[StateColumn, tuple[Index, Index, State]] = field(default_factory=dict)
    """The last answers of each state,"""
    finished: dict[StateColumn, tuple[State | None, tuple[Vector, ...]]] = field(default_factory=dict)
    """and what aggregates take of them."""
    same: dict[StateColumn, StateColumn] = field(default_factory=dict)
    """What each count is the same as."""
    counted: dict[str, CountedRows] = field(default_factory=dict)

    def answer(self, state: StateColumn, low: Index, high: Index) -> tuple[Vector, ...]:
        """The state over each range, as aggregates take it."""
        numbers = self.numbers(state, low, high)
        if self.finished.get(state, NOT_FINISHED)[0] is not numbers:
            self.finished[state] = numbers, self.finish(state, numbers)
        return self.finished[state][1]

    def numbers(self, state: StateColumn, low: Index, high: Index) -> State:
        """The state over each range, to be combined or finished. Aggregates and queries that ask for the same ranges
        are answered once (golab 8.3.1, rules CS1 and CS3)."""
        state = counted_with(state, self.rows, self.same)
        if state in self.answers:
            last_low, last_high, states = self.answers[state]
            if _same(last_low, low) and _same(last_high, high):
                return states
        states = self.synopsis(state, low, high).between(low, high)
        if len(low) <= MOST_REMEMBERED:
            self.answers[state] = low, high, states
        return states

    def finish(self, state: StateColumn, numbers: State) -> tuple[Vector, ...]:
        state = counted_with(state, self.rows, self.same)
        return state.partial.finish(numbers, () if isinstance(state.partial, WholeNumbers) else self._stored(state))

    def synopsis(self, state: StateColumn, low: Index, high: Index) -> Synopsis:
        """The synopsis that answers these ranges soonest; each is built once."""
        name = state.synopsis
        if name == Interval.name and walk_pays(low, high, state.partial):
            name = BasicInterval.name
        if (state, name) not in self.synopses:
            give_way()
            self.synopses[state, name] = self._built(state, name)
        return self.synopses[state, name]

    def _built(self, state: StateColumn, name: str) -> Synopsis:
        partial = state.partial
        if name == Running.name and isinstance(partial, WholeNumbers):
            return Running.of_rows(partial, partial.load(self.rows.state(state)), self.chosen)
        return SYNOPSES[name](partial, partial.load(self._stored(state)))

    def _stored(self, state: StateColumn) -> tuple[Vector, ...]:
        if state not in self.stored:
            self.stored[state] = tuple(v.take(self.chosen) for v in self.rows.state(state))
        return self.stored[state]

    def segments(self, slot: Index, start: Times, end: Times) -> Segments:
        """Windows, each of a slot, as they are asked of lines."""
        first = first_of_segments(slot, start, end)
        begin = np.searchsorted(self.present, slot[first[:-1]] * self.groups)
        number = np.searchsorted(self.present, (slot[first[:-1]] + 1) * self.groups) - begin
        return Segments(first, begin, number, start, end)

    def count_pairs(self, asked: Segments) -> Index:
        """How many groups have a row in each window."""
        count = np.zeros(len(asked.start), np.intp)
        ranges.count_pairs(self.lines, asked, count)
        return count

    def find_pairs(self, asked: Segments, count: Index) -> tuple[Index, Index, Index]:
        """For each window and group with a row in it, by window and then line: the line and the range of its rows."""
        place = np.cumsum(count) - count
        kind: npt.DTypeLike = np.int32 if len(self.lines.times) < np.iinfo(np.int32).max else np.int64
        line, low, high = (_room(int(count.sum()), kind) for _ in range(3))
        ranges.find_pairs(self.lines, asked, place, line, low, high)
        return line, low, high

    def ranges(self, start: Times, end: Times, line: Times) -> tuple[Index, Index]:
        """Where the rows of a slot and group, given as in `present`, within [start, end) lie."""
        low, high = np.empty(len(line), np.intp), np.empty(len(line), np.intp)
        at = np.searchsorted(self.present, line)
        if len(self.present):
            at[self.present[np.minimum(at, len(self.present) - 1)] != line] = -1
        else:
            at[:] = -1
        ranges.search_ranges(self.lines, at, start, end, low, high)
        return low, high

    @cached_property
    def keys(self) -> list[pa.Array]:
        """The keys of each line."""
        first = self.chosen[self.lines.starts[:-1]]
        return [self.rows.values_of_key(i, first) for i in range(self.rows.group_keys)]

    @cached_property
    def key_rank(self) -> npt.NDArray[np.int64]:
        """The rank of each line by its keys, to order answers by."""
        return rank_of_keys(self.keys, len(self.present))

    def operations(self) -> int:
        return sum(synopsis.operations for synopsis in self.synopses.values())


def _room(length: int, kind: npt.DTypeLike) -> Index:
    room: Index = np.empty(length, kind)
    return room


def _same(a: Index, b: Index) -> bool:
    return a is b or np.array_equal(a, b)


def first_of_segments(slot: Index, start: Times, end: Times) -> Index:
    """Where windows, each of a slot, begin to start and end one after the other, and where the last ones stop."""
    new = np.ones(len(slot), np.bool_)
    new[1:] = (slot[1:] != slot[:-1]) | (start[1:] < start[:-1]) | (end[1:] < end[:-1])
    return np.append(np.flatnonzero(new), len(slot))


def counted_with(state: StateColumn, rows: SubWindowRows, known: dict[StateColumn, StateColumn]) -> StateColumn:
    """The count of all events in place of the count of a column that has no NULL; `known` remembers it."""
    if not isinstance(state.partial, Count) or state == EVENTS:
        return state
    if state not in known:
        known[state] = EVENTS if rows.are_same(state, EVENTS) else state
    return known[state]


class CountedRows:
    """The value counts of some slots: one sequence that all holistic aggregates over the values are answered from."""

    def __init__(
        self,
        rows: SubWindowRows,
        grouping: Grouping,
        slots: Index,
        wanted: Mask | None = None,
        most_kept: int = MOST_KEPT,
    ) -> None:
        """Bit levels of the values are kept where they take no more than `most_kept` bytes."""
        columns = [rows.key(i) for i in range(len(grouping.group_keys), rows.keys)]
        present = np.logical_and.reduce([np.asarray(c.is_valid()) for c in columns])
        present = present if wanted is None else present & wanted
        self._sequence = sequence_of(rows, grouping, slots, present)
        first = len(grouping.group_keys)
        code, self._values = coded_values([(c, rows.key_type(first + i)) for i, c in enumerate(columns)])
        chosen = self._sequence.chosen
        counts = rows.state(EVENTS)[0].values[chosen]
        self._counts = ValueCounts(code[chosen], counts, len(self._values[0]), most_kept)

    def within(self, start: Times, end: Times, line: Times) -> CountedRanges:
        return self._counts.within(*self._sequence.ranges(start, end, line))

    def lower(self, aggregate: BoundAggregate, counted: CountedRanges) -> Vector:
        assert isinstance(aggregate.aggregate, OverValues) and aggregate.argument_type is not None
        return aggregate.aggregate.lower_counts(aggregate.argument_type, self._values, counted)

    @property
    def operations(self) -> int:
        return self._counts.operations


def sequence_of(rows: SubWindowRows, grouping: Grouping, slots: Index, wanted: Mask | None = None) -> RowSequence:
    names = grouping.slot_names
    chosen, slot = rows.members({names[i]: int(i) for i in slots})
    if wanted is not None and not wanted.all():
        kept = wanted[chosen]
        chosen, slot = chosen[kept], slot[kept]
    give_way()
    group, groups = rows.groups
    groups = max(1, groups)
    give_way()
    # The rows of one slot come in their order, so that as many as there are are all of them.
    is_whole = len(slots) == 1 and len(chosen) == len(rows)
    line = slot * groups + (group if is_whole else group[chosen])
    order, starts, present = by_line(line, (int(slot.max(initial=0)) + 1) * groups)
    placed = order if is_whole else chosen[order]
    times = rows.slices[placed]
    if not ranges.is_in_order(times, starts):
        order = order[np.lexsort((times, line[order]))]
        placed = order if is_whole else chosen[order]
        times = rows.slices[placed]
    return RowSequence(rows, placed, Lines(times, starts), groups, present)


def by_line(line: Index, size: int) -> tuple[Index, Index, npt.NDArray[np.int64]]:
    """An order of the rows by line, where each line that has some begins in it, and these lines."""
    names = None
    if size > SPARSE * len(line) + 1024:
        names, line = np.unique(line, return_inverse=True)
        size = len(names)
    order, starts = np.empty(len(line), np.intp), np.empty(size + 1, np.intp)
    ranges.sort_by_line(line, size, order, starts)
    present = np.flatnonzero(starts[1:] > starts[:-1])
    starts = np.append(starts[present], len(line))
    return order, starts, present if names is None else names
