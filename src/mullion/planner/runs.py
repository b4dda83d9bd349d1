"""Where predicates hold on an axis of regions, as runs: `low` is the first region of a run, `high` the one after its
last.

    regions of volume     0  1  2  3  4  5
    volume <> 100         x  -  x  x  x  -       runs 0..1, 2..5
    volume > 100          -  -  x  x  x  -       run 2..5

A predicate that does not read the axis has one run, all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Index, Mask

MOST_PRODUCT = 1024
"""Regions of several small attributes that are taken together as one."""


class RegionRuns(NamedTuple):
    """The runs of predicate i are those from first[i] up to first[i + 1]."""

    first: Index
    low: Index
    high: Index

    @staticmethod
    def of(table: npt.NDArray[np.uint8]) -> RegionRuns:
        """Of membership bytes, predicate x region.

        >>> [part.tolist() for part in RegionRuns.of(np.array([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]], np.uint8))]
        [[0, 2, 2, 3], [0, 2, 0], [1, 4, 4]]
        """
        padded = np.pad(table, ((0, 0), (1, 1)))
        # Runs begin and end in turns.
        predicate, edge = np.divmod(np.flatnonzero(padded[:, 1:] != padded[:, :-1]), padded.shape[1] - 1)
        return RegionRuns(np.searchsorted(predicate[::2], np.arange(len(table) + 1)), edge[::2], edge[1::2])

    @staticmethod
    def of_single(held: Sequence[tuple[int, int]]) -> RegionRuns:
        """Of predicates that hold in one run each, or nowhere.

        >>> [part.tolist() for part in RegionRuns.of_single([(1, 3), (4, 4), (0, 2)])]
        [[0, 1, 1, 2], [1, 0], [3, 2]]
        """
        low, high = np.array(held, np.intp).reshape(-1, 2).T
        some = low < high
        return RegionRuns(np.concatenate([[0], np.cumsum(some)]), low[some], high[some])

    @staticmethod
    def together(parts: Sequence[RegionRuns]) -> RegionRuns:
        """Those of more predicates."""
        offsets = np.cumsum([0, *(len(part.low) for part in parts)])
        first = [part.first[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
        low, high = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
        return RegionRuns(np.append(np.concatenate(first), offsets[-1]), low, high)

    def of_all(self, own: Index, number: int, regions: int) -> RegionRuns:
        """If these are the runs of some of so many predicates, those of all: the others hold everywhere.

        >>> runs = RegionRuns(np.array([0, 1]), np.array([3]), np.array([4]))
        >>> [part.tolist() for part in runs.of_all(np.array([1]), 2, 9)]
        [[0, 1, 2], [0, 3], [9, 4]]
        """
        numbers, of_own = np.ones(number, np.intp), np.diff(self.first)
        numbers[own] = of_own
        first = np.concatenate([[0], np.cumsum(numbers)])
        low, high = np.zeros(first[-1], np.intp), np.full(first[-1], regions)
        at = np.arange(len(self.low)) + np.repeat(first[own] - self.first[:-1], of_own)
        low[at], high[at] = self.low, self.high
        return RegionRuns(first, low, high)

    def take(self, predicates: Index) -> RegionRuns:
        """Those of some predicates, one after the other.

        >>> runs = RegionRuns(np.array([0, 2, 3]), np.array([0, 3, 1]), np.array([2, 4, 2]))
        >>> [part.tolist() for part in runs.take([1, 0])]
        [[0, 1, 3], [1, 0, 3], [2, 2, 4]]
        """
        numbers = np.diff(self.first)[predicates]
        first = np.concatenate([[0], np.cumsum(numbers)])
        at = np.arange(first[-1]) + np.repeat(self.first[predicates] - first[:-1], numbers)
        return RegionRuns(first, self.low[at], self.high[at])

    @property
    def predicate(self) -> Index:
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def among(self, present: Mask) -> RegionRuns:
        """The same among the regions that are present, which are numbered anew.

        >>> runs = RegionRuns(np.array([0, 2, 3]), np.array([0, 3, 1]), np.array([2, 4, 2]))
        >>> [part.tolist() for part in runs.among(np.array([True, False, False, True]))]
        [[0, 1, 1], [0], [2]]
        """
        number = np.concatenate([[0], np.cumsum(present)])
        low, high, predicate = number[self.low], number[self.high], self.predicate
        some = low < high
        low, high, predicate = low[some], high[some], predicate[some]
        # Runs between which nothing is present are one.
        begins = np.ones(len(low), np.bool_)
        begins[1:] = (low[1:] != high[:-1]) | (predicate[1:] != predicate[:-1])
        ends = np.append(begins[1:], np.ones(min(1, len(low)), np.bool_))
        first = np.searchsorted(predicate[begins], np.arange(len(self.first)))
        return RegionRuns(first, low[begins], high[ends])

    def table(self, regions: int) -> Mask:
        """Membership of all predicates, region x predicate.

        >>> RegionRuns.of(np.array([[1, 0, 1], [0, 0, 0]], np.uint8)).table(3).astype(int).tolist()
        [[1, 0], [0, 0], [1, 0]]
        """
        number = np.diff(self.first)
        if (number <= 1).all():  # of most comparisons; many bytes are compared at once
            narrow = regions <= np.iinfo(np.uint16).max
            low, high = np.zeros((2, len(number)), np.uint16 if narrow else np.uint32)
            low[number == 1], high[number == 1] = self.low, self.high
            at = np.arange(regions).astype(low.dtype)[:, None]
            held: Mask = (at >= low) & (at < high)
            return held
        steps, predicate = np.zeros((regions + 1, len(number)), np.int8), self.predicate
        steps[self.low, predicate] += 1
        steps[self.high, predicate] -= 1
        return np.cumsum(steps[:-1], axis=0, dtype=np.int8).view(np.bool_)

    def are_whole(self, regions: int) -> Mask:
        """Which predicates hold everywhere."""
        numbers = np.diff(self.first)
        whole = np.zeros(len(numbers), np.bool_)
        only = np.flatnonzero(numbers == 1)
        at = self.first[only]
        whole[only] = (self.low[at] == 0) & (self.high[at] == regions)
        return whole


class BoxAxis(NamedTuple):
    """One attribute, or several small ones whose regions are multiplied."""

    attributes: tuple[int, ...]
    regions: tuple[int, ...]
    runs: RegionRuns


def small_together(attributes: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Attributes, given with their regions, those together whose regions multiply to few.

    >>> small_together([(0, 3000), (1, 4), (2, 100)])
    [[1, 2], [0]]
    """
    merged: list[tuple[list[int], int]] = []
    for at, regions in sorted(attributes, key=lambda attribute: attribute[1]):
        if merged and merged[-1][1] * regions <= MOST_PRODUCT:
            own, product = merged[-1]
            merged[-1] = [*own, at], product * regions
        else:
            merged.append(([at], regions))
    return [own for own, _ in merged]
