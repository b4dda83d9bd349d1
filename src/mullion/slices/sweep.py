"""Windows swept over the rows of their slots in the order of time, and what they hold.

Pays where few queries read the rows of a slot: each of them goes over all rows that its windows hold, but nothing is
sorted, and nothing is looked up. Many windows over the same rows are ranges of a `sequence`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.aggregates.base import State
from mullion.aggregates.integer_states import WholeNumbers
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.expressions.arrays import Array, Index, Mask, Times
from mullion.expressions.coding.dictionary import coded
from mullion.expressions.readonly import frozen
from mullion.expressions.vector import Vector
from mullion.lazy import cached_property
from mullion.planner.plan import EVENTS, Grouping, StateColumn, states_of
from mullion.planner.sliced import AnswerTemplate
from mullion.slices.arrange import ranked
from mullion.slices.interval import OPERATIONS
from mullion.slices.kernels import ranges, sweeps
from mullion.slices.kernels.row_loops import gather
from mullion.slices.kernels.sweeps import AskedLines, Course, Held, LineSums, Stacks, Swept
from mullion.slices.pairs import WindowPairs
from mullion.slices.rows import SubWindowRows
from mullion.slices.sequence import SPARSE, CountedRows, counted_with, first_of_segments
from mullion.slices.value_counts import CountedRanges


class SweptRows(NamedTuple):
    """Rows of a slot, in the order of their slices."""

    place: int
    """That of the slot among those that are swept."""
    entry: int | None
    """The number of the sub-windows that have them; None: they are numbered among all rows."""
    rows: slice | Index

    def within(self, rows: SubWindowRows) -> slice | Index:
        """The same among all rows."""
        if self.entry is None or not isinstance(self.rows, slice):
            return self.rows
        first = int(rows.starts[self.entry])
        return slice(first + self.rows.start, first + self.rows.stop)


@dataclass
class Sweep:
    """The rows of some slots in the order (slot, slice).

    Requires: states of numbers that are added, or of which the least or the most is kept.
    Time: O(rows + answers) for each query, once for all states that are added and once for each other one. Space: some
    numbers for each line, and the answers.
    """

    rows: SubWindowRows
    slots: Index
    """Those that are swept, ascending. Below, they go by their place here."""
    pieces: list[SweptRows]
    course: Course
    bounds: Index
    """The rows of a slot are bounds[place] to bounds[place + 1]."""
    groups: int
    names: npt.NDArray[np.int64] | None
    """place * number of groups + group of each line, ascending; None where lines are numbered so."""
    size: int
    """How many lines there are."""
    is_by_key: bool
    """Whether the groups of a slot are numbered in the order of their keys, as HAVING, ORDER BY and LIMIT need it."""
    values: Array
    """Numbers x rows: room for all states of the grouping that are added."""
    places: dict[StateColumn, range] = field(default_factory=dict)
    """Where the numbers of states are that were asked for."""
    loaded: dict[StateColumn, tuple[State, tuple[Vector, ...]]] = field(default_factory=dict)
    same: dict[StateColumn, StateColumn] = field(default_factory=dict)
    operations: int = 0

    @staticmethod
    def of(rows: SubWindowRows, grouping: Grouping, slots: Index) -> Sweep:
        is_by_key = not all(template.is_plain for template in grouping.templates[1])
        groups = max(1, rows.groups[1])
        pieces, times, bounds = _placed(rows, grouping, slots)
        size, names = (len(bounds) - 1) * groups, None
        if size <= SPARSE * len(times) + 1024:
            line = _lines(rows, pieces, is_by_key=is_by_key)
        else:
            names, line = np.unique(_lines(rows, pieces, is_by_key=is_by_key), return_inverse=True)
            size = len(names)
        line = line.astype(np.int32 if size < np.iinfo(np.int32).max else np.int64, copy=False)
        numbers = sum(len(state.partial.stored) for state in grouping.states if isinstance(state.partial, WholeNumbers))
        values = np.empty((numbers, len(times)), np.int64)
        return Sweep(rows, slots, pieces, Course(*frozen(times, line)), bounds, groups, names, size, is_by_key, values)

    def segments(self, slot: Index, start: Times, end: Times) -> Swept:
        """Windows, each of a slot, as they are swept."""
        first = first_of_segments(slot, start, end)
        place = np.searchsorted(self.slots, slot[first[:-1]])
        places = np.stack([place, place + 1])
        lines = places * self.groups if self.names is None else np.searchsorted(self.names, places * self.groups)
        return Swept(first, self.bounds[places], lines, start, end)

    def numbers(self, state: StateColumn) -> range:
        """Where the numbers of a state that is added are among the values."""
        if state not in self.places:
            partial, first = state.partial, sum(map(len, self.places.values()))
            assert isinstance(partial, WholeNumbers)
            parts = [partial.load(stored) for stored in self._stored(state)]
            self.places[state] = range(first, first + partial.write(parts, self.values[first:]))
        return self.places[state]

    def extremes(self, state: StateColumn) -> tuple[State, tuple[Vector, ...]]:
        """The state of each row, and as it was stored."""
        if state not in self.loaded:
            parts = self._stored(state)
            stored = parts[0] if len(parts) == 1 else tuple(Vector.concat(own) for own in zip(*parts, strict=True))
            self.loaded[state] = frozen(*state.partial.load(stored)), stored
        return self.loaded[state]

    def _stored(self, state: StateColumn) -> list[tuple[Vector, ...]]:
        """What is stored of a state, piece by piece."""
        by_entry: dict[int | None, tuple[Vector, ...]] = {}
        for piece in self.pieces:
            if piece.entry not in by_entry:
                of = self.rows if piece.entry is None else self.rows.entries[piece.entry]
                by_entry[piece.entry] = of.state(state)
        return [tuple(vector.take(piece.rows) for vector in by_entry[piece.entry]) for piece in self.pieces]

    def counted_with(self, state: StateColumn) -> StateColumn:
        return counted_with(state, self.rows, self.same)

    def over(self, template: AnswerTemplate, asked: Swept, most: int) -> Sweeping:
        """Windows of the template on their way, about so many answers at a time."""
        own = (aggregate for aggregate in template.aggregates if not aggregate.values)
        states = dict.fromkeys(self.counted_with(state) for aggregate in own for state in states_of(aggregate))
        return Sweeping(self, asked, states, template.least_events, most)

    def name(self, lines: Index) -> Times:
        """slot * number of groups + group, as rows number them."""
        place, group = np.divmod(lines.astype(np.int64) if self.names is None else self.names[lines], self.groups)
        if self.is_by_key:
            group = np.argsort(self.rows.key_ranks)[group]
        return self.slots[place] * self.groups + group

    @cached_property
    def keys(self) -> list[pa.Array]:
        """The keys of each line."""
        keys = [self.rows.values_of_key(i, self.rows.firsts) for i in range(self.rows.group_keys)]
        if self.names is None and self.size == self.groups and not self.is_by_key:
            return keys
        group = pa.array(self.name(np.arange(self.size)) % self.groups)
        return [key.take(group) for key in keys]


def _placed(rows: SubWindowRows, grouping: Grouping, slots: Index) -> tuple[list[SweptRows], Times, Index]:
    """The rows of the slots by slot and slice, their slices, and where each slot begins."""
    names, last = grouping.slot_names, len(slots) - 1
    wanted = {names[i]: place for place, i in enumerate(slots)}
    runs = rows.runs(wanted)
    if runs:
        pieces = [SweptRows(*run) for run in runs]
        parts = [rows.entries[entry].slices[own] for _, entry, own in runs]
        sizes = np.bincount([place for place, *_ in runs], [len(part) for part in parts], last + 1)
        times, bounds = _joined(parts), np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        if ranges.is_in_order(times, bounds):
            return pieces, times, bounds
    chosen, slot = rows.members(wanted)
    if (slot[1:] < slot[:-1]).any():
        order = np.argsort(slot, kind="stable")
        chosen, slot = chosen[order], slot[order]
    bounds, times = np.searchsorted(slot, np.arange(last + 2)), rows.slices[chosen]
    if not ranges.is_in_order(times, bounds):
        order = np.lexsort((times, slot))
        chosen, times = chosen[order], times[order]
    pieces = [SweptRows(place, None, chosen[bounds[place] : bounds[place + 1]]) for place in range(len(slots))]
    return pieces, times, bounds


def _lines(rows: SubWindowRows, pieces: Sequence[SweptRows], *, is_by_key: bool) -> Array:
    """place * number of groups + group, or the rank of the group by its keys."""
    codes, groups = rows.groups
    groups = max(1, groups)
    if len(pieces) == 1 and not pieces[0].place and not is_by_key:
        return codes[pieces[0].within(rows)]
    kind = np.int32 if (pieces[-1].place + 1) * groups < np.iinfo(np.int32).max else np.int64
    numbers = rows.key_ranks if is_by_key else np.arange(groups)
    parts = [codes[piece.within(rows)].astype(np.int32, copy=False) for piece in pieces]
    line, at = np.empty(sum(map(len, parts)), kind), 0
    for piece, part in zip(pieces, parts, strict=True):
        own, table = frozen(part, (numbers + piece.place * groups).astype(kind))
        gather(own, table, 0, line[at : at + len(own)])
        at += len(own)
    return line


def _joined(arrays: Sequence[Array]) -> Array:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


class Sweeping:
    """Windows on their way over the rows, some of them at a time: those of which the answers have room."""

    def __init__(self, sweep: Sweep, asked: Swept, states: Iterable[StateColumn], least: int, most: int) -> None:
        self._sweep, self._asked, self._least = sweep, asked, least
        added = [state for state in states if isinstance(state.partial, WholeNumbers)]
        self._places: dict[StateColumn, range] = {}
        numbers: list[int] = []
        for state in dict.fromkeys([EVENTS, *added]):
            own = sweep.numbers(state)
            self._places[state] = range(len(numbers), len(numbers) + len(own))
            numbers += own
        self._added = np.array(numbers, np.intp)
        self._held = Held.nothing(asked, sweep.size, len(numbers))
        pairs = min(max(most, sweep.size), len(asked.start) * sweep.size)
        self._out = LineSums.room(pairs, len(numbers), sweep.course.lines.dtype)
        self._stacks: dict[StateColumn, Stacks] = {}
        self._count = np.zeros(len(asked.start), np.intp)
        self.windows = slice(0, 0)
        """Those of now."""

    @property
    def is_over(self) -> bool:
        return self.windows.stop == len(self._asked.start)

    def advance(self, skipped: Mask) -> None:
        """To the next windows, but for those that are skipped."""
        first = self.windows.stop
        asked = self._sweep.course, self._asked, skipped.view(np.uint8)
        values = self._sweep.values, self._added
        self._pairs = sweeps.sweep_up(*asked, *values, self._least, self._held, self._count, self._out)
        self.windows = slice(first, int(self._held.place[0]))
        self._sweep.operations += len(self._places) * self._pairs

    @property
    def bounds(self) -> tuple[Times, Times]:
        """From when until when the windows of now are."""
        return self._asked.start[self.windows], self._asked.end[self.windows]

    def pairs(self) -> tuple[WindowPairs, Index]:
        """The windows and the lines of the answers."""
        pairs = slice(self._pairs)
        return WindowPairs.of(self._count[self.windows], self._out.windows[pairs].copy()), self._out.lines[pairs].copy()

    def answer(self, state: StateColumn, pairs: WindowPairs, lines: Index, kept: Index | None) -> State:
        """A state of pairs of a window of now and a line: all that were found, or those of them that are kept."""
        partial = state.partial
        if isinstance(partial, WholeNumbers):
            own = (self._out.sums[at, : self._pairs] for at in self._places[state])
            return tuple(sums.copy() if kept is None else sums[kept] for sums in own)
        fields, _ = self._sweep.extremes(state)
        if state not in self._stacks:
            (identity,) = partial.identity(1)
            self._stacks[state] = Stacks.nothing(identity, self._sweep.size, len(fields[0]))
            self._sweep.operations += len(fields[0])
        first = self.windows.start
        wanted = AskedLines(pairs.before(np.arange(self.windows.stop - first + 1)), lines)
        (found,) = partial.identity(len(lines))
        held, operation = self._stacks[state], OPERATIONS[partial.kind]
        sweeps.combinations(self._sweep.course, self._asked, first, wanted, fields[0], operation, held, found)
        self._sweep.operations += len(lines)
        return (found,)

    def finish(self, state: StateColumn, numbers: State) -> tuple[Vector, ...]:
        """What aggregates take, of states that were answered and perhaps combined."""
        loaded = () if isinstance(state.partial, WholeNumbers) else self._sweep.extremes(state)[1]
        return state.partial.finish(numbers, loaded)


class SweptGroups:
    """Pairs of a window and a line that has a row in it: an `answer_table.WindowGroups`. To be asked before its
    sweeping goes on."""

    def __init__(
        self, sweep: Sweep, grouping: Grouping, sweeping: Sweeping, counted: Mapping[str, CountedRows]
    ) -> None:
        self._sweep, self._grouping, self._sweeping, self._counted = sweep, grouping, sweeping, counted
        self.pairs, self._line = sweeping.pairs()
        self._kept: Index | None = None
        self._states: dict[StateColumn, State] = {}
        self._values: dict[str, CountedRanges] = {}

    def keep(self, index: Index) -> None:
        self.pairs, self._line = self.pairs.kept(index), self._line[index]
        self._kept = index if self._kept is None else self._kept[index]
        self._states = {state: tuple(field[index] for field in own) for state, own in self._states.items()}
        self._values = {}

    def key(self, at: int) -> pa.Array:
        return coded(self._sweep.keys[at], self._line)

    def key_vector(self, at: int) -> Vector:
        return Vector.from_arrow(self._sweep.keys[at], self._grouping.key_types[at]).take(self._line)

    def key_ranks(self, at: int, *, descending: bool, nulls_first: bool) -> npt.NDArray[np.int64]:
        return ranked(self._sweep.keys[at], descending=descending, nulls_first=nulls_first)[self._line]

    def group_ranks(self) -> npt.NDArray[np.int64]:
        """Where HAVING, ORDER BY or LIMIT ask for them, lines stand in the order of their keys."""
        return self._line.astype(np.int64)

    def aggregate(self, aggregate: BoundAggregate) -> Vector:
        if aggregate.values:
            name = self._grouping.counts_of(aggregate)
            return self._counted[name].lower(aggregate, self._counts(name))
        states = [self.finish(state, self.numbers(state)) for state in states_of(aggregate)]
        return aggregate.aggregate.lower(aggregate.argument_type, states)

    def groups(self) -> Index:
        return self._sweep.name(self._line) % self._sweep.groups

    def numbers(self, state: StateColumn) -> State:
        """The state of each pair, which aggregates share (golab 8.3.1, rule CS3)."""
        state = self._sweep.counted_with(state)
        if state not in self._states:
            self._states[state] = self._sweeping.answer(state, self.pairs, self._line, self._kept)
        return self._states[state]

    def finish(self, state: StateColumn, numbers: State) -> tuple[Vector, ...]:
        return self._sweeping.finish(self._sweep.counted_with(state), numbers)

    def _counts(self, name: str) -> CountedRanges:
        """The value counts of each pair, which aggregates over the same values share."""
        if name not in self._values:
            start, end = self._sweeping.bounds
            bounds = self.pairs.spread(start), self.pairs.spread(end)
            self._values[name] = self._counted[name].within(*bounds, self._sweep.name(self._line))
        return self._values[name]
