"""What windows that were kept hold, group by group, as answers are made of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.expressions.arrays import Array, Index
from mullion.expressions.coding.dictionary import coded
from mullion.expressions.vector import Vector
from mullion.lazy import cached_property
from mullion.planner.plan import Grouping, StateColumn, states_of
from mullion.slices.arrange import rank_of_keys, ranked
from mullion.slices.kept_window import GroupStates
from mullion.slices.numbered_values import finish_numbered
from mullion.slices.pairs import Pairs


class SlidGroups:
    """The groups of some windows: an `answer_table.WindowGroups`."""

    def __init__(self, grouping: Grouping, groups: Sequence[GroupStates]) -> None:
        self._grouping, self._groups = grouping, groups
        self.pairs = Pairs(np.array([len(own.at) for own in groups], np.intp))
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
        states = [self._state(state) for state in states_of(aggregate)]
        return aggregate.aggregate.lower(aggregate.argument_type, states)

    def _state(self, state: StateColumn) -> tuple[Vector, ...]:
        fields = zip(*(group.states[state] for group in self._groups), strict=True)
        whole = tuple(self._left(np.concatenate(field)) for field in fields)
        return finish_numbered(state.partial, whole) if state.partial.is_numbered else state.partial.finish(whole, ())
