"""Events to slices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mullion.language.query import Period
from mullion.planner.slices import edges_between, most_edges, residues


def slice_starts(
    times: npt.NDArray[np.int64], windows: Sequence[Period], *, slicing: str = "paired"
) -> npt.NDArray[np.int64]:
    """The start of the slice that each event falls into.

    Time: O(n log e) for n events and e edges, or O(n p) for p progressions of edges where edges are too many: a slide
    of a millisecond has more edges in a day than a batch has events. Requires: nothing of the order of events.

    >>> slice_starts(np.array([3, 11, 12, 14, 15]), [Period(18, 15)]).tolist()
    [0, 0, 12, 12, 15]
    >>> slice_starts(np.array([3, 3 * 10**15 + 11]), [Period(18, 15)]).tolist()
    [0, 3000000000000000]
    """
    if not len(times):
        return times
    low, high = int(times.min()), int(times.max())
    progressions = residues(windows, slicing)
    if most_edges(windows, low, high, slicing) > len(times) * len(progressions):
        starts: npt.NDArray[np.int64] = np.max([times - (times - first) % step for first, step in progressions], axis=0)
        return starts
    edges = edges_between(windows, low, high, slicing=slicing)
    return edges[np.searchsorted(edges, times, "right") - 1]
