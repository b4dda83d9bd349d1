"""States that cannot be taken out again, while a window slides: two stacks.

    front, built at once          back, one state a line
    | a+b+c+d | b+c+d | c+d | d | e+f+g
                ^ the window begins here: b+c+d with e+f+g

What enters is combined into the back. What leaves moves a place in the front on to the next suffix. When the front is
used up all rows of the window become a new one, which happens once in the time that a window takes to slide past
itself: a row is combined about three times, however long the window is. It is the queue of two stacks, for all groups
side by side, and takes the place of an interval synopsis (golab 2.3.4) where one window is due at a time.
"""

from __future__ import annotations

from math import log2

import numpy as np

from mullion.aggregates.base import Partial, State
from mullion.expressions.arrays import Index, Times
from mullion.slices.kernels.ranges import sort_by_line

STEP, MOVE = 15_000.0, 20.0
"""What a call of `combine` costs, and what a state costs in it: nanoseconds."""


class Front:
    """The rows of a window as it was at one moment, line by line, and for each line the first that is still inside."""

    def __init__(self, lines: Index, times: Times, room: int) -> None:
        by_time: Index | slice = slice(None)
        if (times[1:] < times[:-1]).any():
            by_time = np.argsort(times, kind="stable")
        self._times = times[by_time]
        order, starts = np.empty(len(lines), np.intp), np.empty(room + 1, np.intp)
        sort_by_line(lines[by_time], room, order, starts)
        self._order = np.arange(len(lines))[by_time][order]
        """Rows in the order (line, slice)."""
        self._line = lines[self._order]
        self._at, self._stop = starts[:-1].copy(), starts[1:]
        self._by_time = np.empty(len(lines), np.intp)
        self._by_time[order] = np.arange(len(lines))
        self._left = 0

    @property
    def size(self) -> int:
        """Bytes that its order takes."""
        arrays = self._times, self._order, self._line, self._by_time, self._at, self._stop
        return sum(array.nbytes for array in arrays)

    def leave(self, until: int) -> None:
        """Rows before `until` are not inside any more."""
        left = int(np.searchsorted(self._times, until))
        np.add.at(self._at, self._line[self._by_time[self._left : left]], 1)
        self._left = left

    def inside(self, lines: Index) -> tuple[Index, Index]:
        """Which of these lines have a row inside, and the first of these rows."""
        known = np.flatnonzero(lines < len(self._at))
        at = self._at[lines[known]]
        there = at < self._stop[lines[known]]
        return known[there], at[there]

    def suffixes(self, partial: Partial, state: State) -> tuple[State, int]:
        """For each row the combination from it on to the last of its line, and how many states were combined."""
        fields = tuple(np.array(field[self._order]) for field in state)
        if not len(self._order):
            return fields, 0
        rest = self._stop[self._line] - 1 - np.arange(len(self._line))
        depth = int(rest.max())
        if partial.is_heavy or STEP * depth < MOVE * len(rest) * log2(depth + 1):
            return fields, _one_by_one(partial, fields, rest)
        return fields, _doubling(partial, fields, rest, depth)


def _one_by_one(partial: Partial, fields: State, rest: Index) -> int:
    """The last rows of all lines, those before them, and so on."""
    order = np.argsort(rest, kind="stable")
    bounds = np.cumsum(np.bincount(rest))
    for low, high in zip(bounds.tolist(), bounds[1:].tolist(), strict=False):
        _combine_into(partial, fields, order[low:high], order[low:high] + 1)
    return len(rest) - int(bounds[0])


def _doubling(partial: Partial, fields: State, rest: Index, depth: int) -> int:
    """Twice as many neighbours each time: few calls where lines are long."""
    step = combined = 1
    while step <= depth:
        rows = np.flatnonzero(rest >= step)
        _combine_into(partial, fields, rows, rows + step)
        combined += len(rows)
        step *= 2
    return combined


def _combine_into(partial: Partial, fields: State, rows: Index, others: Index) -> None:
    combined = partial.combine(tuple(f[rows] for f in fields), tuple(f[others] for f in fields))
    for field, values in zip(fields, combined, strict=True):
        field[rows] = values


def wider(partial: Partial, state: State, size: int) -> State:
    """The states with room for at least `size` of them, the identity in what is new."""
    more = size - len(state[0])
    if more <= 0:
        return state
    room = partial.identity(max(more, len(state[0]), 16))
    return tuple(np.concatenate(pair) for pair in zip(state, room, strict=True))
