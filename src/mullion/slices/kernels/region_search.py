"""The region of each value among sorted constants: nearly always found by position, without a search.

    constants   0    10   20                    1000
    buckets   |  |  |  |  |  |  | ..  |  ..   |  ..  |      a quarter of the constants lies in the first doubling
    first       0 1  1 1  2  2 3                  3         constants that lie in buckets before

Buckets are as long as each other where constants are dense, and further on they grow with the distance: the bits of a
double, which grow with its logarithm, are what a bucket is found by. So constants that lie evenly, and those of prices
and volumes, most of which are small, have hardly any bucket to themselves with more than one of them. Where one has
many, they are searched. Few constants are compared with one by one.

Time: O(1) a value where constants lie so, O(log c) for c constants wherever they lie.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Array, Mask, Unsigned
from mullion.expressions.readonly import frozen
from mullion.loops import loop

BUCKETS, MOST_BUCKETS = 256, 1 << 16
"""Buckets for each constant, and altogether: those that values fall into should stay in a cache. A search where several
constants share a bucket takes longer than all else, since nobody can foresee it."""
FEW, BLOCK = 6, 1 << 12
"""Up to so many constants are compared with one by one, for so many values at a time."""
DENSE = 4
"""One of so many constants lies in the first doubling."""


class Buckets(NamedTuple):
    """The constants from number first[b] on are not below the values of bucket b, unless they lie in it themselves."""

    first: Array
    """At most the number of the last constant; the complement of it where several constants lie in the bucket."""
    numbers: Array
    """How many constants lie in each bucket."""
    lowest: float
    doubling: float
    """Values up to so far above the lowest constant lie in the first doubling."""
    low: int
    high: int
    """The keys of the first and of the last bucket, which hold all that lies beyond, too."""
    shift: int


@loop
def _key(value: float, lowest: float, doubling: float) -> int:
    """Grows with the value. What a NaN has is no matter, but that it is a number."""
    return int(np.float64((value - lowest) + doubling).view(np.int64))


@loop
def _fill_keys(constants: Array, lowest: float, doubling: float, out: Array) -> None:
    for i in range(len(constants)):
        out[i] = _key(constants[i], lowest, doubling)


@loop
def _find(constants: Array, buckets: Buckets, values: Array, out: Array, present: Array) -> None:
    first, numbers, lowest, doubling, least, most, shift = buckets
    above = np.int64(2 * len(constants))
    for i in range(len(values)):
        value = values[i]
        at = Unsigned((min(max(_key(value, lowest, doubling), least), most) - least) >> shift)
        low = np.int64(first[at])
        if low < 0:
            low, length = ~low, np.int64(numbers[at])
            # Without branches: which way a search goes cannot be foreseen.
            while length > 1:
                half = length >> 1
                low += half if constants[Unsigned(low + half - 1)] < value else 0
                length -= half
        # A constant of a later bucket is larger than the value, so it adds nothing.
        constant = constants[Unsigned(low)]
        region = 2 * low + np.int64(value > constant) + np.int64(value >= constant)
        region = region if value == value else above
        out[i] = region
        present[Unsigned(region)] = True


@loop
def _find_among_few(constants: Array, values: Array, out: Array, present: Array) -> None:
    """All values are compared with one constant after the other: several at once, in every instruction."""
    out[:] = 0
    for block in range(0, len(values), BLOCK):
        end = min(block + BLOCK, len(values))
        for constant in constants:
            for i in range(block, end):
                out[i] += np.uint8(not values[i] <= constant) + np.uint8(not values[i] < constant)
        for i in range(block, end):
            present[Unsigned(out[i])] = True


def buckets_of(constants: Array, most: int) -> Buckets:
    """At most so many buckets, about, of constants that are read-only and of which there are some."""
    finite = [float(value) for value in constants[np.isfinite(constants)]] or [0.0]
    lowest = finite[0]
    doubling = min(finite[len(finite) // DENSE] - lowest or finite[-1] - lowest or 1.0, sys.float_info.max)
    keys = np.empty(len(constants), np.int64)
    _fill_keys(constants, lowest, doubling, keys)
    least = int(np.float64(doubling).view(np.int64))
    greatest = int(keys.max(initial=least))
    wanted = max(1, min(BUCKETS * len(constants), MOST_BUCKETS, most))
    shift = max(0, (greatest - least).bit_length() - wanted.bit_length() + 1)
    at = (np.clip(keys, least, greatest) - least) >> shift
    numbers = np.bincount(at, minlength=((greatest - least) >> shift) + 1).astype(np.int32)
    first = np.minimum(np.cumsum(numbers, dtype=np.int32) - numbers, np.int32(len(constants) - 1))
    np.invert(first, out=first, where=numbers > 1)
    first, numbers = frozen(first, numbers)
    return Buckets(first, numbers, lowest, doubling, least, greatest, shift)


def find_regions(constants: Array, values: Array, out: Array, present: Mask | None = None) -> None:
    """2 i where a value lies before constant i and after the one before it, 2 i + 1 where it equals it. NaN is larger
    than any number; no constant is NaN. The regions that occur are noted as `present`.

    >>> out = np.empty(5, np.int32)
    >>> find_regions(np.array([1.0, 5.0]), np.array([0.5, 1.0, 4.0, np.inf, np.nan]), out)
    >>> out.tolist()
    [0, 1, 2, 4, 4]
    """
    constants, values = frozen(constants, values)
    if present is None:
        present = np.zeros(2 * len(constants) + 1, np.bool_)
    if len(constants) <= FEW:
        _find_among_few(constants, values, out, present)
        return
    _find(constants, buckets_of(constants, len(values)), values, out, present)
