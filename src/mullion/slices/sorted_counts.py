"""Value counts of windows that are kept: the different values of each line in their order, each with its count."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Counts, Index, Whole
from mullion.expressions.readonly import frozen
from mullion.lazy import cached_property
from mullion.slices.kernels.cells import top_of_ranges
from mullion.slices.sums_in_limbs import in_limbs


class SortedCounts:
    """What some ranges of cells hold: an `aggregates.values.WindowCounts` whose codes are the places of cells.

    Requires: cells of a range are different values, in their order, and no count is 0.
    Time: O(n) for n cells, once; O(log n) for a rank, O(cells of the range) for the most frequent ones.
    Space: O(n).

    >>> found = SortedCounts(np.array([5, 3, 1, 3]), np.array([0, 2]), np.array([2, 4]))
    >>> found.total.tolist(), found.distinct.tolist(), found.ranked(np.array([5, 1])).tolist()
    ([8, 4], [2, 2], [1, 3])
    >>> [part.tolist() for part in found.top(1)]
    [[0, 1, 2], [0, 3], [5, 3]]
    """

    def __init__(self, count: Whole, low: Index, high: Index) -> None:
        self._count, self._low, self._high = count, low, high

    @cached_property
    def _totals(self) -> Counts:
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self._count, dtype=np.int64)])

    @cached_property
    def total(self) -> Counts:
        found: Counts = self._totals[self._high] - self._totals[self._low]
        return found

    @property
    def distinct(self) -> Counts:
        found: Counts = (self._high - self._low).astype(np.int64)
        return found

    def ranked(self, rank: Counts) -> Counts:
        found = np.searchsorted(self._totals, self._totals[self._low] + rank, "right") - 1
        return found.clip(0, max(0, len(self._count) - 1))

    @cached_property
    def in_order(self) -> tuple[Counts, Counts, Counts]:
        length = self.distinct
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(length)])
        codes: Counts = np.repeat(self._low - offsets[:-1], length) + np.arange(int(offsets[-1]))
        return offsets, codes, self._count[codes]

    def top(self, k: int) -> tuple[Counts, Counts, Counts]:
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(self.distinct, k))])
        codes, frequencies = np.zeros(int(offsets[-1]), np.int64), np.zeros(int(offsets[-1]), np.int64)
        count, low, high = frozen(self._count, self._low.astype(np.int64), self._high.astype(np.int64))
        top_of_ranges(count, low, high, offsets, codes, frequencies)
        return offsets, codes, frequencies

    def present_sums(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return self._sums(numbers) if numbers.dtype == np.int64 else in_limbs(numbers, self._sums)

    def _sums(self, numbers: Whole) -> Whole:
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(numbers)])
        found: Whole = before[self._high] - before[self._low]
        return found
