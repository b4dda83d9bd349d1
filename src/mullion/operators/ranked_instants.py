"""When a relation is looked at: instants as whole numbers in their order, from lives and back.

    periodic, SLIDE 5        rank     1    2    3    4         a row that lives [3, 12) is seen
                             time     5   10   15   20         from rank 1 to rank 2

    at every change          rank     0    1    2              the same row among others with
                             time     3    7   12              changes at 7: from rank 0 to rank 1

With ranks a row is seen from its first to its last one, both included, whatever the instants are; nothing else in the
operators that look at a relation needs to know which kind of query it serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mullion.expressions.arrays import Times
from mullion.operators.timed_rows import TimedRows


class RankedInstants(Protocol):
    def first(self, start: Times) -> Times:
        """The rank of the first instant that sees rows which start then."""
        ...

    def last(self, end: Times) -> Times:
        """The rank of the last instant that sees rows which end then. Less than the first: no instant does."""
        ...

    def time(self, rank: Times) -> Times:
        """When an instant is."""
        ...


@dataclass(frozen=True)
class Periodic:
    """The multiples t of the slide. They see what lives just before them: start < t <= end.

    >>> instants = Periodic(5)
    >>> instants.first(np.array([3, 5])).tolist(), instants.last(np.array([12, 15])).tolist()
    ([1, 2], [2, 3])
    """

    slide: int
    offset: int = 0

    def every(self, number: int) -> Periodic:
        """Every so many-th of these instants, counted from the offset.

        >>> Periodic(5).every(2).time(np.array([1, 2])).tolist()
        [10, 20]
        """
        return self if number == 1 else Periodic(self.slide * number, self.offset)

    def first(self, start: Times) -> Times:
        return (start - self.offset) // self.slide + 1

    def last(self, end: Times) -> Times:
        return (end - self.offset) // self.slide

    def time(self, rank: Times) -> Times:
        return self.offset + rank * self.slide

    def due(self, now: int) -> int:
        """The rank of the last instant up to now."""
        return (now - self.offset) // self.slide

    def since(self, time: int) -> int:
        """The rank of the first instant that is not before a time."""
        return -((self.offset - time) // self.slide)


@dataclass(frozen=True)
class Changes:
    """Every time at which a row comes or leaves. They see what lives from then on: start <= t < end.

    What came before the first of these times has the rank -1, what left before it -2.
    """

    times: Times

    @staticmethod
    def of(timed: TimedRows, after: int, before: int, more: Sequence[int] = ()) -> Changes:
        """The changes of these rows, and some more times, with after < t < before."""
        times = np.unique(np.concatenate([timed.start, timed.end, np.array(more, np.int64)]))
        return Changes(times[(times > after) & (times < before)])

    def first(self, start: Times) -> Times:
        return np.searchsorted(self.times, start) - self._before(start)

    def last(self, end: Times) -> Times:
        return np.searchsorted(self.times, end) - 1 - self._before(end)

    def _before(self, when: Times) -> Times:
        return (when < self.times[0]).astype(np.int64) if len(self.times) else np.ones(len(when), np.int64)

    def time(self, rank: Times) -> Times:
        return self.times[rank]
