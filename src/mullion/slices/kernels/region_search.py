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

from mullion.expressions.arrays import Array
from mullion.expressions.readonly import frozen
from mullion.loops import loop

BUCKETS, MOST_BUCKETS = 64, 1 << 16
"""Buckets for each constant, and altogether: they should stay in a cache."""
FEW, BLOCK = 6, 1 << 12
"""Up to so many constants are compared with one by one, for so many values at a time."""
DENSE = 4
"""One of so many constants lies in the first doubling."""


class Buckets(NamedTuple):
    """Bucket b holds the constants from number first[b] up to first[b + 1]."""

    first: Array
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
def _find(constants: Array, buckets: Buckets, values: Array, out: Array) -> None:
    first, lowest, doubling, least, most, shift = buckets
    size = len(constants)
    for i in range(len(values)):
        value = values[i]
        at = (min(max(_key(value, lowest, doubling), least), most) - least) >> shift
        low = np.int64(first[at])
        length = np.int64(first[at + 1]) - low
        # Without branches: which way a search goes cannot be foreseen.
        while length > 1:
            half = length >> 1
            low += half if constants[low + half - 1] < value else 0
            length -= half
        low += 1 if length > 0 and constants[low] < value else 0
        out[i] = 2 * low + (1 if low < size and constants[low] == value else 0)


@loop
def _find_among_few(constants: Array, values: Array, out: Array) -> None:
    """All values are compared with one constant after the other: several at once, in every instruction."""
    out[:] = 0
    for block in range(0, len(values), BLOCK):
        end = min(block + BLOCK, len(values))
        for constant in constants:
            for i in range(block, end):
                out[i] += np.int32(values[i] > constant) + np.int32(values[i] >= constant)


def buckets_of(constants: Array, most: int) -> Buckets:
    """At most so many buckets, about, of constants that are read-only."""
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
    (first,) = frozen(np.searchsorted(at, np.arange(((greatest - least) >> shift) + 2)).astype(np.int32))
    return Buckets(first, lowest, doubling, least, greatest, shift)


def find_regions(constants: Array, values: Array, out: Array) -> None:
    """2 i where a value lies before constant i and after the one before it, 2 i + 1 where it equals it. Neither a
    constant nor a value is NaN.

    >>> out = np.empty(4, np.int32)
    >>> find_regions(np.array([1.0, 5.0]), np.array([0.5, 1.0, 4.0, np.inf]), out)
    >>> out.tolist()
    [0, 1, 2, 4]
    """
    constants, values = frozen(constants, values)
    if len(constants) <= FEW:
        _find_among_few(constants, values, out)
        return
    _find(constants, buckets_of(constants, len(values)), values, out)
