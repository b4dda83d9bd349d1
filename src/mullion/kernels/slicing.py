"""Events to slices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mullion.language.query import Period
from mullion.planner.slices import edges_between


def slice_starts(
    times: npt.NDArray[np.int64], windows: Sequence[Period], *, slicing: str = "paired"
) -> npt.NDArray[np.int64]:
    """The start of the slice that each event falls into.

    Time: O(n log e) for n events and e edges. Requires: nothing of the order of events.

    >>> slice_starts(np.array([3, 11, 12, 14, 15]), [Period(18, 15)]).tolist()
    [0, 0, 12, 12, 15]
    """
    if not len(times):
        return times
    edges = edges_between(windows, int(times.min()), int(times.max()), slicing=slicing)
    return edges[np.searchsorted(edges, times, "right") - 1]
