"""What windows of covered slots hold, combined from what was found in windows of the slots that cover them.

    found        window of slot 1: a 5, b 2     window of slot 2: a 1, c 4          pairs of a window and a group
    links        both are part of window 1 of slot 3
    combined     window 1 of slot 3: a 6, b 2, c 4                                  no row of slot 3 is looked at

Rules CS6 and CS7 of golab 8.3.3: candidates first, and then the query from what they have at its own length.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.aggregates import Invertible
from mullion.aggregates.base import State
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.expressions.arrays import Index, Times
from mullion.expressions.coding.dictionary import coded
from mullion.expressions.vector import Vector
from mullion.lazy import cached_property
from mullion.planner.plan import EVENTS, Grouping, StateColumn, states_of
from mullion.slices.arrange import ranked
from mullion.slices.pairs import WindowPairs
from mullion.slices.rows import SubWindowRows
from mullion.slices.sequence import by_line


class FoundPairs(Protocol):
    """Pairs of a window and a group, and their states as numbers that can still be combined."""

    pairs: WindowPairs

    def groups(self) -> Index:
        """The group of each pair, as the rows number them."""

    def numbers(self, state: StateColumn) -> State: ...

    def finish(self, state: StateColumn, numbers: State) -> tuple[Vector, ...]: ...


class Links(NamedTuple):
    """Window `part[i]` of what was found is part of the covered window `whole[i]`."""

    part: Index
    whole: Index


class _Gathered(NamedTuple):
    """Pairs in the order of what they are combined to."""

    pairs: Index
    starts: Index
    """Where the pairs of one begin."""
    names: Times
    """Covered window * number of groups + group of each; ascending."""

    def states(self, state: StateColumn, numbers: State) -> State:
        return state.partial.reduce(tuple(field[self.pairs] for field in numbers), self.starts)


class CombinedGroups:
    """So many covered windows: an `answer_table.WindowGroups`. To be asked as long as what was found may be."""

    def __init__(
        self, rows: SubWindowRows, grouping: Grouping, found: FoundPairs, windows: int, added: Links, taken: Links
    ) -> None:
        self._rows, self._grouping, self._found = rows, grouping, found
        self._size = max(1, rows.groups[1])
        self._added = self._gathered(added, windows)
        self._taken = self._gathered(taken, windows) if len(taken.part) else None
        self._states: dict[StateColumn, State] = {}
        self.operations = 0
        names, self._kept = self._added.names, np.arange(len(self._added.names))
        if self._taken is not None:
            self._kept = np.flatnonzero(self._numbers(EVENTS)[0])
            names = names[self._kept]
        which, self._group = np.divmod(names, self._size)
        self.pairs = WindowPairs(np.bincount(which, minlength=windows))

    def _gathered(self, links: Links, windows: int) -> _Gathered:
        pairs = self._found.pairs
        first, last = pairs.before(links.part), pairs.before(links.part + 1)
        counts = last - first
        at = np.arange(int(counts.sum())) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        line = np.repeat(links.whole, counts) * self._size + self._found.groups()[at]
        order, starts, names = by_line(line, windows * self._size)
        return _Gathered(at[order], starts[:-1], names)

    def _numbers(self, state: StateColumn) -> State:
        """The state of all that was combined, whether it is kept or not."""
        if state not in self._states:
            numbers = self._found.numbers(state)
            combined = self._added.states(state, numbers)
            self.operations += len(self._added.pairs) + (0 if self._taken is None else len(self._taken.pairs))
            if self._taken is not None:
                partial, at = state.partial, np.searchsorted(self._added.names, self._taken.names)
                assert isinstance(partial, Invertible)
                less = partial.invert(tuple(f[at] for f in combined), self._taken.states(state, numbers))
                for field, values in zip(combined, less, strict=True):
                    field[at] = values
            self._states[state] = combined
        return self._states[state]

    def keep(self, index: Index) -> None:
        self.pairs, self._group, self._kept = self.pairs.kept(index), self._group[index], self._kept[index]

    @cached_property
    def _keys(self) -> list[pa.Array]:
        return [self._rows.values_of_key(i, self._rows.firsts) for i in range(self._rows.group_keys)]

    def key(self, at: int) -> pa.Array:
        return coded(self._keys[at], self._group)

    def key_vector(self, at: int) -> Vector:
        return Vector.from_arrow(self._keys[at], self._grouping.key_types[at]).take(self._group)

    def key_ranks(self, at: int, *, descending: bool, nulls_first: bool) -> npt.NDArray[np.int64]:
        return ranked(self._keys[at], descending=descending, nulls_first=nulls_first)[self._group]

    def group_ranks(self) -> npt.NDArray[np.int64]:
        return self._rows.key_ranks[self._group]

    def aggregate(self, aggregate: BoundAggregate) -> Vector:
        states = [self._state(state) for state in states_of(aggregate)]
        return aggregate.aggregate.lower(aggregate.argument_type, states)

    def _state(self, state: StateColumn) -> tuple[Vector, ...]:
        return self._found.finish(state, tuple(field[self._kept] for field in self._numbers(state)))
