"""One window, in one pass over its rows: what a question asks for.

Nothing is left for a next window, so there is neither a synopsis nor a sweep: rows come together by group, and each
state is reduced once. That is a third of the work where the rows are few, as those of sub-windows are.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.expressions.arrays import Index
from mullion.expressions.coding.dictionary import runs
from mullion.expressions.vector import Vector
from mullion.lazy import cached_property
from mullion.planner.plan import Grouping, StateColumn, states_of
from mullion.slices.arrange import rank_of_keys, ranked
from mullion.slices.pairs import WindowPairs
from mullion.slices.rows import SubWindowRows


class OneWindow:
    """The groups that have a row in [start, end) of the only query of a grouping, or all rows as one where nothing is
    grouped by: an `answer_table.WindowGroups`.

    Requires: no aggregate is computed from counted values.
    Time: O(n log n) for n rows, O(n) where they are grouped by nothing.
    """

    def __init__(self, rows: SubWindowRows, grouping: Grouping, start: int, end: int) -> None:
        self._rows, self._grouping = rows, grouping
        chosen, _ = rows.members({grouping.slot_names[grouping.slot_of[0]]: 0})
        slices = rows.slices[chosen]
        inside = (slices >= start) & (slices < end)
        self._chosen = chosen if inside.all() else chosen[inside]
        self._starts: Index = np.zeros(1, np.intp)
        if grouping.keys:
            order, self._starts = runs(rows.groups[0][self._chosen])
            self._chosen = self._chosen[order]
        self.pairs = WindowPairs(np.array([len(self._starts)]))
        self._kept: Index | None = None
        self._states: dict[StateColumn, tuple[Vector, ...]] = {}

    def keep(self, index: Index) -> None:
        self.pairs = self.pairs.kept(index)
        self._kept = index if self._kept is None else self._kept[index]

    @cached_property
    def _keys(self) -> list[pa.Array]:
        """The keys of each group."""
        firsts = self._chosen[self._starts]
        return [self._rows.values_of_key(i, firsts) for i in range(self._rows.group_keys)]

    def key(self, at: int) -> pa.Array:
        return self._keys[at] if self._kept is None else self._keys[at].take(pa.array(self._kept))

    def key_vector(self, at: int) -> Vector:
        return Vector.from_arrow(self.key(at), self._grouping.key_types[at])

    def key_ranks(self, at: int, *, descending: bool, nulls_first: bool) -> npt.NDArray[np.int64]:
        return ranked(self.key(at), descending=descending, nulls_first=nulls_first)

    def group_ranks(self) -> npt.NDArray[np.int64]:
        return rank_of_keys([self.key(i) for i in range(self._rows.group_keys)], len(self.pairs))

    def aggregate(self, aggregate: BoundAggregate) -> Vector:
        states = [self._state(state) for state in states_of(aggregate)]
        lowered = aggregate.aggregate.lower(aggregate.argument_type, states)
        return lowered if self._kept is None else lowered.take(self._kept)

    def _state(self, state: StateColumn) -> tuple[Vector, ...]:
        """The state of each group, which aggregates share (golab 8.3.1, rule CS3)."""
        if state not in self._states:
            stored, partial = tuple(v.take(self._chosen) for v in self._rows.state(state)), state.partial
            has_rows = len(self._chosen) > 0
            found = partial.reduce(partial.load(stored), self._starts) if has_rows else partial.identity(1)
            self._states[state] = partial.finish(found, stored)
        return self._states[state]
