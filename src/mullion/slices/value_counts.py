"""Value counts: one sequence of counted values answers every holistic aggregate over an expression.

    rows of the sequence, in the order (slot, group, slice):

        slice     | 09:00        | 09:01   | 09:02          |
        value     | 100  200 350 | 100 500 | 100  200   350 |
        count     |  7    1   2  |  4   1  |  9    3     1  |
                         [------ a window is a range of rows ----]

Holistic aggregates have no state of fixed size, but counts can be added and subtracted (li 3.2.1, 3.2.2, 3.3.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Codes, Counts, Index
from mullion.lazy import cached_property
from mullion.planner.slices import distinct
from mullion.slices.kernels import counting, listing
from mullion.slices.kernels.ranges import sort_by_line
from mullion.slices.sums_in_limbs import in_limbs

Top = tuple[Counts, Codes, Counts]

MOST_KEPT = 256_000_000
"""Bytes of bit levels that are kept for the next ranks; above, they are made anew."""

MOST_SNAPSHOTS = 8_000_000
"""Counts in the snapshots that are made at once."""

MOVE, LOOK = 5.0, 2.0
"""What adding a row to a window costs, and what copying or looking at a count in a snapshot does: nanoseconds."""

SLIDE, PASS, LEVEL = 2.5, 0.9, 6.0
"""What it costs for ranks to add a row to a window, to pass over a count, and a row in each bit level: nanoseconds."""

FEW = 16
"""Windows that have fewer than one in so many rows are listed from a sort of these, not from one of all rows."""


class _Level(NamedTuple):
    """The rows in order of the higher bits of their codes: which have a 0 at the next one."""

    bit: int
    zeros: npt.NDArray[np.int32]
    weights: npt.NDArray[np.integer[Any]]
    border: int


class ValueCounts:
    """A sequence of values, each with how often it occurs, that answers any ranges of it.

    `code` is the rank of a row's value among all `size` different ones, and no count is 0. `operations` counts the rows
    that were added, subtracted or moved, and the counts that were looked at, building included.

    >>> counts = ValueCounts(np.array([0, 2, 1, 2]), np.array([5, 1, 3, 3]), 3)
    >>> found = counts.within(np.array([0, 1]), np.array([4, 3]))
    >>> found.total.tolist(), found.distinct.tolist()
    ([12, 4], [3, 2])
    >>> found.ranked(np.array([11, 0])).tolist()
    [2, 1]
    >>> [part.tolist() for part in found.top(2)]
    [[0, 2, 4], [0, 2, 1, 2], [5, 4, 3, 1]]
    """

    def __init__(self, code: npt.NDArray[Any], count: Counts, size: int, most_kept: int = MOST_KEPT) -> None:
        if len(code) and (int(code.min()) < 0 or int(code.max()) >= size):
            raise ValueError(f"codes must be from 0 to {size - 1}")
        self.size, self._most_kept = size, most_kept
        self.code = np.ascontiguousarray(code, np.int32)
        self.totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(count, dtype=np.int64)])
        self.dtype: Any = np.int32 if self.totals[-1] < 2**31 else np.int64
        self.count = np.ascontiguousarray(count, self.dtype)
        self.operations = len(code)
        self._levels: list[_Level] | None = None
        self.slid = 0.0
        """What sliding cost so far where bit levels would do."""

    @cached_property
    def by_code(self) -> Index:
        """The rows in the order of their codes."""
        order, starts = np.empty(len(self.code), np.intp), np.empty(self.size + 1, np.intp)
        sort_by_line(self.code, self.size, order, starts)
        return order

    @property
    def bits(self) -> int:
        """Of a code."""
        return (self.size - 1).bit_length()

    @property
    def shift(self) -> int:
        """Codes are in blocks of 2^shift, of which there are about as many as codes in each."""
        return (self.bits + 1) // 2

    @property
    def blocks(self) -> int:
        return ((self.size - 1) >> self.shift) + 1

    def within(self, low: Index, high: Index) -> CountedRanges:
        """What rows low, low + 1, .., high - 1 hold, for each pair; nothing where high <= low."""
        return CountedRanges(self, np.asarray(low, np.int64), np.maximum(low, high).astype(np.int64))

    @property
    def has_levels(self) -> bool:
        return self._levels is not None

    def levels(self) -> Iterable[_Level]:
        """The rows by the bits of their codes, from the highest bit on; kept where they are not too large."""
        if self._levels is not None:
            return self._levels
        levels = self._make_levels()
        if self.bits * len(self.code) * (4 + self.count.itemsize) > self._most_kept:
            return levels
        self._levels = list(levels)
        return self._levels

    def _make_levels(self) -> Iterator[_Level]:
        code, count, length = self.code, self.count, len(self.code)
        for bit in reversed(range(self.bits)):
            zeros, weights = np.empty(length + 1, np.int32), np.empty(length + 1, self.dtype)
            next_code, next_count = np.empty_like(code), np.empty_like(count)
            border = counting.part_by_bit(code, count, bit, next_code, next_count, zeros, weights)
            code, count = next_code, next_count
            self.operations += length
            yield _Level(bit, zeros, weights, border)


class CountedRanges:
    """What some ranges of value counts hold. Each thing is computed when it is first asked for."""

    def __init__(self, counts: ValueCounts, low: Counts, high: Counts) -> None:
        self._counts, self._low, self._high = counts, low, high
        self._tops: dict[int, Top] = {}

    @cached_property
    def total(self) -> Counts:
        """How many values, each as often as it occurs."""
        totals = self._counts.totals
        found: Counts = totals[self._high] - totals[self._low]
        return found

    @cached_property
    def distinct(self) -> Counts:
        """How many different values."""
        return self._sum_of_present(np.ones(self._counts.size, np.int64))

    def present_sums(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum of `numbers` over the codes that are present: whole numbers as they are, doubles rounded
        once."""
        if numbers.dtype == np.int64:
            return self._sum_of_present(numbers)
        return in_limbs(numbers, self._sum_of_present)

    def _sum_of_present(self, numbers: Counts) -> Counts:
        """Each value once, where it was last seen.

            values      a  b  |  a  c  |  b      segments are cut at the bounds of windows
            last seen         |  a  c  |  b      when the third is read: a window from the second on has a, c and b

        Requires: nothing of the windows; numbers whose sum fits 64 bits.
        Time: O(n) for n rows, O(sqrt(m)) a window for m different bounds.
        Space: O(m), and a number for each different value.
        """
        counts, low, high = self._counts, self._low, self._high
        sums = np.zeros(len(low), np.int64)
        filled = np.flatnonzero(low < high)
        if not len(filled):
            return sums
        is_bound = np.zeros(len(counts.code) + 1, np.bool_)
        is_bound[low[filled]] = is_bound[high[filled]] = True
        bounds, place = np.flatnonzero(is_bound), np.cumsum(is_bound) - 1
        begin, end = place[low], place[high[filled]]
        ends = filled[np.argsort(end, kind="stable")]
        ends_from = np.concatenate([[0], np.cumsum(np.bincount(end, minlength=len(bounds)))])
        last = np.full(counts.size, -1, np.int32)
        counting.sum_of_present(counts.code, numbers, bounds, begin, ends_from, ends, last, sums)
        counts.operations += int(bounds[-1] - bounds[0]) + len(filled)
        return sums

    def ranked(self, rank: Counts) -> Codes:
        """The code of the rank-th smallest value, counting from 0 and each value as often as it occurs.

        Of ranks from `total` on it is any code. Several ranks of each range may be asked at once, one range a column.
        """
        rank = np.broadcast_to(rank, np.broadcast_shapes(rank.shape, self._low.shape)).astype(np.int64)
        if not rank.size:
            return rank
        way = self.ranked_by_sliding if self._slides_sooner(rank.size) else self.ranked_by_levels
        return way(rank.reshape(-1, len(self._low))).reshape(rank.shape)

    def _slides_sooner(self, ranks: int) -> bool:
        """Whether sliding costs less than bit levels. These are made once: where others ask as well, sliding may cost
        what they do and no more."""
        counts = self._counts
        most = LEVEL * len(counts.code) * counts.bits - counts.slid
        looks = PASS * ranks * (1 << counts.shift)
        if counts.has_levels or looks > most:
            return False
        cost = looks + SLIDE * self._order[1]
        if cost > most:
            return False
        counts.slid += cost
        return True

    def ranked_by_levels(self, rank: Counts) -> Codes:
        """Rows are parted by the highest bit of their codes, then by the next, and so on, as a radix sort does (a
        wavelet matrix, level by level): at each bit a range of rows is two ranges, and the rank tells in which of
        them to go on.

        Requires: nothing of the windows.
        Time: O(n log v) for n rows and v different values, once; O(log v) a window.
        Space: O(n log v) where that is kept, O(n) where it would be too large.
        """
        counts = self._counts
        low, high = (np.array(np.broadcast_to(bound, rank.shape)).ravel() for bound in (self._low, self._high))
        left, codes = rank.flatten(), np.zeros(rank.size, np.int64)
        for level in counts.levels():
            counting.descend(level.zeros, level.weights, level.border, level.bit, low, high, left, codes)
            counts.operations += len(left)
        return codes.clip(max=max(0, counts.size - 1)).reshape(rank.shape)

    def ranked_by_sliding(self, rank: Counts) -> Codes:
        """A window from the one before it: new rows are added to their values and to blocks of values, old ones
        subtracted (pseudo-differential, li 3.2.2); a rank is looked for block by block, and then within one.

        Requires: nothing of the windows; it pays where there are few, and neighbours share rows or have few.
        Time: O(n sqrt(w)) rows added and subtracted for w windows over n rows at the worst, O(n) where all windows
        are equally long; then O(sqrt(v)) a rank for v different values.
        Space: O(v).
        """
        counts = self._counts
        codes = np.zeros(rank.shape, np.int64)
        order, moves = self._order
        if len(order):
            occurring, blocks = np.zeros(counts.size, counts.dtype), np.zeros(counts.blocks, counts.dtype)
            rows = counting.WeightedCodes(counts.code, counts.count)
            now = counting.InBlocks(occurring, blocks, counts.shift)
            counting.ranked_by_sliding(rows, order, self._low, self._high, now, rank, codes)
            counts.operations += moves
        return codes

    @cached_property
    def in_order(self) -> Top:
        """The different codes of each range in ascending order with their counts: those of range i lie between offsets
        i and i + 1.

        Rows are sorted by their codes once; then each is appended to the list of its window. Windows that overlap
        are listed in several passes, each with windows that lie apart.

        Requires: nothing of the windows; it pays where a row is in few of them.
        Time: O(n) for n rows a pass, as many passes as there are windows over one row.
        Space: O(rows of all windows).
        """
        counts, length = self._counts, self._high - self._low
        first = np.cumsum(length) - length
        codes, frequencies = (np.zeros(int(length.sum()), np.int64) for _ in range(2))
        size = np.zeros(len(length), np.int64)
        layer, layers = self._layers
        for number in range(layers):
            own = np.flatnonzero(layer == number)
            window_of = np.full(len(counts.code), -1, np.int32)
            listing.mark_rows(own, self._low, self._high, window_of)
            rows = counts.by_code
            if FEW * int(length[own].sum()) < len(counts.code):
                rows = np.flatnonzero(window_of >= 0)
                rows = rows[np.argsort(counts.code[rows], kind="stable")]
            listing.list_rows(rows, counts.code, counts.count, window_of, first, size, codes, frequencies)
            counts.operations += len(rows)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(size)])
        if int(offsets[-1]) < len(codes):
            is_there = frequencies > 0
            codes, frequencies = codes[is_there], frequencies[is_there]
        return offsets, codes, frequencies

    @property
    def _layers(self) -> tuple[Index, int]:
        """The layer of each range, -1 of empty ones, and how many layers there are: ranges of a layer lie apart."""
        layer = np.full(len(self._low), -1, np.intp)
        filled = np.flatnonzero(self._low < self._high)
        order = filled[np.argsort(self._low[filled], kind="stable")]
        return layer, listing.layers_of(order, self._low, self._high, layer)

    def top(self, k: int) -> Top:
        """The k most frequent codes of each range with their counts, most frequent first, of equally frequent ones the
        smaller first: those of range i lie between offsets i and i + 1."""
        if k not in self._tops:
            cells = len(self._counts.code) + (len(self._low) + len(self._bounds)) * self._counts.size
            snapshots_pay = LOOK * cells < MOVE * self._order[1]
            self._tops[k] = self.top_by_snapshots(k) if snapshots_pay else self.top_by_sliding(k)
        return self._tops[k]

    def top_by_sliding(self, k: int) -> Top:
        """A window from the one before it: new rows are added, old ones subtracted (pseudo-differential, li 3.2.2).

        Windows are taken in an order in which neighbours share most rows. Blocks of values know the most that any of
        theirs may occur, so that a window looks at few of them.

        Requires: nothing of the windows; it pays where neighbours share rows, or windows have few.
        Time: O(n sqrt(w)) rows added and subtracted for w windows over n rows at the worst, O(n) where all windows
        are equally long; then O(sqrt(v)) a window for v different values where few of them are frequent, else O(v).
        Space: O(v).
        """
        counts = self._counts
        offsets, codes, frequencies = self._room(k)
        order, moves = self._order
        if len(order):
            shift, blocks = counts.shift, counts.blocks
            occurring, bound = np.zeros(counts.size, counts.dtype), np.zeros(blocks, counts.dtype)
            looked, seen = np.full(blocks, -1, np.int32), np.full(counts.size, -1, np.int32)
            rows = counting.WeightedCodes(counts.code, counts.count)
            windows = counting.RowWindows(order, self._low, self._high, offsets)
            now = counting.Sliding(occurring, seen, bound, looked, shift)
            counting.top_by_sliding(rows, windows, now, counting.Heaps(codes, frequencies))
            counts.operations += moves
        counting.in_order(codes, frequencies, offsets)
        return offsets, codes, frequencies

    def top_by_snapshots(self, k: int) -> Top:
        """How often each value occurs up to each bound of a window; a window is the difference of two (golab 2.3.4).

        Requires: nothing of the windows; it pays where there are few different values and many windows.
        Time: O(n) for n rows, O(v) a window for v different values.
        Space: O(v) a bound of a window; windows are taken in parts to limit it.
        """
        counts = self._counts
        offsets, codes, frequencies = self._room(k)
        order = np.lexsort((self._high, self._low))
        order = order[self._low[order] < self._high[order]]
        at_once = max(1, MOST_SNAPSHOTS // (2 * max(1, counts.size)))
        for at in range(0, len(order), at_once):
            part = order[at : at + at_once]
            low, high = self._low[part], self._high[part]
            bounds = distinct(np.concatenate([low, high]))
            prefixes = np.zeros((len(bounds), counts.size), counts.dtype)
            counting.snapshots(counts.code, counts.count, bounds, prefixes)
            begin, end = np.searchsorted(bounds, low), np.searchsorted(bounds, high)
            counting.top_of_differences(
                prefixes, begin, end, offsets[part], offsets[part + 1] - offsets[part], codes, frequencies
            )
            counts.operations += int(bounds[-1] - bounds[0]) + (len(bounds) + len(part)) * counts.size
        counting.in_order(codes, frequencies, offsets)
        return offsets, codes, frequencies

    def _room(self, k: int) -> Top:
        """Where each range's most frequent codes go: k of them, or as many as there are."""
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(self.distinct, k))])
        return offsets, np.zeros(int(offsets[-1]), np.int64), np.zeros(int(offsets[-1]), np.int64)

    @cached_property
    def _bounds(self) -> Counts:
        return distinct(np.concatenate([self._low, self._high]))

    @cached_property
    def _order(self) -> tuple[Index, int]:
        """An order of the ranges in which neighbours share most rows, and how many rows are added and subtracted.

        Those that begin in the same stretch of rows go by their ends, up and down by turns, so that ends move about
        once over the rows for each stretch and beginnings move within it. Several widths of a stretch are tried.
        """
        filled = np.flatnonzero(self._low < self._high)
        low, high = self._low[filled], self._high[filled]
        width = len(self._counts.code) / max(1, isqrt(len(filled)))
        best, least = filled, -1
        for stretch in (1, int(width / 8), int(width / 2), int(width * 2)):
            which = low // max(1, stretch)
            order = np.lexsort((np.where(which & 1, -high, high), which))
            moves = _moves(low[order], high[order])
            if least < 0 or moves < least:
                best, least = filled[order], moves
        return best, least


def _moves(low: Counts, high: Counts) -> int:
    """How many rows are added and subtracted when ranges follow one another so."""
    if not len(low):
        return 0
    apart = (low[1:] >= high[:-1]) | (high[1:] <= low[:-1])
    anew = (high[:-1] - low[:-1]) + (high[1:] - low[1:])
    moved = np.abs(np.diff(low)) + np.abs(np.diff(high))
    return int(high[0] - low[0]) + int(np.where(apart, anew, moved).sum())
