"""Loops of the count-sketch: counters in d rows, to which every key adds +1 or -1 at a place of its own in each row.

    bucket of the key -->  row 0   . . -3 . . 9 .      estimate: the median over rows of sign x counter
                           row 1   9 . . . -3 . .
                           row 2   . . -6 . . . .      here two keys meet: 6 is off, the median is not

Counters are whole numbers, so sketches are added and subtracted exactly (charikar 3). Beside each counter stands
whether any key came there: a key with a place to which none came did not come itself.
"""

from __future__ import annotations

import numpy as np

from mullion.expressions.arrays import Array
from mullion.loops import inlined_loop, loop

MOST_ROWS = 32


@inlined_loop
def _mixed(x: np.uint64) -> np.uint64:
    """The finalizer of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inlined_loop
def _seed(code: np.int64) -> np.uint64:
    return _mixed(np.uint64(code) + np.uint64(0x9E3779B97F4A7C15))


@inlined_loop
def _below(x: np.uint64, size: int) -> np.int64:
    """One of `size` numbers, by the higher half of a hash."""
    return np.int64(((x >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32))


@inlined_loop
def _place(seed: np.uint64, row: int) -> np.uint64:
    return _mixed(seed + np.uint64(row + 1) * np.uint64(0xD1342543DE82EF95))


@loop
def update(codes: Array, counters: Array, came: Array) -> None:
    """Count each code in its bucket. Both arrays are buckets x rows x width."""
    buckets, rows, width = counters.shape
    for i in range(len(codes)):
        seed = _seed(codes[i])
        bucket = _below(seed, buckets)
        for row in range(rows):
            x = _place(seed, row)
            at = _below(x, width)
            counters[bucket, row, at] += np.int64(1) - np.int64((x & np.uint64(1)) << np.uint64(1))
            came[bucket, row, at] = True


@loop
def update_counted(codes: Array, counts: Array, counters: Array) -> None:
    """The same for codes that came so often each; a negative count takes them out."""
    buckets, rows, width = counters.shape
    for i in range(len(codes)):
        seed = _seed(codes[i])
        bucket = _below(seed, buckets)
        for row in range(rows):
            x = _place(seed, row)
            sign = np.int64(1) - np.int64((x & np.uint64(1)) << np.uint64(1))
            counters[bucket, row, _below(x, width)] += sign * counts[i]


@loop
def estimate(codes: Array, counters: Array, came: Array, out: Array) -> None:
    """The median over rows for each code; between the two in the middle where rows are even. -1 where a code surely
    did not come."""
    buckets, rows, width = counters.shape
    estimates = np.empty(MOST_ROWS, np.int64)
    for i in range(len(codes)):
        seed = _seed(codes[i])
        bucket = _below(seed, buckets)
        absent = False
        for row in range(rows):
            x = _place(seed, row)
            at = _below(x, width)
            if not came[bucket, row, at]:
                absent = True
                break
            value = counters[bucket, row, at]
            if x & np.uint64(1):
                value = -value
            place = row
            while place > 0 and estimates[place - 1] > value:
                estimates[place] = estimates[place - 1]
                place -= 1
            estimates[place] = value
        if absent:
            out[i] = -1
        else:
            out[i] = max((estimates[(rows - 1) // 2] + estimates[rows // 2]) // 2, 0)


@loop
def squares(counters: Array, out: Array) -> None:
    """The sum of the squared counters of each row, buckets x rows: an estimate of the second moment of the counts."""
    buckets, rows, width = counters.shape
    for bucket in range(buckets):
        for row in range(rows):
            total = 0.0
            for at in range(width):
                value = np.float64(counters[bucket, row, at])
                total += value * value
            out[bucket, row] = total


@loop
def others(codes: Array, counters: Array, sums: Array, out: Array) -> None:
    """The second moment of the other keys of each code's bucket: what the squares sum up to without the code's own
    counter, in the row where that is most."""
    buckets, rows, width = counters.shape
    for i in range(len(codes)):
        seed = _seed(codes[i])
        bucket = _below(seed, buckets)
        most = 0.0
        for row in range(rows):
            own = np.float64(counters[bucket, row, _below(_place(seed, row), width)])
            most = max(most, sums[bucket, row] - own * own)
        out[i] = most


@loop
def distances(first: Array, first_events: int, second: Array, second_events: int, out: Array) -> None:
    """For each row the squared distance between two sketches, each divided by the number of its events."""
    buckets, rows, width = first.shape
    one, two = 1.0 / first_events, 1.0 / second_events
    for row in range(rows):
        total = 0.0
        for bucket in range(buckets):
            for at in range(width):
                off = first[bucket, row, at] * one - second[bucket, row, at] * two
                total += off * off
        out[row] = total
