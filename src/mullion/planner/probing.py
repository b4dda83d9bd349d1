"""What it takes to probe a synopsis of intervals: window by window through a tree, or on one walk for each end.

The paper counts intervals that are accessed: about log2 b for a window of b through the tree, b for a walk that answers
every window of an end. So a walk pays from b / log2 b windows of an end on (golab 8.3.1, 8.4.4). What counts here is
time, which also knows that windows have to be ordered before a walk. The constants are measured, in accesses of the
tree (`docs/decisions/0015-synopses.md`).
"""

from __future__ import annotations

from math import ceil, log2
from typing import Any

import numpy as np
import numpy.typing as npt

from mullion.aggregates import Partial

Places = npt.NDArray[np.intp]

TREE = 0.9
"""A window of b takes so many times log2 b accesses of the tree."""
ORDERED = 4.0
"""A window that is given its place in a walk."""
WALKED, WALKED_SLOWLY = 0.5, 1.3
"""An interval that a walk looks at: of a state that is added or compared, and of one that takes more."""
STEP = 500.0
"""A stop at which all walks of a call halt together."""

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
    gained = TREE * log2(max(1, intervals)) - ORDERED
    return None if gained <= 0 else max(LEAST_TOGETHER, ceil(_walked(partial) * intervals / gained))


def walk_pays(low: Places, high: Places, partial: Partial) -> bool:
    """Whether these windows are answered sooner on walks than through the tree. The question takes far less time than
    either."""
    if len(low) < LEAST_WINDOWS:
        return False
    length = (high - low).clip(1)
    if TREE * log2(int(length.max())) <= ORDERED:
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
    walks: Any = ORDERED * len(low) + _walked(partial) * int(longest.sum()) + STEP * int(together.max())
    return bool(tree > walks)


def _walked(partial: Partial) -> float:
    return WALKED if partial.is_dense else WALKED_SLOWLY
