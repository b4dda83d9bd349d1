"""Whole numbers of 128 bits: arrays of a signed high half and an unsigned low one.

numpy has no such numbers. Arrays of the structured type WIDE are indexed, joined and chosen from like any others, and
sort by value; what computes with them is here. Nothing tells of an overflow but `add`: who multiplies or divides knows
beforehand how many digits there will be.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mullion.expressions.arrays import Array, Mask
from mullion.expressions.readonly import frozen
from mullion.loops import loop

WIDE = np.dtype([("high", np.int64), ("low", np.uint64)])
MOST_DIGITS = 38
"""10^38 fits into 127 bits."""

DOWN, HALF_UP, HALF_EVEN, CEILING, FLOOR = range(5)
"""How quotients are rounded; DOWN is towards zero, and HALF_UP away from it."""


def wide_of(numbers: Sequence[int]) -> Array:
    """
    >>> wide_of([-1, 2**64]).tolist()
    [(-1, 18446744073709551615), (1, 0)]
    """
    return np.array([(number >> 64, number & 0xFFFF_FFFF_FFFF_FFFF) for number in numbers], WIDE)


def integers_of(values: Array) -> list[int]:
    """Python integers of numbers of 128 bits, or of fewer."""
    if values.dtype != WIDE:
        return [int(number) for number in values.tolist()]
    return [(high << 64) + low for high, low in values.tolist()]


def widened(values: Array) -> Array:
    """Numbers of at most 64 bits, or of 128 already, in 128."""
    if values.dtype == WIDE:
        return values
    low = np.asarray(values, np.int64)
    return from_halves(low >> 63, low.view(np.uint64))


def narrowed(values: Array) -> Array:
    """The numbers in 64 bits; those that do not fit become something else."""
    return values["low"].astype(np.int64) if values.dtype == WIDE else values


def from_halves(high: Array, low: Array) -> Array:
    values = np.empty(np.broadcast_shapes(high.shape, low.shape), WIDE)
    values["high"], values["low"] = high, low
    return values


def below(a: Array, b: Array) -> Mask:
    return np.asarray((a["high"] < b["high"]) | ((a["high"] == b["high"]) & (a["low"] < b["low"])))


def same(a: Array, b: Array) -> Mask:
    return np.asarray((a["high"] == b["high"]) & (a["low"] == b["low"]))


def within(values: Array, digits: int) -> Mask:
    """Which numbers, of 64 or 128 bits, have at most so many digits."""
    if values.dtype != WIDE:
        if digits > 18:
            return np.ones(values.shape, np.bool_)
        return np.asarray((values < 10**digits) & (values > -(10**digits)))
    low, high = wide_of([-(10**digits)]), wide_of([10**digits])
    return np.asarray(below(values, high) & below(low, values))


def negative(a: Array) -> Array:
    low = ~a["low"] + np.uint64(1)
    return from_halves(~a["high"] + (low == 0), low)


def absolute(a: Array) -> Array:
    return np.where(a["high"] < 0, negative(a), a)


def add(a: Array, b: Array) -> tuple[Array, Mask]:
    """The sums, and which of them fit into 128 bits."""
    low = a["low"] + b["low"]
    high = a["high"] + b["high"] + (low < a["low"])
    return from_halves(high, low), np.asarray(((a["high"] ^ high) & (b["high"] ^ high)) >= 0)


def multiply(a: Array, b: Array) -> Array:
    """The products; arrays of length 1 stand for constants.

    >>> integers_of(multiply(wide_of([10**20, -(10**20)]), wide_of([10**17])))
    [10000000000000000000000000000000000000, -10000000000000000000000000000000000000]
    """
    out = np.empty((_size(a, b), 2), np.int64)
    x, y = frozen(_halves(a), _halves(b))
    _multiply(x, y, out)
    return out.view(WIDE)[:, 0]


def divide(a: Array, b: Array, rounding: int = DOWN) -> Array:
    """The quotients, rounded to whole numbers; 0 where the divisor is 0.

    >>> integers_of(divide(wide_of([15, -15, 25]), wide_of([10]), HALF_UP)), integers_of(
    ...     divide(wide_of([15, -15, 25]), wide_of([10]), HALF_EVEN)
    ... )
    ([2, -2, 3], [2, -2, 2])
    """
    out = np.empty((_size(a, b), 2), np.int64)
    dividend, divisor = frozen(_halves(a), _halves(b))
    _divide(dividend, divisor, rounding, out)
    return out.view(WIDE)[:, 0]


def to_double(values: Array, scale: int) -> Array:
    """The doubles nearest to values / 10^scale, of numbers of 64 or 128 bits.

    A whole number below 2^53 and a power of ten up to 10^22 are doubles, and their quotient is rounded once. Python
    divides the others.
    """
    plain = narrowed(values)
    exact = (plain > -(2**53)) & (plain < 2**53)
    if values.dtype == WIDE:
        exact &= values["high"] == plain >> 63
    if scale > 22:
        exact &= plain == 0
    doubles = np.asarray(plain.astype(np.float64) / 10.0 ** min(scale, 22))
    other = np.flatnonzero(~exact)
    if len(other):
        power = 10**scale
        doubles[other] = [number / power for number in integers_of(values[other])]
    return doubles


def _size(a: Array, b: Array) -> int:
    return len(b) if len(a) == 1 else len(a)


def _halves(values: Array) -> Array:
    return np.ascontiguousarray(values).view(np.int64).reshape(-1, 2)


@loop
def _magnitude(high: np.int64, low: np.int64) -> tuple[np.uint64, np.uint64]:
    top, bottom = np.uint64(high), np.uint64(low)
    if high < 0:
        bottom = ~bottom + np.uint64(1)
        top = ~top
        if bottom == np.uint64(0):
            top += np.uint64(1)
    return top, bottom


@loop
def _put(top: np.uint64, bottom: np.uint64, is_negative: bool, out: Array, i: int) -> None:
    if is_negative:
        bottom = ~bottom + np.uint64(1)
        top = ~top
        if bottom == np.uint64(0):
            top += np.uint64(1)
    out[i, 0], out[i, 1] = np.int64(top), np.int64(bottom)


@loop
def _multiply(a: Array, b: Array, out: Array) -> None:
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    for i in range(len(out)):
        p, q = i if len(a) > 1 else 0, i if len(b) > 1 else 0
        a_top, a_low = _magnitude(a[p, 0], a[p, 1])
        b_top, b_low = _magnitude(b[q, 0], b[q, 1])
        a1, a0, b1, b0 = a_low >> half, a_low & mask, b_low >> half, b_low & mask
        middle = a1 * b0 + (a0 * b0 >> half)
        crossed = (middle & mask) + a0 * b1
        top = a1 * b1 + (middle >> half) + (crossed >> half) + a_top * b_low + a_low * b_top
        _put(top, a_low * b_low, (a[p, 0] < 0) != (b[q, 0] < 0), out, i)


@loop
def _quotient(
    top: np.uint64, low: np.uint64, by_top: np.uint64, by_low: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """The quotient and the remainder of two numbers of at most 127 bits, the second one not 0."""
    zero, one, most = np.uint64(0), np.uint64(1), np.uint64(63)
    if top == zero and by_top == zero:
        return zero, low // by_low, zero, low % by_low
    if by_top == zero and by_low >> np.uint64(32) == zero:
        half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
        above, rest = top // by_low, top % by_low
        rest = (rest << half) | (low >> half)
        upper, rest = rest // by_low, rest % by_low
        rest = (rest << half) | (low & mask)
        return above, (upper << half) | (rest // by_low), zero, rest % by_low
    shift = 0
    while by_top < top or (by_top == top and by_low <= low):
        by_top = (by_top << one) | (by_low >> most)
        by_low = by_low << one
        shift += 1
    quotient_top, quotient_low = zero, zero
    for _ in range(shift):
        by_low = (by_low >> one) | (by_top << most)
        by_top = by_top >> one
        quotient_top = (quotient_top << one) | (quotient_low >> most)
        quotient_low = quotient_low << one
        if by_top < top or (by_top == top and by_low <= low):
            top = top - by_top - (one if low < by_low else zero)
            low = low - by_low
            quotient_low = quotient_low | one
    return quotient_top, quotient_low, top, low


@loop
def _divide(a: Array, b: Array, rounding: int, out: Array) -> None:
    zero, one, most = np.uint64(0), np.uint64(1), np.uint64(63)
    for i in range(len(out)):
        p, q = i if len(a) > 1 else 0, i if len(b) > 1 else 0
        by_top, by_low = _magnitude(b[q, 0], b[q, 1])
        if by_top == zero and by_low == zero:
            out[i, 0], out[i, 1] = 0, 0
            continue
        a_top, a_low = _magnitude(a[p, 0], a[p, 1])
        top, low, rest_top, rest_low = _quotient(a_top, a_low, by_top, by_low)
        is_negative = (a[p, 0] < 0) != (b[q, 0] < 0)
        up = False
        if rest_top != zero or rest_low != zero:
            if rounding in (HALF_UP, HALF_EVEN):
                twice_top, twice_low = (rest_top << one) | (rest_low >> most), rest_low << one
                is_half = twice_top == by_top and twice_low == by_low
                is_more = twice_top > by_top or (twice_top == by_top and twice_low > by_low)
                up = bool(is_more or (is_half and (rounding == HALF_UP or low & one == one)))
            else:
                up = (rounding == CEILING and not is_negative) or (rounding == FLOOR and is_negative)
        if up:
            low += one
            if low == zero:
                top += one
        _put(top, low, is_negative, out, i)
