"""The loops of a timegram: row numbers go into buckets by value, and windows are answered from them.

Bucket b keeps its row numbers, oldest first, at pool[head[b]:tail[b]]; up to pool[start[b + 1]] is room for more.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mullion.expressions.arrays import Array

SPECIAL = 3
"""Buckets beside those of finite values: the first holds -infinity, the last but one +infinity, the last NaN."""
NO_ROW = np.iinfo(np.int64).min


@njit(cache=True, nogil=True)
def after(pool: Array, low: int, high: int, row: int) -> int:
    """Where in pool[low:high] the first number above `row` stands."""
    while low < high:
        middle = (low + high) >> 1
        if pool[middle] <= row:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def place(values: Array, valid: Array, inner: Array, codes: Array) -> tuple[float, float]:
    """The bucket of each value, -1 for NULL; returns the least and the largest finite value."""
    least, most = np.inf, -np.inf
    last = len(inner) + 2
    for i in range(len(values)):
        value = values[i]
        if not valid[i]:
            codes[i] = -1
        elif value != value:
            codes[i] = last + 1
        elif value == np.inf:
            codes[i] = last
        elif value == -np.inf:
            codes[i] = 0
        else:
            low, high = 0, len(inner)
            while low < high:
                middle = (low + high) >> 1
                if inner[middle] <= value:
                    low = middle + 1
                else:
                    high = middle
            codes[i] = low + 1
            least, most = min(least, value), max(most, value)
    return least, most


@njit(cache=True, nogil=True)
def append(
    pool: Array, start: Array, head: Array, tail: Array, rows: Array, codes: Array, first: int, horizon: int
) -> int:
    """Add rows from number `first` on to their buckets; rows up to `horizon` may be dropped.

    A full bucket drops what has expired and moves the rest to its beginning, if that frees half of it. Returns how many
    rows were dealt with before one found no room.
    """
    for i in range(first, len(rows)):
        b = codes[i]
        if b < 0:
            continue
        if tail[b] == start[b + 1]:
            head[b] = after(pool, head[b], tail[b], horizon)
            shift = head[b] - start[b]
            if shift == 0 or 2 * shift < start[b + 1] - start[b]:
                return i
            for j in range(head[b], tail[b]):
                pool[j - shift] = pool[j]
            head[b] -= shift
            tail[b] -= shift
        pool[tail[b]] = rows[i]
        tail[b] += 1
    return len(rows)


@njit(cache=True, nogil=True)
def unreachable(windows: Array, at: Array, limits: tuple[int, int, int]) -> int:
    """The first window that cannot be answered, or -1; the limits are the largest window and the rows asked after."""
    largest, oldest, seen = limits
    for i in range(len(windows)):
        row = at[i] if len(at) > 1 else at[0]
        if windows[i] < 1 or windows[i] > largest or row < oldest or row > seen:
            return i
    return -1


@njit(cache=True, nogil=True)
def extremes(
    pool: Array,
    head: Array,
    tail: Array,
    windows: Array,
    at: Array,
    limits: tuple[int, int, int],
    of_largest: bool,
    ends: Array,
    bounds: Array,
    valid: Array,
) -> int:
    """The ends of the bucket that holds the extreme of each window; returns what `unreachable` does.

    For one row that is asked after, the newest number of each bucket is found from the extreme end on, as far as a
    window needs it. The newest so far only grows: the bucket of the next window is one binary search.
    """
    wrong = unreachable(windows, at, limits)
    if wrong >= 0:
        return wrong
    buckets = len(head)
    newest = np.empty(buckets, np.int64)
    asked, reached, known = NO_ROW, NO_ROW, 0
    for i in range(len(windows)):
        row = at[i] if len(at) > 1 else at[0]
        if row != asked:
            asked, reached, known = row, NO_ROW, 0
        while known < buckets and reached <= row - windows[i]:
            b = buckets - 1 - known if of_largest else known
            end = tail[b]
            if end > head[b]:
                if pool[end - 1] > row:
                    end = after(pool, head[b], end, row)
                if end > head[b]:
                    reached = max(reached, pool[end - 1])
            newest[known] = reached
            known += 1
        j = after(newest, 0, known, row - windows[i])
        valid[i] = j < known
        b = buckets - 1 - j if of_largest else j
        if j == known or b == buckets - 1:
            bounds[0, i] = bounds[1, i] = np.nan
        elif b == 0 or b == buckets - 2:
            bounds[0, i] = bounds[1, i] = -np.inf if b == 0 else np.inf
        else:
            bounds[0, i], bounds[1, i] = ends[b - 1], ends[b]
    return -1


@njit(cache=True, nogil=True)
def _plus(total: float, slack: float, term: float) -> tuple[float, float]:
    """Knuth's exact addition: what rounding takes away is added to the slack."""
    result = total + term
    back = result - total
    return result, slack + abs((total - (result - back)) + (term - back))


@njit(cache=True, nogil=True)
def totals(
    pool: Array,
    head: Array,
    tail: Array,
    windows: Array,
    at: Array,
    limits: tuple[int, int, int],
    ends: Array,
    bounds: Array,
    counts: Array,
) -> int:
    """How many values each window holds, and between which bounds their sum lies; returns what `unreachable` does.

    `ends` are the low ends of the buckets of finite values and then their high ends, each in two parts of at most 27
    bits, so that a part times a count below 2^26 is exact. A sum is off by no more than all its roundings together.
    """
    wrong = unreachable(windows, at, limits)
    if wrong >= 0:
        return wrong
    buckets = len(head)
    upto = np.empty(buckets, np.int64)
    asked = NO_ROW
    for i in range(len(windows)):
        row = at[i] if len(at) > 1 else at[0]
        if row != asked:
            asked = row
            for b in range(buckets):
                upto[b] = tail[b]
                if tail[b] > head[b] and pool[tail[b] - 1] > row:
                    upto[b] = after(pool, head[b], tail[b], row)
        count = 0
        least, least_slack, most, most_slack = 0.0, 0.0, 0.0, 0.0
        below, above, nan = 0, 0, 0
        for b in range(buckets):
            if upto[b] == head[b] or pool[upto[b] - 1] <= row - windows[i]:
                continue
            own = upto[b] - after(pool, head[b], upto[b], row - windows[i])
            count += own
            if b == 0:
                below = own
            elif b == buckets - 2:
                above = own
            elif b == buckets - 1:
                nan = own
            else:
                for part in range(2):
                    least, least_slack = _plus(least, least_slack, ends[part, b - 1] * own)
                    most, most_slack = _plus(most, most_slack, ends[2 + part, b - 1] * own)
        counts[i] = count
        if nan or (below and above):
            bounds[0, i] = bounds[1, i] = np.nan
        elif below or above:
            bounds[0, i] = bounds[1, i] = np.inf if above else -np.inf
        else:
            bounds[0, i], bounds[1, i] = _less(least, least_slack), -_less(-most, most_slack)
    return -1


@njit(cache=True, nogil=True)
def _less(total: float, slack: float) -> float:
    """A double that is not above the exact sum; the slack itself was rounded."""
    if slack == 0.0:
        return total
    if not np.isfinite(total) or not np.isfinite(slack):
        return -np.inf
    return float(np.nextafter(total - slack * 1.000001, -np.inf))
