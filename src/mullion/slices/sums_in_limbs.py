"""Sums of doubles by sums of 64-bit integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce

import numpy as np

from mullion.expressions.arrays import Array, Whole

LIMB = 32
MASK = 2**LIMB - 1
LOWEST = -1074
"""The exponent of the smallest double."""


def in_limbs(numbers: Array, total: Callable[[Whole], Whole]) -> Array:
    """What `total`, some sum of 64-bit integers, is of doubles.

    A number is a row of 32-bit limbs, at places that do not depend on other numbers. Limbs are summed by themselves,
    and only those that occur. Subtracting within `total` thus loses nothing, and one NaN stays where it is.

    Requires: `total` is linear, and adds less than 2^29 numbers.
    Time: O(n) and one call of `total` for each limb that occurs; doubles of like size have two or three.
    Guarantee: the exact sum, rounded once.

    >>> def pairs(whole):
    ...     return whole[::2] + whole[1::2]
    >>> in_limbs(np.array([1e300, -1e300, 0.1, 0.2, np.inf, 1.0]), pairs).tolist()
    [0.0, 0.30000000000000004, inf]
    """
    numbers = numbers.astype(np.float64)
    finite = np.isfinite(numbers)
    exact = _joined(_of_doubles(np.where(finite, numbers, 0.0)), total, numbers)
    sums = np.fromiter((_double(n) for n in exact), np.float64, len(exact))
    if not finite.all():
        rising, falling = total((numbers == np.inf).astype(np.int64)), total((numbers == -np.inf).astype(np.int64))
        unknown = total(np.isnan(numbers).astype(np.int64))
        sums[rising > 0] = np.inf
        sums[falling > 0] = -np.inf
        sums[(unknown > 0) | ((rising > 0) & (falling > 0))] = np.nan
    return sums


def _joined(limbs: Iterator[tuple[int, Whole]], total: Callable[[Whole], Whole], numbers: Array) -> Array:
    """Python integers from the sums of their limbs."""
    sums = [total(limb).astype(np.object_) * (1 << (LIMB * place)) for place, limb in limbs]
    return reduce(np.add, sums) if sums else total(np.zeros(len(numbers), np.int64)).astype(np.object_)


def _of_doubles(numbers: Array) -> Iterator[tuple[int, Whole]]:
    """Limbs of doubles as multiples of the smallest one."""
    fraction, exponent = np.frexp(numbers)
    # A double below 2^-1022 has fewer digits: what frexp gives is then a multiple of a larger power of two.
    digits = np.maximum(exponent.astype(np.int64) - 53, LOWEST)
    whole = np.ldexp(fraction, exponent - digits).astype(np.int64)
    sign, whole = np.sign(whole), np.abs(whole)
    place, shift = (digits - LOWEST) // LIMB, (digits - LOWEST) % LIMB
    low, high = (whole & MASK) << shift, (whole >> LIMB) << shift
    parts = (low & MASK, (low >> LIMB) + (high & MASK), high >> LIMB)
    occurring = np.flatnonzero(np.bincount(place))
    for at in sorted({int(p) + i for p in occurring for i in range(3)}):
        limb = np.zeros(len(numbers), np.int64)
        for i, part in enumerate(parts):
            if at - i in occurring:
                limb += np.where(place == at - i, part, 0)
        if limb.any():
            yield at, limb * sign


def _double(whole: int) -> float:
    """The nearest double to a multiple of the smallest one."""
    try:
        return whole / (1 << -LOWEST)
    except OverflowError:
        return np.inf if whole > 0 else -np.inf
