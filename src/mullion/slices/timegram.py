"""The timegram: buckets of values that know their newest rows, which answer row windows of any size within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.expressions.arrays import Mask, Real, Whole
from mullion.slices.kernels import timegram as loops
from mullion.slices.recent_rows import RecentRows

FUNCTIONS = ("max", "min", "count", "sum", "avg")
LEARNING = 1024
"""Rows from which the first range of the buckets is learnt."""
PARTS = 16
"""The range is looked at again whenever this part of the rows is new."""
FEW = 64
"""One value of so many may be beyond the range before it is laid anew."""
EXACT = 1 << 26
"""Up to here a number times a count is exact in two parts."""


class Bounds(NamedTuple):
    """The exact answer of window i lies in low[i] .. high[i]. Where `valid` is False it is NULL."""

    low: Real
    high: Real
    valid: Mask


class TimeGram:
    """Each bucket of values knows its newest row, which answers max and min of the last w rows within the ends of a
    bucket, for every w up to the largest; sums kept before each block answer count, sum and avg (wang-freschl 3).

        bucket       [-10, -6]   [-6, -2]   [-2, 4]   [4, 6]   [6, 10]
        newest row       3           7         5         4        6        max of the last 3: [6, 10]

    Windows share all of it: none is registered, and when and how often they are asked does not matter. The paper keeps
    all row numbers of a bucket and adds the ends of buckets; of a bucket only the newest row can matter to max and min,
    and sums of the values themselves are exact but for the last bit.

    A row with a NULL counts as a row and has no value. -infinity, +infinity and NaN have a bucket each, which is exact;
    NaN is larger than any number. A value beyond the first or the last bucket moves the end of that bucket outwards,
    until the bucket is empty again.

    The range is given, by `boundaries` or by `low` and `high`, and stays; or it is learnt from the first 1,024 rows and
    follows the values. Whenever a sixteenth of the rows is new, and at least 1,024, it is laid anew around the values
    that are held, if one of 64 new ones was beyond it, with room for as much again as half of it on that side; if its
    ends had to move by more than a bucket, but not so far that this would make the others twice as wide; or if all that
    are held lie in a quarter of the buckets.

    Requires: doubles.
    Time: O(log k) a row with k buckets, and amortised as much for laying anew; max and min of all windows asked
    together O(k + log k a window), count, sum and avg O(1) a window.
    Space: O(n) for the largest window of n rows and the newest batch, and O(k).
    Guarantee: the exact answer lies within the bounds, rounding included. Those of max and min are the ends of one
    bucket. Those of sum and avg are neighbouring doubles, or equal; where rounding in between shows, 1e-12 apart.

    >>> gram = TimeGram(4, boundaries=[-10, -6, -2, 4, 6, 10])
    >>> gram.extend(np.array([3.0, -10, -9, 5, 2, 7, -3]))
    >>> low, high, valid = gram.lookup("max", np.array([3, 1]))
    >>> low.tolist(), high.tolist()
    ([6.0, -6.0], [10.0, -2.0])
    """

    def __init__(
        self,
        rows: int,
        *,
        buckets: int = 64,
        boundaries: npt.ArrayLike | None = None,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        if rows < 1:
            raise ValueError(f"the largest window has at least one row, not {rows}")
        if (low is None) != (high is None) or (low is not None and boundaries is not None):
            raise ValueError("give boundaries, or low and high, or neither")
        if boundaries is None and low is not None and high is not None:
            boundaries = _uniform(low, high, buckets)
        ends = np.zeros(buckets + 1) if boundaries is None else np.array(boundaries, np.float64)
        if ends.ndim != 1 or len(ends) < 2 or not np.isfinite(ends).all() or (ends[1:] < ends[:-1]).any():
            raise ValueError("boundaries are two or more finite numbers in order, and there is at least one bucket")
        self.rows = rows
        self._recent = RecentRows(rows, np.float64, np.bool_, step=loops.BLOCK)
        self._sums, self._counts = np.empty((0, 3)), np.empty((0, 4), np.int64)
        self._all_sums, self._all_counts = np.zeros(3), np.zeros(4, np.int64)
        self._ends, self._resting = ends, ends.copy()
        self._newest = np.zeros(len(ends) - 1 + loops.SPECIAL, np.int64)
        self._beyond = np.zeros(2, np.int64)
        """Values beyond the first and the last bucket since the range was looked at."""
        self._is_given = boundaries is not None
        self._is_laid = self._is_given
        """Whether there was a finite value to lay buckets around."""
        self._looked_at, self._look_at = 0, LEARNING
        """The rows after which the range was looked at, and will be. Up to the first look it is learnt."""

    @property
    def seen(self) -> int:
        """Rows so far; the newest has this number."""
        return self._recent.seen

    @property
    def boundaries(self) -> Real:
        """The ends of the buckets of finite values."""
        return self._ends.copy()

    def copy(self) -> Self:
        """One that may take in rows while others ask this one. O(k)."""
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        copied._recent = self._recent.copy()
        for own in ("_all_sums", "_all_counts", "_ends", "_newest", "_beyond"):
            setattr(copied, own, getattr(self, own).copy())
        return copied

    def extend(self, values: npt.ArrayLike, valid: npt.ArrayLike | None = None) -> None:
        """Take in the rows of a batch, oldest first. Where `valid` is False the value is NULL."""
        self.extend_and_lookup(values, "max", [], [], valid)

    def extend_and_lookup(
        self,
        values: npt.ArrayLike,
        function: str,
        windows: npt.ArrayLike,
        at: npt.ArrayLike,
        valid: npt.ArrayLike | None = None,
    ) -> Bounds:
        """Take in the rows of a batch, and answer window i as it is after row at[i], with all rows up to that number.

        `at` lies within the batch, its start and its end included, and does not decrease.
        """
        taken = np.array(values, np.float64)
        known = np.ones(len(taken), np.bool_) if valid is None else np.array(valid, np.bool_)
        asked, after = np.array(windows, np.int64, ndmin=1), np.array(at, np.int64, ndmin=1)
        before = self.seen
        if taken.shape != known.shape or taken.ndim != 1:
            raise ValueError("values and valid are columns of one length")
        if asked.shape != after.shape or (np.diff(after) < 0).any():
            raise ValueError("at has a number for each window, and they do not decrease")
        if len(after) and (after[0] < before or after[-1] > before + len(taken)):
            raise ValueError(f"at lies within the batch, from {before} to {before + len(taken)}")
        self._check(function, asked)
        self._keep(taken, known)
        bounds, there = np.empty((2, len(asked))), np.empty(len(asked), np.bool_)
        row = before
        while True:
            upto = self.seen if self._is_given else min(self.seen, self._look_at)
            own = slice(*np.searchsorted(after, [row + (row > before), upto + 1]))
            part = slice(row - before, upto - before)
            self._place(taken[part], known[part], row, asked[own], after[own], function, bounds[:, own], there[own])
            if upto == self._look_at and not self._is_given:
                self._look(upto)
            if upto == self.seen:
                break
            row = upto
        self._draw_back()
        if function in ("max", "min"):
            return Bounds(bounds[0], bounds[1], there)
        return self._total(function, asked, after)

    def lookup(self, function: str, windows: npt.ArrayLike) -> Bounds:
        """Bounds for the last w rows, for each w of `windows`."""
        asked = np.array(windows, np.int64, ndmin=1)
        self._check(function, asked)
        if function not in ("max", "min"):
            return self._total(function, asked, np.full(len(asked), self.seen))
        bounds, valid = np.empty((2, len(asked))), np.empty(len(asked), np.bool_)
        loops.extremes(asked, self.seen, function == "max", self._ends, self._newest, bounds, valid)
        return Bounds(bounds[0], bounds[1], valid)

    def _check(self, function: str, asked: Whole) -> None:
        if function not in FUNCTIONS:
            raise ValueError(f"a timegram answers {', '.join(FUNCTIONS)}, not {function}")
        wrong = asked[(asked < 1) | (asked > self.rows)]
        if len(wrong):
            raise ValueError(f"windows have 1 to {self.rows} rows, not {wrong[0]}")

    def _total(self, function: str, asked: Whole, after: Whole) -> Bounds:
        stops = after - self._recent.before
        bounds, counts = np.empty((2, len(asked))), np.empty(len(asked), np.int64)
        starts = np.maximum(stops - asked, 0)
        values, known = self._recent.columns
        loops.totals(values, known, self._sums, self._counts, starts, stops, bounds, counts)
        if function == "count":
            exact = counts.astype(np.float64)
            return Bounds(exact, exact.copy(), np.ones(len(asked), np.bool_))
        if function == "avg":
            bounds = np.array([_divided(bounds[0], counts, -np.inf), _divided(bounds[1], counts, np.inf)])
        return Bounds(bounds[0], bounds[1], counts > 0)

    def _keep(self, values: Real, known: Mask) -> None:
        """Keep the values, and sums before each block of them."""
        first = self.seen - self._recent.before
        if self._recent.append(values, known):
            first, room = 0, len(self._recent.columns[0]) // loops.BLOCK + 1
            self._sums, self._counts = np.empty((room, 3)), np.empty((room, 4), np.int64)
            self._all_sums[:], self._all_counts[:] = 0, 0
        own = self._sums, self._counts, self._all_sums, self._all_counts
        held, are_known = self._recent.columns
        loops.add_up(held, are_known, first, self.seen - self._recent.before, *own)

    def _place(
        self,
        values: Real,
        known: Mask,
        row: int,
        asked: Whole,
        after: Whole,
        function: str,
        bounds: Real,
        valid: Mask,
    ) -> None:
        """Rows go to their buckets, which are laid around them as long as the range is learnt."""
        if not self._is_given and not (self._is_laid and self._looked_at):
            least, most = loops.extent(values, known)
            low, high = (self._ends[0], self._ends[-1]) if self._is_laid else (np.inf, -np.inf)
            if least < low or most > high:
                self._lay(min(low, least), max(high, most), row)
        own = self._ends, self._resting, self._newest, self._beyond
        loops.place_and_answer(values, known, row, *own, asked, after, function == "max", bounds, valid)

    def _look(self, row: int) -> None:
        """Lay the buckets anew if the values have left them, or fill few of them."""
        buckets = len(self._ends) - 1
        passed = row - self._looked_at
        is_learnt = self._is_laid and bool(self._looked_at)
        beyond = self._beyond * FEW > passed
        self._beyond[:] = 0
        self._looked_at, self._look_at = row, row + max(LEARNING, min(row, self.rows) // PARTS)
        used = np.flatnonzero(self._newest[1 : buckets + 1] > row - self.rows)
        if not is_learnt or not len(used):
            return
        is_narrow = (used[-1] - used[0] + 1) * 4 <= buckets
        half, rested = self._ends[-1] / 2 - self._ends[0] / 2, self._resting[-1] / 2 - self._resting[0] / 2
        is_wide = rested * (1 + 1 / buckets) < half <= 2 * rested
        if beyond.any() or is_narrow or is_wide:
            low, high = loops.extent(*self._at(max(0, row - self.rows), row))
            room, most = high / 2 - low / 2, np.finfo(np.float64).max
            if beyond.any() or is_wide or 2 * room < rested:
                self._lay(max(low - room * beyond[0], -most), min(high + room * beyond[1], most), row)

    def _lay(self, low: float, high: float, row: int) -> None:
        """Equal buckets from low to high, with all rows up to `row` that are held."""
        self._ends = _uniform(low, high, len(self._ends) - 1)
        self._resting, self._is_laid = self._ends.copy(), True
        self._fill(row)

    def _fill(self, row: int) -> None:
        self._newest[:] = 0
        first = max(self._recent.before, row - self.rows)
        loops.place(*self._at(first, row), first, self._ends, self._resting, self._newest, np.zeros(2, np.int64))

    def _at(self, after: int, upto: int) -> tuple[Real, Mask]:
        before = self._recent.before
        values, known = (column[max(0, after - before) : upto - before] for column in self._recent.columns)
        return values, known

    def _draw_back(self) -> None:
        """An end that was moved goes back where nothing is left in its bucket."""
        for end, bucket in ((0, 1), (-1, len(self._ends) - 1)):
            if self._ends[end] != self._resting[end] and self._newest[bucket] <= self.seen - self.rows:
                self._ends[end] = self._resting[end]

    def snapshot(self) -> dict[str, Any]:
        """What `restore` needs beside the tables."""
        return {
            "rows": self.rows,
            "seen": self.seen,
            "is_given": self._is_given,
            "is_laid": self._is_laid,
            "looks": [self._looked_at, self._look_at],
            "beyond": self._beyond.tolist(),
        }

    def rows_after(self, row: int) -> pa.Table:
        """The rows after number `row` that are held."""
        values, known = self._recent.last(min(self.rows, self.seen - row))
        return pa.table({"value": pa.array(values, mask=~known)})

    def ends(self) -> pa.Table:
        """The ends of the buckets, and where they go back to."""
        return pa.table({"end": self._ends, "resting": self._resting})

    @classmethod
    def restore(cls, state: Mapping[str, Any], rows: pa.Table, ends: pa.Table) -> Self:
        """As it was, from all rows that are held, or more."""
        gram = cls(state["rows"], boundaries=ends["end"].to_numpy())
        gram._resting = ends["resting"].to_numpy().copy()
        gram._is_given, gram._is_laid = state["is_given"], state["is_laid"]
        gram._looked_at, gram._look_at = state["looks"]
        held = rows["value"].combine_chunks().slice(max(0, len(rows) - gram.rows))
        skipped = (state["seen"] - len(held)) // loops.BLOCK * loops.BLOCK
        gram._recent.seen = gram._recent.before = skipped
        gap = state["seen"] - len(held) - skipped
        values = np.concatenate([np.zeros(gap), held.fill_null(0.0).to_numpy()])
        known = np.concatenate([np.zeros(gap, np.bool_), np.asarray(held.is_valid())])
        gram._keep(values, known)
        gram._fill(gram.seen)
        gram._beyond[:] = state["beyond"]
        return gram


def _uniform(low: float, high: float, buckets: int) -> Real:
    """Boundaries of equal buckets; neither the width nor an end may overflow."""
    if buckets < 1 or not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ValueError("a range needs a finite low that is not above its high, and at least one bucket")
    parts = np.arange(buckets + 1) / buckets
    ends = np.clip(np.maximum.accumulate(low * (1 - parts) + high * parts), low, high)
    ends[0], ends[-1] = low, high
    return ends


def _split(values: Real) -> tuple[Real, Real]:
    """The first 26 bits of each number and the rest."""
    first = (values.view(np.int64) & ~np.int64((1 << 27) - 1)).view(np.float64)
    return first, values - first


def _divided(totals: Real, counts: Whole, toward: float) -> Real:
    """totals / counts, rounded outwards where that is not exact; NaN where nothing was counted."""
    with np.errstate(all="ignore"):
        quotient = totals / counts
        first, rest = (part * counts for part in _split(quotient))
        product = first + rest
        back = product - first
        lost = (first - (product - back)) + (rest - back)
        exact = ((product == totals) & (lost == 0) & (counts <= EXACT)) | ~np.isfinite(quotient)
        return np.where(exact, quotient, np.nextafter(quotient, toward))
