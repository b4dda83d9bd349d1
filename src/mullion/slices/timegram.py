"""The timegram: row numbers in buckets of values, which answer row windows of any size within bounds."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.expressions.arrays import Mask, Real, Whole
from mullion.slices.kernels import timegram as loops

FUNCTIONS = ("max", "min", "count", "sum", "avg")
LARGEST = 1 << 26
"""Rows of the largest window: up to here a boundary times a count is exact in two parts."""
LEARNING = 1024
"""Values from which the range of the buckets is learnt."""


class Bounds(NamedTuple):
    """The exact answer of window i lies in low[i] .. high[i]. Where `valid` is False it is NULL."""

    low: Real
    high: Real
    valid: Mask


class TimeGram:
    """One list of row numbers for each bucket of values answers max, min, count, sum and avg of the last w rows, for
    every w up to the largest (wang-freschl 3).

        bucket   [-10, -6]   [-6, -2]   [-2, 4]   [4, 6]   [6, 10]
        rows                     7         5         4        6        max of the last 3: [6, 10]

    Windows share all of it: none is registered, and when and how often they are asked does not matter. Max and min are
    the ends of a bucket, count is exact, a sum is made of the buckets' counts times their ends, and avg divides that by
    the number of values in the window.

    A row with a NULL counts as a row and has no value. -infinity, +infinity and NaN have a bucket each, which is exact;
    NaN is larger than any number. A value beyond the first or the last bucket moves the end of that bucket outwards,
    until the bucket is empty again. The range is given, by `boundaries` or by `low` and `high`, or it is learnt: the
    first 1,024 values are kept, and the buckets laid anew whenever one of them is outside.

    Requires: doubles; windows of at most 2^26 rows.
    Time: O(log k) a row with k buckets; max and min of all windows asked together O(k log n + log k a window), count,
    sum and avg O(k log n) a window. Row numbers that have expired are dropped when room is needed, amortised O(1).
    Space: O(n) for the largest window of n rows and the newest batch.
    Guarantee: the exact answer lies within the bounds, rounding included.

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
        if not 1 <= rows <= LARGEST:
            raise ValueError(f"the largest window has 1 to {LARGEST:,} rows, not {rows}")
        if (low is None) != (high is None) or (low is not None and boundaries is not None):
            raise ValueError("give boundaries, or low and high, or neither")
        if boundaries is None and low is not None and high is not None:
            boundaries = _uniform(low, high, buckets)
        learnt = boundaries is not None
        given = np.zeros(buckets + 1) if boundaries is None else np.array(boundaries, np.float64)
        if given.ndim != 1 or len(given) < 2 or not np.isfinite(given).all() or (given[1:] < given[:-1]).any():
            raise ValueError("boundaries are two or more finite numbers in order, and there is at least one bucket")
        self.rows = rows
        self.seen = 0
        """Rows so far; the newest has this number."""
        self._asked_from = 0
        """Rows before the newest batch: no window that ended earlier can be asked."""
        self._lay(given)
        self._first: tuple[Whole, Real] | None = None if learnt else (np.empty(0, np.int64), np.empty(0))
        """Rows and values that the range is learnt from; None when that is done."""

    @property
    def boundaries(self) -> Real:
        """The ends of the buckets of finite values."""
        return self._ends.copy()

    def extend(self, values: npt.ArrayLike, valid: npt.ArrayLike | None = None) -> None:
        """Take in the rows of a batch, oldest first. Where `valid` is False the value is NULL."""
        taken = np.array(values, np.float64)
        known = np.ones(len(taken), np.bool_) if valid is None else np.array(valid, np.bool_)
        if taken.shape != known.shape or taken.ndim != 1:
            raise ValueError("values and valid are columns of one length")
        rows = np.arange(self.seen + 1, self.seen + len(taken) + 1, dtype=np.int64)
        self._asked_from, self.seen = self.seen, self.seen + len(taken)
        if self._first is not None:
            rows, taken = self._learn(rows[known], taken[known])
            known = np.ones(len(taken), np.bool_)
        codes = np.empty(len(taken), np.int64)
        least, most = loops.place(taken, known, self._ends[1:-1], codes)
        self._append(rows, codes)
        self._move_ends(least, most)

    def lookup(self, function: str, windows: npt.ArrayLike, at: npt.ArrayLike | None = None) -> Bounds:
        """Bounds for the last w rows, for each w of `windows`.

        `at` is the number of rows after which is asked, one for all windows or one for each: any within the newest
        batch, the start and the end of it included. Without it, after the newest row.
        """
        asked = np.array(windows, np.int64, ndmin=1)
        after = np.array(self.seen if at is None else at, np.int64, ndmin=1)
        if len(after) not in (1, len(asked)):
            raise ValueError("at is one number, or one for each window")
        if function not in FUNCTIONS:
            raise ValueError(f"a timegram answers {', '.join(FUNCTIONS)}, not {function}")
        lists = self._pool, self._head, self._tail
        limits = self.rows, self._asked_from, self.seen
        bounds = np.empty((2, len(asked)))
        if function in ("max", "min"):
            valid = np.empty(len(asked), np.bool_)
            wrong = loops.extremes(*lists, asked, after, limits, function == "max", self._ends, bounds, valid)
        else:
            counts = np.empty(len(asked), np.int64)
            ends = np.array([*_split(self._ends[:-1]), *_split(self._ends[1:])])
            wrong = loops.totals(*lists, asked, after, limits, ends, bounds, counts)
            valid = counts > 0
        if wrong >= 0:
            raise ValueError(
                f"windows have 1 to {self.rows} rows and end after row {self._asked_from} to {self.seen}: "
                f"{asked[wrong]} rows after row {after[wrong if len(after) > 1 else 0]} cannot be answered"
            )
        if function == "count":
            exact = counts.astype(np.float64)
            return Bounds(exact, exact.copy(), np.ones(len(asked), np.bool_))
        if function == "avg":
            return Bounds(_divided(bounds[0], counts, -np.inf), _divided(bounds[1], counts, np.inf), valid)
        return Bounds(bounds[0], bounds[1], valid)

    def _learn(self, rows: Whole, values: Real) -> tuple[Whole, Real]:
        """Keep the first values, and lay the buckets anew if they outgrow the range; returns what is to be added."""
        assert self._first is not None
        before = self._first[1][np.isfinite(self._first[1])]
        learnt = np.concatenate((self._first[0], rows)), np.concatenate((self._first[1], values))
        self._first = learnt if len(learnt[1]) < LEARNING else None
        finite = learnt[1][np.isfinite(learnt[1])]
        if not len(finite) or (len(before) and before.min() <= finite.min() and before.max() >= finite.max()):
            return rows, values
        self._lay(_uniform(finite.min(), finite.max(), len(self._ends) - 1))
        return learnt

    def _lay(self, boundaries: Real) -> None:
        """Empty buckets between these boundaries."""
        self._ends, self._resting = boundaries.copy(), boundaries.copy()
        self._moved = False
        number = len(boundaries) - 1 + loops.SPECIAL
        self._pool: Whole = np.empty(0, np.int64)
        self._start = np.zeros(number + 1, np.int64)
        self._head, self._tail = np.zeros(number, np.int64), np.zeros(number, np.int64)

    def _append(self, rows: Whole, codes: Whole) -> None:
        done, horizon = 0, self._asked_from - self.rows
        while True:
            done = loops.append(self._pool, self._start, self._head, self._tail, rows, codes, done, horizon)
            if done == len(rows):
                return
            self._make_room(np.bincount(codes[done:][codes[done:] >= 0], minlength=len(self._head)), horizon)

    def _make_room(self, coming: Whole, horizon: int) -> None:
        """Move all buckets to a new pool in which each may double, and a small one may get its share of all rows."""
        pool, number = self._pool, len(self._head)
        contents = [pool[h:t][pool[h:t] > horizon] for h, t in zip(self._head, self._tail, strict=True)]
        sizes = np.array([len(rows) for rows in contents])
        share = min(self.rows, self.seen) // number + 8
        self._start = np.concatenate(([0], np.cumsum(2 * sizes + coming + share)))
        self._pool = np.empty(self._start[-1], np.int64)
        self._head = self._start[:-1].copy()
        self._tail = self._head + sizes
        for rows, head, tail in zip(contents, self._head, self._tail, strict=True):
            self._pool[head:tail] = rows

    def _move_ends(self, least: float, most: float) -> None:
        """Outwards for a value that is beyond them, and back where nothing is left in the bucket."""
        if not self._moved and least >= self._resting[0] and most <= self._resting[-1]:
            return
        ends, horizon = self._ends, self._asked_from - self.rows
        for end, bucket in ((0, 1), (-1, len(ends) - 1)):
            if ends[end] != self._resting[end] and (
                self._head[bucket] == self._tail[bucket] or self._pool[self._tail[bucket] - 1] <= horizon
            ):
                ends[end] = self._resting[end]
        ends[0], ends[-1] = min(ends[0], least), max(ends[-1], most)
        self._moved = bool(ends[0] != self._resting[0] or ends[-1] != self._resting[-1])

    def snapshot(self) -> tuple[dict[str, Any], pa.Table]:
        """What `restore` needs: facts that go into JSON, and a row for each row number of the largest window."""
        state = {
            "rows": self.rows,
            "seen": self.seen,
            "boundaries": self._ends.tolist(),
            "resting": self._resting.tolist(),
            "learning": self._first is not None,
        }
        if self._first is not None:
            rows, values = self._first
            return state, pa.table({"row": rows, "bucket": np.full(len(rows), -1, np.int32), "value": values})
        lists = [self._pool[h:t] for h, t in zip(self._head, self._tail, strict=True)]
        rows = np.concatenate(lists)
        buckets = np.repeat(np.arange(len(lists), dtype=np.int32), [len(rows) for rows in lists])
        live = rows > self.seen - self.rows
        rows, buckets = rows[live], buckets[live]
        order = np.argsort(rows)
        table = pa.table({"row": rows[order], "bucket": buckets[order], "value": pa.nulls(len(rows), pa.float64())})
        return state, table

    @classmethod
    def restore(cls, state: dict[str, Any], table: pa.Table) -> Self:
        """As it was; windows are answered from the next row on."""
        gram = cls(state["rows"], boundaries=state["boundaries"])
        gram.seen = gram._asked_from = state["seen"]
        gram._resting = np.array(state["resting"], np.float64)
        gram._moved = state["resting"] != state["boundaries"]
        rows = table["row"].to_numpy().astype(np.int64)
        if state["learning"]:
            values = table["value"].to_numpy().astype(np.float64)
            gram._first = rows, values
            codes = np.empty(len(rows), np.int64)
            loops.place(values, np.ones(len(rows), np.bool_), gram._ends[1:-1], codes)
        else:
            codes = table["bucket"].to_numpy().astype(np.int64)
        gram._append(rows, codes)
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
        exact = ((product == totals) & (lost == 0)) | ~np.isfinite(quotient)
        return np.where(exact, quotient, np.nextafter(quotient, toward))
