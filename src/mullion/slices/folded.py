"""The folded synopsis: a tree of intervals for states that are costly to combine two by two."""

from __future__ import annotations

import numpy as np

from mullion.aggregates.base import Partial, State
from mullion.expressions.arrays import Index
from mullion.slices.interval import Interval

WORTH = 2
"""Intervals are made when windows have looked at so many times the states that there are."""


class Folded(Interval):
    """The intervals of each window are looked up first and taken together in one go (golab 2.3.4, Figure 2.5).

        window b..g of the tree       c+d | e+f | b | g     ->  one state that takes in all four
        the same, two by two          ((b + c+d) + g) + e+f     three states are made, two of them for nothing

    A sketch takes in another in a few microseconds; making a new one of two takes several times that. Equal windows,
    of whatever queries, are taken together once.

    Requires: an associative, commutative combine. Accepts every partial; pays for those that are heavy.
    Time: nothing to build for the first windows, as long as they have 2n states together; then O(n) to build, and
    O(log w) for a window of w states, all windows of one call together.
    Space: 2n when built, and O(log w) references a window.

    >>> import numpy as np
    >>> from mullion.aggregates.extremes import Largest
    >>> from mullion.language.types import INT
    >>> Folded(Largest(INT), (np.array([3, 1, 4, 1, 5]),)).between(np.array([0, 1]), np.array([5, 3]))[0].tolist()
    [5, 4]
    """

    name = "folded"

    def __init__(self, partial: Partial, state: State) -> None:
        self._partial = partial
        self._levels = [state]
        self.operations = self._looked_at = 0

    def between(self, low: Index, high: Index) -> State:
        answer = self._partial.identity(len(low))
        active = np.flatnonzero(low < high)
        if not len(active):
            return answer
        length = len(self._levels[0][0]) + 1
        # Places may be narrow numbers, whose product would not fit.
        asked = low[active].astype(np.int64) * length + high[active]
        ranges, which = np.unique(asked, return_inverse=True)
        window, node = self._looked_up(*np.divmod(ranges, length))
        self.operations += len(node) - len(ranges)
        starts = np.flatnonzero(np.concatenate([[True], window[1:] != window[:-1]]))
        nodes = (np.concatenate([level[i] for level in self._levels])[node] for i in range(len(answer)))
        folded = self._partial.reduce(tuple(nodes), starts)
        for field, values in zip(answer, folded, strict=True):
            field[active] = values[which.reshape(-1)]
        return answer

    def _looked_up(self, low: Index, high: Index) -> tuple[Index, Index]:
        """Pairs of a range and a node that it takes: single states, until intervals are worth their making."""
        if len(self._levels) == 1:
            size = high - low
            self._looked_at += int(size.sum())
            if self._looked_at <= WORTH * len(self._levels[0][0]):
                first = np.repeat(low - (np.cumsum(size) - size), size)
                return np.repeat(np.arange(len(low)), size), first + np.arange(len(first))
            self._grow()
        return self._nodes(low, high)

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
