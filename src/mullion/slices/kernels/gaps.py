"""Events between the windows of hopping queries: they answer nothing, and leave before anything is aggregated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mullion.expressions.arrays import Mask, Times
from mullion.language.query import Period
from mullion.planner.slices import is_inside
from mullion.slices.kernels.own_slices import SelectionMask
from mullion.slices.kernels.slicing import Cut


def within_windows(windows: Sequence[Period], cut: Cut, selected: SelectionMask) -> SelectionMask:
    """The selected events that lie in a window; all of them where no windows are given.

    Time: O(s) for s slices, and O(n) for n events where some lie in a window and others do not. Requires: the cut has
    all edges of the windows.

    >>> cut = Cut(np.array([0, 4, 7]), np.array([0, 2, 3, 4]))
    >>> within_windows([Period(3, 7)], cut, True).tolist()
    [0, 0, 1, 0]
    """
    if not windows or selected is False:
        return selected
    inside = is_inside(cut.starts, windows)
    if inside.all():
        return selected
    if not inside.any():
        return False
    events = np.repeat(inside.view(np.uint8), cut.lengths)
    return events if selected is True else events & selected


def rows_within(hopping: Sequence[Sequence[Period]], slot: Times, slices: Times) -> Mask:
    """Which rows, each of a slot and a slice of its own, lie in a window of their slot; all where it has none.

    >>> rows_within([[Period(3, 7)], []], np.array([0, 0, 1]), np.array([0, 4, 0])).tolist()
    [False, True, True]
    """
    inside = np.array([not windows for windows in hopping], np.bool_)[slot]
    for at in range(max(map(len, hopping), default=0)):
        # No window of a length of 0 holds anything.
        own = np.array([windows[at] if at < len(windows) else Period(0, 1) for windows in hopping], np.int64)
        range_, slide, offset = own[slot].T
        inside |= (slices - offset) % slide >= slide - range_
    return inside
