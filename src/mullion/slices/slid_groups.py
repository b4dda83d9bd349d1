"""What windows that were kept hold, group by group, as answers are made of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.aggregates.values import OverValues, values_of_numbers
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.expressions.arrays import Array, Index
from mullion.expressions.coding.dictionary import coded
from mullion.expressions.vector import Vector
from mullion.lazy import cached_property
from mullion.planner.plan import Grouping, StateColumn, states_of
from mullion.slices.arrange import rank_of_keys, ranked
from mullion.slices.group_states import GroupStates
from mullion.slices.numbered_values import finish_numbered
from mullion.slices.pairs import WindowPairs
from mullion.slices.sorted_counts import SortedCounts


class SlidGroups:
    """The groups of some windows: an `answer_table.WindowGroups`."""

    def __init__(self, grouping: Grouping, groups: Sequence[GroupStates]) -> None:
        self._grouping, self._groups = grouping, groups
        self.pairs = WindowPairs(np.array([len(own.at) for own in groups], np.intp))
        self._kept: Index | None = None
        """The pairs that are left; None for all."""

    def keep(self, index: Index) -> None:
        self.pairs = self.pairs.kept(index)
        self._kept = index if self._kept is None else self._kept[index]

    @cached_property
    def _keys(self) -> tuple[list[pa.Array], Index]:
        """The keys of all groups, and where each pair stands among them. Windows that slid together have theirs in
        common."""
        tables = {id(own.keys): own.keys for own in self._groups}
        begins = dict(zip(tables, np.cumsum([0, *map(len, tables.values())]).tolist(), strict=False))
        at = np.concatenate([own.at + begins[id(own.keys)] for own in self._groups])
        return [column.combine_chunks() for column in pa.concat_tables(tables.values()).columns], at

    @property
    def _at(self) -> Index:
        return self._left(self._keys[1])

    def _left(self, column: Array) -> Array:
        return column if self._kept is None else column[self._kept]

    def key(self, at: int) -> pa.Array:
        return coded(self._keys[0][at], self._at)

    def key_vector(self, at: int) -> Vector:
        return Vector.from_arrow(self._keys[0][at], self._grouping.key_types[at]).take(self._at)

    def key_ranks(self, at: int, *, descending: bool, nulls_first: bool) -> npt.NDArray[np.int64]:
        return ranked(self._keys[0][at], descending=descending, nulls_first=nulls_first)[self._at]

    def group_ranks(self) -> npt.NDArray[np.int64]:
        keys, _ = self._keys
        return rank_of_keys(keys, len(keys[0]) if keys else 0)[self._at] if keys else np.zeros(len(self._at), np.int64)

    def aggregate(self, aggregate: BoundAggregate) -> Vector:
        if aggregate.values:
            return self._of_values(aggregate)
        states = [self._state(state) for state in states_of(aggregate)]
        return aggregate.aggregate.lower(aggregate.argument_type, states)

    def _of_values(self, aggregate: BoundAggregate) -> Vector:
        """From value counts. Windows that slid together have their cells in common."""
        assert isinstance(aggregate.aggregate, OverValues) and aggregate.argument_type is not None
        name = self._grouping.counts_of(aggregate)
        counts = [own.counts[name] for own in self._groups]
        parts = {id(own.times): own for own in counts}
        begins = dict(zip(parts, np.cumsum([0, *(len(own.value) for own in parts.values())]).tolist(), strict=False))
        low, high = (
            self._left(np.concatenate([getattr(own, bound) + begins[id(own.times)] for own in counts]))
            for bound in ("low", "high")
        )
        value, count = (np.concatenate([getattr(own, field) for own in parts.values()]) for field in ("value", "times"))
        values = values_of_numbers(value, [type_ for _, type_ in aggregate.values])
        return aggregate.aggregate.lower_counts(aggregate.argument_type, values, SortedCounts(count, low, high))

    def _state(self, state: StateColumn) -> tuple[Vector, ...]:
        fields = zip(*(group.states[state] for group in self._groups), strict=True)
        whole = tuple(self._left(np.concatenate(field)) for field in fields)
        return finish_numbered(state.partial, whole) if state.partial.is_numbered else state.partial.finish(whole, ())
