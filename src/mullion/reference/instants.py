"""The instants of SLIDE s: o, o + s, o + 2 s, ... and those before."""

from __future__ import annotations

from typing import NamedTuple


class Instants(NamedTuple):
    """
    >>> every = Instants(5, 1)
    >>> every.after(6), every.until(6), list(every.between(2, 16))
    (11, 6, [6, 11, 16])
    """

    slide: int
    offset: int = 0

    def after(self, time: int) -> int:
        """The first one after a time."""
        return self.until(time) + self.slide

    def until(self, time: int) -> int:
        """The last one that is not after a time."""
        return time - (time - self.offset) % self.slide

    def between(self, first: int, last: int) -> range:
        """From the first one that is not before `first` to the last one that is not after `last`."""
        return range(self.after(first - 1), last + 1, self.slide)
