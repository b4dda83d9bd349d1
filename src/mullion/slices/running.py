"""The running synopsis: prefixes, subtracted."""

from __future__ import annotations

import numpy as np

from mullion.aggregates.base import Invertible, Partial, State
from mullion.aggregates.integer_states import WholeNumbers
from mullion.expressions.arrays import Array, Index
from mullion.slices.base import Synopsis
from mullion.slices.kernels.ranges import differences, prefixes


class Running(Synopsis):
    """All prefixes of the sequence; a window is the difference of two (golab 2.3.4, Figure 2.5).

    Requires: an exact inverse. Refuses partials without one.
    Time: O(n) to build, O(1) a window, whatever its length.
    Space: O(n).

    >>> import numpy as np
    >>> from mullion.aggregates.count import Count
    >>> from mullion.language.types import INT
    >>> Running(Count(INT), (np.array([3, 1, 4, 1, 5]),)).between(np.array([0, 1]), np.array([5, 3]))[0].tolist()
    [14, 5]
    """

    name = "running"

    def __init__(self, partial: Partial, state: State) -> None:
        if not isinstance(partial, Invertible):
            raise TypeError(f"a running synopsis needs an inverse, and {partial.kind} has none")
        self._partial = partial
        self._prefixes = partial.accumulate(state)
        self.operations = len(state[0])

    @staticmethod
    def of_rows(partial: WholeNumbers, state: State, order: Index) -> Running:
        """Over the states of rows in another order."""
        found = Running(partial, partial.identity(0))
        found._prefixes = tuple(_prefixes(np.ascontiguousarray(field), order) for field in partial.narrowed(state))
        found.operations = len(order)
        return found

    def between(self, low: Index, high: Index) -> State:
        self.operations += len(low)
        if isinstance(self._partial, WholeNumbers):
            return tuple(_differences(field, low, high) for field in self._prefixes)
        high = high.clip(low)
        return self._partial.invert(
            tuple(field[high] for field in self._prefixes), tuple(field[low] for field in self._prefixes)
        )


def _prefixes(values: Array, order: Index) -> Array:
    out = np.empty(len(order) + 1, np.int64)
    prefixes(values, order, out)
    return out


def _differences(prefixes: Array, low: Index, high: Index) -> Array:
    out = np.empty(len(low), np.int64)
    differences(prefixes, low, high, out)
    return out
