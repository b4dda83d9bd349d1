"""How many events windows have lost: those that were shed, tallied by slice and batch.

    batch 7, shed:   09:00:01  09:00:02  09:00:07        slices of 5 s:   09:00:00  7  2
                                                                          09:00:05  7  1

Slices are cut at the edges of all windows that stand, so a window is made of whole ones. The batch is there for queries
that read their past once more: of that, they have lost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mullion.expressions.arrays import Times
from mullion.language.query import Period
from mullion.planner.slices import residues
from mullion.slices.bounds import Stretch
from mullion.slices.kernels.slicing import Cut, slice_starts
from mullion.slices.window_runs import NOT_KNOWN, Due

NO_TIMES: Times = np.empty(0, np.int64)


@dataclass(frozen=True)
class ShedEvents:
    """The events of a batch that were shed."""

    number: int = 0
    slices: Times = field(default_factory=lambda: NO_TIMES)
    """The slices of those that were neither late nor ahead."""
    counts: Times = field(default_factory=lambda: NO_TIMES)
    """How many there are in each."""
    oldest: int | None = None
    newest: int | None = None
    """From when to when they are."""

    @staticmethod
    def at(times: Times, bounds: Stretch, windows: Sequence[Period]) -> ShedEvents:
        """Events by their times, for queries with these windows.

        >>> ShedEvents.at(np.array([3, 14, 11, 12, 1]), Stretch(2), [Period(18, 15)])
        ShedEvents(number=5, slices=array([ 0, 12]), counts=array([2, 2]), oldest=3, newest=14)
        """
        if (times[1:] < times[:-1]).any():
            times = np.sort(times, kind="stable")
        low = 0 if bounds.low is None else int(np.searchsorted(times, bounds.low))
        high = len(times) if bounds.high is None else int(np.searchsorted(times, bounds.high))
        taken = times[low:high]
        if not len(taken):
            return ShedEvents(len(times))
        slices, counts = NO_TIMES, NO_TIMES
        if windows:
            slices, first = Cut.at(taken, residues(windows))
            counts = np.diff(first)
        return ShedEvents(len(times), slices, counts, int(taken[0]), int(taken[-1]))

    def cut(self, windows: Sequence[Period]) -> ShedEvents:
        """The same in the slices of these windows, where it is in finer ones."""
        if not windows or not len(self.slices):
            return replace(self, slices=NO_TIMES, counts=NO_TIMES)
        slices, which = np.unique(slice_starts(self.slices, windows), return_inverse=True)
        counts = np.zeros(len(slices), np.int64)
        np.add.at(counts, which, self.counts)
        return replace(self, slices=slices, counts=counts)

    @staticmethod
    def together(parts: Iterable[ShedEvents], windows: Sequence[Period]) -> ShedEvents:
        """What parts of a batch have lost."""
        every = [ShedEvents(), *parts]
        slices, counts = (np.concatenate(column) for column in zip(*((p.slices, p.counts) for p in every), strict=True))
        oldest = min((part.oldest for part in every if part.oldest is not None), default=None)
        newest = max((part.newest for part in every if part.newest is not None), default=None)
        return ShedEvents(sum(part.number for part in every), slices, counts, oldest, newest).cut(windows)


class ShedTally:
    """What batches have lost, as far as windows may still ask for it: by slice, in order."""

    def __init__(self, slices: Sequence[int] = (), batches: Sequence[int] = (), counts: Sequence[int] = ()) -> None:
        columns = slices, batches, counts
        self._slices, self._batches, self._counts = (np.array(column, np.int64) for column in columns)

    def __len__(self) -> int:
        return len(self._slices)

    def add(self, batch: int, shed: ShedEvents) -> None:
        slices = np.concatenate([self._slices, shed.slices])
        order = np.argsort(slices, kind="stable")
        batches = np.concatenate([self._batches, np.full(len(shed.slices), batch)])
        counts = np.concatenate([self._counts, shed.counts])
        self._slices, self._batches, self._counts = slices[order], batches[order], counts[order]

    def forget_before(self, horizon: int) -> None:
        first = int(np.searchsorted(self._slices, horizon))
        columns = self._slices, self._batches, self._counts
        self._slices, self._batches, self._counts = (column[first:] for column in columns)

    def of(self, due: Due, read_again: Sequence[int | None], unknown: Sequence[int] = ()) -> Times | None:
        """How many events each of the windows has lost; None if none has. `read_again`: for each query, the last batch
        of the past that it has read once more. `unknown`: the queries of which it is not known."""
        if not len(self._slices) and not unknown:
            return None
        lost = self._within(due, self._counts)
        for batch in {batch for batch in read_again if batch is not None}:
            own = np.isin(due.query, [i for i, read in enumerate(read_again) if read == batch])
            lost = np.where(own, self._within(due, np.where(self._batches > batch, self._counts, 0)), lost)
        if unknown:
            lost[np.isin(due.query, unknown)] = NOT_KNOWN
        return lost if lost.any() else None

    def _within(self, due: Due, counts: Times) -> Times:
        before = np.concatenate([[0], np.cumsum(counts)])
        first, last = (np.searchsorted(self._slices, bound) for bound in (due.start, due.end))
        lost: Times = before[last] - before[first]
        return lost

    def snapshot(self) -> list[list[int]]:
        return [self._slices.tolist(), self._batches.tolist(), self._counts.tolist()]
