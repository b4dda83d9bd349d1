"""The interval synopsis: a tree of ever longer disjoint intervals."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import Partial, State
from mullion.aggregates.exact_sums import Residue
from mullion.aggregates.extremes import Largest, Smallest
from mullion.expressions.arrays import Array, Index
from mullion.lazy import cached_property
from mullion.slices.base import Synopsis
from mullion.slices.kernels.ranges import ADD, LEAST, MOST, over_ranges

OPERATIONS = {Residue.kind: ADD, Smallest.kind: LEAST, Largest.kind: MOST}
"""The states of one field that are added, or of which the least or the most is kept."""


class Interval(Synopsis):
    """States over disjoint intervals of 1, 2, 4, .. neighbours; a window takes at most two of each length
    (golab 2.3.4, Figure 2.5).

        length 4   |       a+b+c+d       |       e+f+g+h       |
        length 2   |   a+b    |   c+d    |   e+f    |   g+h    |
        length 1   | a  |  b  | c  |  d  | e  |  f  | g  |  h  |
                        [b][  c+d  ][   e+f   ][ g ]                 the window b..g takes 4, not 6

    Requires: an associative, commutative combine. Accepts every partial.
    Time: O(n) to build, O(log w) for a window of w states, all windows of one call together.
    Space: 2n.

    >>> import numpy as np
    >>> from mullion.aggregates.extremes import Largest
    >>> from mullion.language.types import INT
    >>> Interval(Largest(INT), (np.array([3, 1, 4, 1, 5]),)).between(np.array([0, 1]), np.array([5, 3]))[0].tolist()
    [5, 4]
    """

    name = "interval"

    def __init__(self, partial: Partial, state: State) -> None:
        self._partial = partial
        self._levels = [state]
        self.operations = 0
        self._grow()

    def _grow(self) -> None:
        """Build the intervals above the states."""
        partial, (state,) = self._partial, self._levels
        while len(state[0]) > 1:
            pairs = len(state[0]) // 2 * 2
            state = partial.combine(tuple(f[0:pairs:2] for f in state), tuple(f[1:pairs:2] for f in state))
            self._levels.append(state)
            self.operations += pairs // 2

    def between(self, low: Index, high: Index) -> State:
        answer = self._partial.identity(len(low))
        if self._operation is not None and len(answer) == 1:
            nodes, first = self._tree
            self.operations += over_ranges(nodes, first, self._operation, low, high, answer[0])
            return answer
        active = np.flatnonzero(low < high)
        low, high = low[active], high[active]
        for level in self._levels:
            if not len(active):
                break
            self._take(answer, level, active, low, (low & 1).astype(np.bool_))
            self._take(answer, level, active, high - 1, (high & 1).astype(np.bool_))
            low, high = (low + 1) >> 1, high >> 1
            going = low < high
            active, low, high = active[going], low[going], high[going]
        return answer

    @property
    def _operation(self) -> int | None:
        """What a compiled loop does with two states, if it can."""
        return OPERATIONS.get(self._partial.kind) if self._partial.is_dense else None

    @cached_property
    def _tree(self) -> tuple[Array, Index]:
        """All levels one after the other, and where each begins."""
        sizes = [len(level[0]) for level in self._levels]
        return np.concatenate([level[0] for level in self._levels]), np.cumsum([0, *sizes[:-1]])

    def _take(self, answer: State, level: State, active: Index, at: Index, wanted: npt.NDArray[np.bool_]) -> None:
        rows, nodes = active[wanted], at[wanted]
        self.operations += len(rows)
        combined = self._partial.combine(tuple(f[rows] for f in answer), tuple(f[nodes] for f in level))
        for field, values in zip(answer, combined, strict=True):
            field[rows] = values
