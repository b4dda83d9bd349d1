"""The interval synopsis: a tree of ever longer disjoint intervals."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import Partial, State
from mullion.expressions.arrays import Index
from mullion.slices.base import Synopsis


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
        while len(state[0]) > 1:
            pairs = len(state[0]) // 2 * 2
            state = partial.combine(tuple(f[0:pairs:2] for f in state), tuple(f[1:pairs:2] for f in state))
            self._levels.append(state)
            self.operations += pairs // 2

    def between(self, low: Index, high: Index) -> State:
        answer = self._partial.identity(len(low))
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

    def _take(self, answer: State, level: State, active: Index, at: Index, wanted: npt.NDArray[np.bool_]) -> None:
        rows, nodes = active[wanted], at[wanted]
        self.operations += len(rows)
        combined = self._partial.combine(tuple(f[rows] for f in answer), tuple(f[nodes] for f in level))
        for field, values in zip(answer, combined, strict=True):
            field[rows] = values
