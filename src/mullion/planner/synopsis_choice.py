"""What it takes to probe a synopsis of intervals: window by window through a tree, or on one walk for each end.

The paper counts intervals that are accessed: about log2 b for a window of b through the tree, b for a walk that answers
every window of an end. So a walk pays from b / log2 b windows of an end on (golab 8.3.1, 8.4.4). What counts here is
time, which also knows that windows have to be ordered before a walk. The constants are measured, in accesses of the
tree (`docs/decisions/0015-synopses.md`).
"""

from __future__ import annotations

from math import ceil, log2
from typing import NamedTuple

import numpy as np

from mullion.aggregates import Partial
from mullion.expressions.arrays import Index

TREE = 0.9
"""A window of b takes so many times log2 b accesses of the tree."""
STEP = 600.0
"""A stop at which all walks of a call halt together."""


class Walking(NamedTuple):
    """What a walk takes."""

    ordered: float
    """A window that is given its place in the walk."""
    walked: float
    """An interval that is looked at."""


QUICK, SLOW = Walking(5.0, 0.7), Walking(2.5, 1.5)
"""For states that are added or compared, and for those that take more: beside them, ordering is little."""

LEAST_WINDOWS = 1024
"""Fewer windows in a call are not worth the question."""
LEAST_TOGETHER = 16
"""Fewer windows of an end never pay for a walk, whatever they are."""


def fewest_by_accesses(intervals: int) -> int:
    """From how many windows of an end on a walk over b intervals takes fewer accesses than the tree: b / log2 b.

    >>> fewest_by_accesses(8), fewest_by_accesses(360), fewest_by_accesses(2400)
    (3, 43, 214)
    """
    return ceil(intervals / log2(intervals)) if intervals > 2 else intervals


def fewest_by_time(intervals: int, partial: Partial) -> int | None:
    """From how many on it takes less time; None where it never does, since ordering windows takes longer than a tree
    that is so low."""
    walking = _walking(partial)
    gained = TREE * log2(max(1, intervals)) - walking.ordered
    return None if gained <= 0 else max(LEAST_TOGETHER, ceil(walking.walked * intervals / gained))


def walk_pays(low: Index, high: Index, partial: Partial) -> bool:
    """Whether these windows are answered sooner on walks than through the tree. The question takes far less time than
    either."""
    if len(low) < LEAST_WINDOWS:
        return False
    length = (high - low).clip(1)
    walking = _walking(partial)
    if TREE * log2(int(length.max())) <= walking.ordered:
        return False
    youngest = int(high.min())
    end = high - youngest
    together = np.bincount(end)
    ends = np.flatnonzero(together)
    if len(low) < LEAST_TOGETHER * len(ends):
        return False
    longest = np.zeros(len(together), np.intp)
    np.maximum.at(longest, end, length)
    tree = TREE * float(np.log2(length).sum())
    stops = int(np.minimum(together, longest).max())
    return tree > walking.ordered * len(low) + walking.walked * int(longest.sum()) + STEP * stops


def _walking(partial: Partial) -> Walking:
    return QUICK if partial.is_dense and not partial.takes_order else SLOW
