"""The folded synopsis: a tree of intervals for states that are costly to combine two by two."""

from __future__ import annotations

import numpy as np

from mullion.aggregates.base import State
from mullion.expressions.arrays import Index
from mullion.slices.interval import Interval


class Folded(Interval):
    """The intervals of each window are looked up first and taken together in one go (golab 2.3.4, Figure 2.5).

        window b..g of the tree       c+d | e+f | b | g     ->  one state that takes in all four
        the same, two by two          ((b + c+d) + g) + e+f     three states are made, two of them for nothing

    A sketch takes in another in a few microseconds; making a new one of two takes several times that. Equal windows,
    of whatever queries, are taken together once.

    Requires: an associative, commutative combine. Accepts every partial; pays for those that are heavy.
    Time: O(n) to build, O(log w) for a window of w states, all windows of one call together.
    Space: 2n, and O(log w) references a window.

    >>> import numpy as np
    >>> from mullion.aggregates.extremes import Largest
    >>> from mullion.language.types import INT
    >>> Folded(Largest(INT), (np.array([3, 1, 4, 1, 5]),)).between(np.array([0, 1]), np.array([5, 3]))[0].tolist()
    [5, 4]
    """

    name = "folded"

    def between(self, low: Index, high: Index) -> State:
        answer = self._partial.identity(len(low))
        active = np.flatnonzero(low < high)
        if not len(active):
            return answer
        length = len(self._levels[0][0]) + 1
        ranges, which = np.unique(low[active] * length + high[active], return_inverse=True)
        window, node = self._nodes(*np.divmod(ranges, length))
        self.operations += len(node) - len(ranges)
        starts = np.flatnonzero(np.concatenate([[True], window[1:] != window[:-1]]))
        nodes = (np.concatenate([level[i] for level in self._levels])[node] for i in range(len(answer)))
        folded = self._partial.reduce(tuple(nodes), starts)
        for field, values in zip(answer, folded, strict=True):
            field[active] = values[which.reshape(-1)]
        return answer

    def _nodes(self, low: Index, high: Index) -> tuple[Index, Index]:
        """Pairs of a range and a node that it takes, by range, the longest interval first. Nodes are numbered through
        all levels."""
        active, before = np.arange(len(low)), 0
        windows, nodes = [], []
        for level in self._levels:
            for at, wanted in ((low, low & 1), (high - 1, high & 1)):
                chosen = wanted.astype(np.bool_)
                windows.append(active[chosen])
                nodes.append(at[chosen] + before)
            before += len(level[0])
            low, high = (low + 1) >> 1, high >> 1
            going = low < high
            active, low, high = active[going], low[going], high[going]
        window, node = np.concatenate(windows[::-1]), np.concatenate(nodes[::-1])
        order = np.argsort(window, kind="stable")
        return window[order], node[order]
