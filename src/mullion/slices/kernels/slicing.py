"""Events to slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Times
from mullion.expressions.readonly import frozen
from mullion.language.query import Period
from mullion.planner.slices import Progressions, edges_between, edges_on, most_edges, residues
from mullion.slices.kernels.ranges import seek_each


def slice_starts(
    times: npt.NDArray[np.int64], windows: Sequence[Period], *, slicing: str = "paired"
) -> npt.NDArray[np.int64]:
    """The start of the slice that each event falls into.

    Time: O(n log e) for n events and e edges, or O(n p) for p progressions of edges where that is less: a slide of a
    millisecond has more edges in a day than a batch has events. Requires: nothing of the order of events.

    >>> slice_starts(np.array([3, 11, 12, 14, 15]), [Period(18, 15)]).tolist()
    [0, 0, 12, 12, 15]
    >>> slice_starts(np.array([3, 3 * 10**15 + 11]), [Period(18, 15)]).tolist()
    [0, 3000000000000000]
    """
    if not len(times):
        return times
    low, high = int(times.min()), int(times.max())
    progressions = residues(windows, slicing)
    if EDGE * most_edges(windows, low, high, slicing) > len(times) * len(progressions):
        return _last_edges(times, progressions)
    edges = edges_between(windows, low, high, slicing=slicing)
    return edges[np.searchsorted(edges, times, "right") - 1]


def _last_edges(times: Times, progressions: Times) -> Times:
    """The last edge at or before each time."""
    (first, step), *others = progressions
    starts: Times = times - (times - first) % step
    for first, step in others:
        np.maximum(starts, times - (times - first) % step, out=starts)
    return starts


class Cut(NamedTuple):
    """The slices that hold an event, where events come in the order of time."""

    starts: Times
    bounds: npt.NDArray[np.int64]
    """The first event of each slice, and after the last one how many events there are."""

    @staticmethod
    def at(times: Times, progressions: Times) -> Cut:
        """Cut at the edges that lie on progressions, given as rows (first, step).

        Time: that of `edges_on` and a search for each edge, or O(n p) for n events and p progressions where that is
        less.

        >>> Cut.at(np.array([3, 11, 12, 14, 15]), residues([Period(18, 15)]))
        Cut(starts=array([ 0, 12, 15]), bounds=array([0, 2, 4, 5]))
        >>> Cut.at(np.array([3, 3 * 10**15 + 11]), residues([Period(18, 15)]))
        Cut(starts=array([               0, 3000000000000000]), bounds=array([0, 1, 2]))
        """
        length = len(times)
        if not length:
            return Cut(times, np.zeros(1, np.int64))
        own = Progressions(np.zeros(len(progressions), np.int64), progressions)
        low, high = int(times[0]), int(times[-1])
        if EDGE * (own.most(low, high) - FEW_EDGES) > length * len(progressions):
            starts = _last_edges(times, progressions)
            first = np.flatnonzero(np.concatenate([[True], starts[1:] != starts[:-1]]))
            return Cut(starts[first], np.append(first, length))
        edges = edges_on(progressions, low, high)
        bounds, (all_times, wanted) = np.full(len(edges) + 1, length), frozen(times, edges)
        seek_each(all_times, wanted, bounds)
        some = bounds[1:] > bounds[:-1]
        return Cut(edges[some], np.append(bounds[:-1][some], length))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.bounds)

    def of_events(self) -> Times:
        """The start of the slice of each event."""
        return np.repeat(self.starts, self.lengths)


FEW_EDGES = 1000
"""So many edges are found one by one however few the events are."""
EDGE = 8
"""Laying out an edge and giving it its place takes so many times as long as finding the last edge of a progression
before an event."""
