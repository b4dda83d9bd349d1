"""What windows hold, as ranges of a sequence of rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.aggregates.base import State
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.expressions.arrays import Index, Times
from mullion.expressions.vector import Vector
from mullion.lazy import cached_property
from mullion.planner.plan import Grouping, StateColumn, states_of
from mullion.slices.arrange import ranked
from mullion.slices.kernels.ranges import Segments
from mullion.slices.pairs import WindowPairs
from mullion.slices.sequence import RowSequence
from mullion.slices.value_counts import CountedRanges


class RangedGroups:
    """Pairs of a window and a line, and the range of rows of each: an `answer_table.WindowGroups`."""

    def __init__(
        self,
        sequence: RowSequence,
        grouping: Grouping,
        start: Times,
        end: Times,
        pairs: WindowPairs,
        line: Index,
        low: Index,
        high: Index,
    ) -> None:
        self._sequence, self._grouping = sequence, grouping
        self._start, self._end = start, end
        self.pairs, self._line, self._low, self._high = pairs, line, low, high
        self._counted: dict[str, CountedRanges] = {}

    def keep(self, index: Index) -> None:
        self.pairs, self._line = self.pairs.kept(index), self._line[index]
        self._low, self._high = self._low[index], self._high[index]
        self._counted = {}
        self.__dict__.pop("_taken", None)

    @cached_property
    def _taken(self) -> pa.Array:
        return pa.array(self._line)

    def key(self, at: int) -> pa.Array:
        return self._sequence.keys[at].take(self._taken)

    def key_vector(self, at: int) -> Vector:
        return Vector.from_arrow(self._sequence.keys[at], self._grouping.key_types[at]).take(self._line)

    def key_ranks(self, at: int, *, descending: bool, nulls_first: bool) -> npt.NDArray[np.int64]:
        return ranked(self._sequence.keys[at], descending=descending, nulls_first=nulls_first)[self._line]

    def group_ranks(self) -> npt.NDArray[np.int64]:
        return self._sequence.key_rank[self._line]

    def aggregate(self, aggregate: BoundAggregate) -> Vector:
        if aggregate.values:
            name = self._grouping.counts_of(aggregate)
            return self._sequence.counted[name].lower(aggregate, self._values(name))
        states = [self._sequence.answer(state, self._low, self._high) for state in states_of(aggregate)]
        return aggregate.aggregate.lower(aggregate.argument_type, states)

    def groups(self) -> Index:
        return self._sequence.present[self._line] % self._sequence.groups

    def numbers(self, state: StateColumn) -> State:
        return self._sequence.numbers(state, self._low, self._high)

    def finish(self, state: StateColumn, numbers: State) -> tuple[Vector, ...]:
        return self._sequence.finish(state, numbers)

    def _bounds(self) -> tuple[Times, Times]:
        return self.pairs.spread(self._start), self.pairs.spread(self._end)

    def _values(self, name: str) -> CountedRanges:
        """The value counts of each pair, which aggregates over the same values share."""
        if name not in self._counted:
            line = self._sequence.present[self._line]
            self._counted[name] = self._sequence.counted[name].within(*self._bounds(), line)
        return self._counted[name]


class UngroupedWindows(RangedGroups):
    """Windows of queries that group by nothing, whether there is anything in them or not."""

    def _values(self, name: str) -> CountedRanges:
        if name not in self._counted:
            self._counted[name] = self._sequence.counted[name].within(*self._bounds(), self._line)
        return self._counted[name]


def ranged_groups(sequence: RowSequence, grouping: Grouping, asked: Segments, count: Index) -> RangedGroups:
    ranges = sequence.find_pairs(asked, count)
    return RangedGroups(sequence, grouping, asked.start, asked.end, WindowPairs(count), *ranges)


def ungrouped_windows(
    sequence: RowSequence, grouping: Grouping, start: Times, end: Times, slot: Index
) -> UngroupedWindows:
    low, high = sequence.ranges(start, end, slot)
    return UngroupedWindows(sequence, grouping, start, end, WindowPairs(np.ones(len(start), np.intp)), slot, low, high)
