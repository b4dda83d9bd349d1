"""Pairs of a window and what is found in it, by window."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Array, Index
from mullion.lazy import cached_property

A = TypeVar("A", bound=Array)


class WindowPairs:
    """So many pairs of each window. Until some of them leave, a column is made by repeating, not by looking up.

    >>> pairs, ends = WindowPairs(np.array([2, 0, 1])), np.array([10, 20, 30])
    >>> pairs.spread(ends).tolist(), pairs.kept(np.array([0, 2])).spread(ends).tolist()
    ([10, 10, 30], [10, 30])
    """

    def __init__(self, counts: Index, which: npt.NDArray[np.integer[Any]] | None = None) -> None:
        self._counts, self._kept = counts, which

    @staticmethod
    def of(counts: Index, which: npt.NDArray[np.integer[Any]]) -> WindowPairs:
        """The same where the window of each pair is known."""
        pairs = WindowPairs(counts)
        pairs.__dict__["which"] = which
        return pairs

    def __len__(self) -> int:
        return int(self._counts.sum()) if self._kept is None else len(self._kept)

    @cached_property
    def which(self) -> npt.NDArray[np.integer[Any]]:
        """The window of each pair."""
        if self._kept is not None:
            return self._kept
        return np.repeat(np.arange(len(self._counts), dtype=np.int32), self._counts)

    def spread(self, values: A) -> A:
        """For each pair the value of its window."""
        return np.repeat(values, self._counts) if self._kept is None else values[self._kept]  # type: ignore[return-value]

    def before(self, windows: Index) -> Index:
        """How many pairs come before those of each of these windows."""
        if self._kept is None:
            return np.concatenate([np.zeros(1, np.intp), np.cumsum(self._counts)])[windows]
        return np.searchsorted(self._kept, windows)

    def kept(self, index: Index) -> WindowPairs:
        """Only these pairs, in this order; they still stand by window."""
        return WindowPairs(self._counts, self.which[index])
