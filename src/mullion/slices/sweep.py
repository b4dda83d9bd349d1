"""Windows swept over the rows of their slots in the order of time, and what they hold.

Pays where few queries read the rows of a slot: each of them goes over all rows that its windows hold, but nothing is
sorted, and nothing is looked up. Many windows over the same rows are ranges of a `sequence`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.aggregates.base import State
from mullion.aggregates.integer_states import WholeNumbers
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.expressions.arrays import Array, Index, Times
from mullion.expressions.coding.dictionary import coded
from mullion.expressions.vector import Vector
from mullion.planner.plan import Grouping, StateColumn, states_of
from mullion.planner.sliced import AnswerTemplate
from mullion.slices.arrange import rank_of_keys, ranked
from mullion.slices.interval import OPERATIONS
from mullion.slices.kernels import ranges, sweeps
from mullion.slices.kernels.row_loops import first_of_each
from mullion.slices.kernels.sweeps import Course, Swept, Wanted
from mullion.slices.pairs import Pairs
from mullion.slices.rows import Rows
from mullion.slices.sequence import SPARSE, CountedRows, counted_with, first_of_segments
from mullion.slices.value_counts import Counted

DENSE = 8
"""Up to so many lines for each that a window has, all of them are looked at."""


def can_sweep(template: AnswerTemplate) -> bool:
    """Whether its states are numbers that are added, or of which the least or the most is kept."""
    own = [aggregate for aggregate in template.aggregates if not aggregate.values]
    return all(_is_swept(state) for aggregate in own for state in states_of(aggregate))


def _is_swept(state: StateColumn) -> bool:
    partial = state.partial
    return isinstance(partial, WholeNumbers) or (partial.is_dense and partial.kind in OPERATIONS)


@dataclass
class Sweep:
    """The rows of some slots in the order (slot, slice).

    Requires: states of numbers that are added, or of which the least or the most is kept.
    Time: O(rows + answers) for each query and state. Space: a number for each line, and the answers.
    """

    rows: Rows
    chosen: Index | None
    """These rows; None where all stand as they are asked for."""
    course: Course
    bounds: Index
    """The rows of slot s are bounds[s] to bounds[s + 1]."""
    groups: int
    names: npt.NDArray[np.int64] | None
    """slot * number of groups + group of each line, ascending; None where lines are numbered so."""
    size: int
    """How many lines there are."""
    loaded: dict[StateColumn, tuple[State, tuple[Vector, ...]]] = field(default_factory=dict)
    same: dict[StateColumn, StateColumn] = field(default_factory=dict)
    operations: int = 0

    @staticmethod
    def of(rows: Rows, grouping: Grouping, slots: Index) -> Sweep:
        group, groups = rows.groups
        groups = max(1, groups)
        names, last = grouping.slot_names, int(slots.max(initial=0))
        if len(slots) == 1 and rows.are_all_of(names[last]):
            bounds = np.array([0] * (last + 1) + [len(rows)], np.intp)
            if ranges.is_in_order(rows.slices, bounds):
                return Sweep._over(rows, None, rows.slices, bounds, groups, group + last * groups if last else group)
        chosen, slot = rows.members({names[i]: int(i) for i in slots})
        order, bounds = np.empty(len(slot), np.intp), np.empty(last + 2, np.intp)
        ranges.sort_by_line(slot, last + 1, order, bounds)
        if not ranges.is_in_order(rows.slices[chosen[order]], bounds):
            order = np.lexsort((rows.slices[chosen], slot))
        chosen, slot = chosen[order], slot[order]
        return Sweep._over(rows, chosen, rows.slices[chosen], bounds, groups, slot * groups + group[chosen])

    @staticmethod
    def _over(rows: Rows, chosen: Index | None, times: Times, bounds: Index, groups: int, line: Array) -> Sweep:
        size, names = (len(bounds) - 1) * groups, None
        if size > SPARSE * len(line) + 1024:
            names, line = np.unique(line, return_inverse=True)
            size = len(names)
        line = line.astype(np.int32 if size < np.iinfo(np.int32).max else np.int64, copy=False)
        return Sweep(rows, chosen, Course(_fixed(times), _fixed(line)), bounds, groups, names, size)

    def segments(self, slot: Index, start: Times, end: Times) -> Swept:
        """Windows, each of a slot, as they are swept."""
        first = first_of_segments(slot, start, end)
        slots = np.stack([slot[first[:-1]], slot[first[:-1]] + 1])
        lines = slots * self.groups if self.names is None else np.searchsorted(self.names, slots * self.groups)
        return Swept(first, self.bounds[slots], lines, start, end)

    def count(self, asked: Swept) -> Index:
        """How many lines have a row in each window."""
        count = np.zeros(len(asked.start), np.intp)
        sweeps.count_lines(self.course, asked, self._room(np.int32), count)
        return count

    def find(self, asked: Swept, count: Index) -> Index:
        """These lines, window by window."""
        number = int(count.sum())
        out = np.empty(number + 1, self.course.lines.dtype)
        looked_at = int((np.diff(asked.lines, axis=0)[0] * np.diff(asked.bounds)).sum())
        if looked_at <= DENSE * number:
            sweeps.find_lines(self.course, asked, self._room(np.int32), out)
        else:
            place = np.empty(self.size, np.int32)
            sweeps.find_few_lines(self.course, asked, self._room(np.int32), place, out)
        return out[:number]

    def _room(self, dtype: npt.DTypeLike) -> Array:
        return np.zeros(self.size, dtype)

    def answer(self, state: StateColumn, asked: Swept, wanted: Wanted) -> tuple[Vector, ...]:
        """A state of each pair of a window and a line."""
        partial = state.partial
        fields, stored = self._loaded(state)
        pairs = len(wanted.lines)
        self.operations += len(self.course.times) + pairs
        if isinstance(partial, WholeNumbers):
            found: State = tuple(np.empty(pairs, np.int64) for _ in fields)
            for values, out in zip(fields, found, strict=True):
                sweeps.sums(self.course, asked, wanted, values, self._room(np.int64), out)
            return partial.finish(found, ())
        found = partial.identity(pairs)
        (front,), (back,), operation = partial.identity(self.size), partial.identity(self.size), partial.kind
        sweeps.combinations(self.course, asked, wanted, fields[0], OPERATIONS[operation], front, back, found[0])
        return partial.finish(found, stored)

    def _loaded(self, state: StateColumn) -> tuple[State, tuple[Vector, ...]]:
        """The state of each row, and as it was stored."""
        if state not in self.loaded:
            partial, stored = state.partial, self.rows.state(state)
            if isinstance(partial, WholeNumbers):
                fields = partial.narrowed(partial.load(stored))
                fields = fields if self.chosen is None else tuple(values[self.chosen] for values in fields)
                stored = ()
            else:
                stored = stored if self.chosen is None else tuple(v.take(self.chosen) for v in stored)
                fields = partial.load(stored)
            self.loaded[state] = tuple(_fixed(values) for values in fields), stored
        return self.loaded[state]

    def counted_with(self, state: StateColumn) -> StateColumn:
        return counted_with(state, self.rows, self.same)

    def name(self, lines: Index) -> Times:
        """slot * number of groups + group."""
        return lines.astype(np.int64) if self.names is None else self.names[lines]

    @cached_property
    def keys(self) -> list[pa.Array]:
        """The keys of each line; those of any row, where a line has none."""
        first = np.zeros(self.size, np.int64)
        first_of_each(self.course.lines, first)
        chosen = first if self.chosen is None else self.chosen[first]
        return [self.rows.values_of_key(i, chosen) for i in range(self.rows.group_keys)]

    @cached_property
    def key_rank(self) -> npt.NDArray[np.int64]:
        """The rank of each line by its keys, to order answers by."""
        return rank_of_keys(self.keys, self.size)


def _fixed(values: Array) -> Array:
    """Read-only, as columns of sub-windows are, so that the loops are compiled once."""
    plain = np.ascontiguousarray(values).view()
    plain.flags.writeable = False
    return plain


class FoundSwept:
    """Pairs of a window and a line that has a row in it: an `answer_table.Found`."""

    def __init__(
        self,
        sweep: Sweep,
        grouping: Grouping,
        asked: Swept,
        count: Index,
        counted: Mapping[str, CountedRows],
    ) -> None:
        self._sweep, self._grouping, self._asked, self._counted = sweep, grouping, asked, counted
        self.pairs, self._line = Pairs(count), sweep.find(asked, count)
        self._states: dict[StateColumn, tuple[Vector, ...]] = {}
        self._values: dict[str, Counted] = {}

    def keep(self, index: Index) -> None:
        self.pairs, self._line = self.pairs.kept(index), self._line[index]
        self._states, self._values = {}, {}

    def key(self, at: int) -> pa.Array:
        return coded(self._sweep.keys[at], self._line)

    def key_vector(self, at: int) -> Vector:
        return Vector.from_arrow(self._sweep.keys[at], self._grouping.key_types[at]).take(self._line)

    def key_ranks(self, at: int, *, descending: bool, nulls_first: bool) -> npt.NDArray[np.int64]:
        return ranked(self._sweep.keys[at], descending=descending, nulls_first=nulls_first)[self._line]

    def group_ranks(self) -> npt.NDArray[np.int64]:
        return self._sweep.key_rank[self._line]

    def aggregate(self, aggregate: BoundAggregate) -> Vector:
        if aggregate.values:
            name = self._grouping.counts_of(aggregate)
            return self._counted[name].lower(aggregate, self._counts(name))
        return aggregate.aggregate.lower(aggregate.argument_type, [self._state(s) for s in states_of(aggregate)])

    def _state(self, state: StateColumn) -> tuple[Vector, ...]:
        """The state of each pair, which aggregates share (golab 8.3.1, rule CS3)."""
        state = self._sweep.counted_with(state)
        if state not in self._states:
            first = self.pairs.before(np.arange(len(self._asked.start) + 1))
            self._states[state] = self._sweep.answer(state, self._asked, Wanted(first, self._line))
        return self._states[state]

    def _counts(self, name: str) -> Counted:
        """The value counts of each pair, which aggregates over the same values share."""
        if name not in self._values:
            bounds = self.pairs.spread(self._asked.start), self.pairs.spread(self._asked.end)
            self._values[name] = self._counted[name].within(*bounds, self._sweep.name(self._line))
        return self._values[name]


__all__ = ["FoundSwept", "Sweep", "can_sweep"]
