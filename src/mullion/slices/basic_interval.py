"""The basic interval synopsis: the short intervals alone, probed once for all windows of an end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mullion.aggregates.base import Partial, State
from mullion.expressions.arrays import Index
from mullion.slices.base import Synopsis

MOST_ACCESSES = 4_000_000
"""Intervals that are looked at in one call; more are taken in turns to bound memory."""


class Probe(NamedTuple):
    """Ranges in the order in which a walk from young to old meets where they begin.

    A stop is a place where a walk gives an answer. Its leg are the intervals from it up to the stop before.
    """

    low: Index
    high: Index
    """The leg of each stop; legs of one end follow one another."""
    first: Index
    """The first stop of each end."""
    stop: Index
    """For each range that is not empty, its stop."""
    asked: Index
    """These ranges."""

    @staticmethod
    def of(low: Index, high: Index) -> Probe:
        asked = np.flatnonzero(low < high)
        begin, end = low[asked], high[asked]
        order = np.argsort(end * (int(end.max(initial=0)) + 1) - begin)
        begin, end = begin[order], end[order]
        new_end = np.ones(len(order), np.bool_)
        new_end[1:] = end[1:] != end[:-1]
        new_stop = new_end.copy()
        new_stop[1:] |= begin[1:] != begin[:-1]
        stop = np.empty(len(order), np.intp)
        stop[order] = np.cumsum(new_stop) - 1
        first = np.flatnonzero(new_end[new_stop])
        leg_low, leg_high = begin[new_stop], end[new_stop]
        later = np.flatnonzero(~new_end[new_stop])
        leg_high[later] = leg_low[later - 1]
        return Probe(leg_low, leg_high, first, stop, asked)


class BasicInterval(Synopsis):
    """Only the shortest intervals; one walk from the youngest to the oldest answers every window of an end
    (golab 2.3.4, Figure 2.5; 8.3.1, rule CS2).

        length 1   | a  |  b  | c  |  d  | e  |  f  | g  |  h  |
                                                  <------[ g+h ]      the window g..h, answered along the way
                             <------------[ c+d+e+f ]                 and the window c..h, on the same walk

    Requires: an associative, commutative combine. Accepts every partial.
    Time: nothing to build, at most b accesses for all windows of one end together, the longest of which has b states.
    Space: n, half of an interval synopsis.

    >>> import numpy as np
    >>> from mullion.aggregates.extremes import Largest
    >>> from mullion.language.types import INT
    >>> made = BasicInterval(Largest(INT), (np.array([3, 1, 4, 1, 5]),))
    >>> made.between(np.array([0, 1, 2]), np.array([3, 3, 3]))[0].tolist(), made.operations
    ([4, 4, 4], 3)
    """

    name = "basic interval"

    def __init__(self, partial: Partial, state: State) -> None:
        self._partial = partial
        self._intervals = state
        self.operations = 0

    def between(self, low: Index, high: Index) -> State:
        probe = Probe.of(low, high)
        answer = self._partial.identity(len(low))
        stops = self._walk(probe)
        for field, values in zip(answer, stops, strict=True):
            field[probe.asked] = values[probe.stop]
        return answer

    def _walk(self, probe: Probe) -> State:
        """The answer at each stop: that of the stop before, and the leg between. All ends walk side by side."""
        legs = self._legs(probe)
        at = probe.first
        stops = np.diff(probe.first, append=len(probe.low))
        for step in range(1, int(stops.max(initial=0))):
            going = stops > step
            at, stops = at[going] + 1, stops[going]
            combined = self._partial.combine(_picked(legs, at - 1), _picked(legs, at))
            for field, values in zip(legs, combined, strict=True):
                field[at] = values
        return legs

    def _legs(self, probe: Probe) -> State:
        """Each leg as one state. Every interval between an end and its last stop is looked at once."""
        legs = self._partial.identity(len(probe.low))
        lengths = probe.high - probe.low
        self.operations += int(lengths.sum())
        for part in _turns(lengths):
            length, starts = lengths[part], np.cumsum(lengths[part]) - lengths[part]
            index = np.arange(int(length.sum())) + np.repeat(probe.low[part] - starts, length)
            reduced = self._partial.reduce(_picked(self._intervals, index), starts)
            for field, values in zip(legs, reduced, strict=True):
                field[part] = values
        return legs


def _turns(lengths: Index) -> Iterator[slice]:
    """The legs in parts that are not too long together."""
    ends = np.cumsum(lengths)
    at = 0
    while at < len(lengths):
        before = int(ends[at - 1]) if at else 0
        until = max(at + 1, int(np.searchsorted(ends, before + MOST_ACCESSES, "right")))
        yield slice(at, until)
        at = until


def _picked(state: State, index: Index) -> State:
    return tuple(field[index] for field in state)
