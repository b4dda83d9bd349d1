"""Windows that are cut together, and about how many slices their edges make.

Sets grow one by one while clusters are chosen. So what a set comes to is kept with it and goes on from there: a window
more takes the time of its own edges as long as they lie on the grid that the set has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod

from mullion.instants import EVERYTHING
from mullion.language.query import Period
from mullion.lazy import cached_property
from mullion.planner.slices import covered_share, is_hopping

Progression = tuple[int, int]
"""Edges: the first from 0 on, and the step."""


@dataclass(frozen=True)
class WindowSet:
    """Windows, each once. Edges that do not fall on one another by their steps are taken to lie anywhere on the common
    grid."""

    windows: dict[Period, None]
    progressions: dict[Progression, None]
    grid: int
    free: float
    """The share of the grid's points at which there is no edge."""
    hopping: bool
    """Whether all windows hop, so that events between them are not kept."""

    @staticmethod
    def of(windows: Iterable[Period]) -> WindowSet:
        return NOTHING.union(*map(_alone, windows))

    def union(self, *others: WindowSet) -> WindowSet:
        if not others or not self.windows:
            return others[0].union(*others[1:]) if others else self
        windows, grid = dict(self.windows), self.grid
        new: dict[Progression, None] = {}
        for other in others:
            windows |= other.windows
            new |= other.progressions
            grid = gcd(grid, other.grid)
        new = {progression: None for progression in new if progression not in self.progressions}
        progressions = self.progressions | new
        free = self.free * _free(grid, new) if grid == self.grid else _free(grid, progressions)
        return WindowSet(windows, progressions, grid, free, self.hopping and all(other.hopping for other in others))

    @property
    def slices_a_microsecond(self) -> float:
        """
        >>> of_an_hour = WindowSet.of([Period(1_800_000_000, 60_000_000), Period(60_000_000, 60_000_000)])
        >>> round(3_600_000_000 * of_an_hour.slices_a_microsecond)
        60
        """
        return (1.0 - self.free) / self.grid if self.grid else 0.0

    @cached_property
    def kept_share(self) -> float:
        """About which part of the events is kept: those between windows are not, if all windows hop."""
        return covered_share(self.windows) if self.hopping else 1.0

    @cached_property
    def gaps_a_microsecond(self) -> float:
        """About how many slices lie in no window: those that begin where a window ends, outside of all others.

        >>> 8 * WindowSet.of([Period(1, 4)]).gaps_a_microsecond
        2.0
        >>> 8 * WindowSet.of([Period(1, 4), Period(4, 8)]).gaps_a_microsecond
        1.75
        """
        if not self.hopping:
            return 0.0
        windows = list(self.windows)
        return sum(
            (1.0 - covered_share([*windows[:at], *windows[at + 1 :]])) / window.slide
            for at, window in enumerate(windows)
        )


NOTHING = WindowSet({}, {}, 0, 1.0, hopping=True)


@lru_cache(maxsize=1 << 14)
def _alone(window: Period) -> WindowSet:
    progressions = dict.fromkeys(_progressions(window))
    grid = gcd(*(part for progression in progressions for part in progression))
    free = _free(grid, progressions)
    return WindowSet({window: None}, progressions, grid, free, is_hopping(window))


def _free(grid: int, progressions: Iterable[Progression]) -> float:
    return prod(1.0 - grid / step for _, step in progressions)


def _progressions(window: Period) -> tuple[Progression, ...]:
    if window.slide >= EVERYTHING:
        return ()
    end = window.offset % window.slide, window.slide
    if window.range >= EVERYTHING or window.range % window.slide == 0:
        return (end,)
    return end, ((window.offset - window.range) % window.slide, window.slide)
