"""The loops of HyperLogLog: the different hashes of runs, what registers keep of hashes, and how many they tell of."""

from __future__ import annotations

import math

import numpy as np

from mullion.expressions.arrays import Array
from mullion.loops import loop

TOP_BIT = np.uint64(1 << 63)


@loop
def different_hashes(hashes: Array, bounds: Array, most: int, kept: Array, counts: Array) -> None:
    """The different hashes of each run hashes[bounds[r]:bounds[r + 1]], ascending, one run after the other in `kept`;
    counts[r] is how many there are. Of a run with more than `most` none are kept, and counts[r] is -1."""
    room = 16
    while room < 2 * most:
        room *= 2
    slots, owner = np.zeros(room, np.int64), np.full(room, -1, np.int64)
    number = 0
    for r in range(len(bounds) - 1):
        first = number
        counts[r] = 0
        for i in range(bounds[r], bounds[r + 1]):
            at = hashes[i] & (room - 1)
            while owner[at] == r and slots[at] != hashes[i]:
                at = (at + 1) & (room - 1)
            if owner[at] == r:
                continue
            if number - first == most:
                counts[r], number = -1, first
                break
            owner[at], slots[at] = r, hashes[i]
            kept[number] = hashes[i]
            number += 1
        if counts[r] == 0:
            counts[r] = number - first
            kept[first:number].sort()


@loop
def take_in(registers: Array, hashes: Array, size: int) -> None:
    """The first `size` bits of a hash choose its register, which keeps the place of the first 1 among the others."""
    for i in range(len(hashes)):
        whole = np.uint64(hashes[i])
        rest = whole << np.uint64(size)
        place = 1
        while place <= 64 - size and (rest & TOP_BIT) == 0:
            rest <<= np.uint64(1)
            place += 1
        at = whole >> np.uint64(64 - size)
        registers[at] = max(registers[at], place)


@loop
def estimate(registers: Array, size: int) -> float:
    """About how many hashes registers have taken in (Ertl, New Cardinality Estimation Algorithms for HyperLogLog
    Sketches, 2017, Algorithm 6)."""
    last = 64 - size + 1
    times = np.zeros(last + 1, np.int64)
    for i in range(len(registers)):
        times[registers[i]] += 1
    number = len(registers)
    z = number * _tau(1 - times[last] / number)
    for place in range(last - 1, 0, -1):
        z = 0.5 * (z + times[place])
    z += number * _sigma(times[0] / number)
    return number * number / (2 * math.log(2) * z)


@loop
def _sigma(x: float) -> float:
    """x + the sum of x^(2^k) 2^(k - 1): what registers without a hash add."""
    if x == 1:
        return math.inf
    y, z, before = 1.0, x, -1.0
    while z != before:
        x, before = x * x, z
        z += x * y
        y += y
    return z


@loop
def _tau(x: float) -> float:
    """(1 - x - the sum of (1 - x^(2^-k))^2 2^-k) / 3: what full registers add."""
    if x == 0 or x == 1:
        return 0.0
    y, z, before = 1.0, 1 - x, -1.0
    while z != before:
        x, before = math.sqrt(x), z
        y *= 0.5
        z -= (1 - x) * (1 - x) * y
    return z / 3
