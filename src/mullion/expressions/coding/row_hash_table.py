"""A hash table of rows of whole numbers: each different row has a small number, its code.

    slots   [ . 2 . . 0 1 . . ]        where a row's hash points to, or the next free slot after it, stands its code
    keys    [ row 0, row 1, row 2 ]

Codes of rows that were taken out are given to new ones. A slot that a row has left is skipped until the table is laid
out anew.
"""

from __future__ import annotations

import numpy as np

from mullion.expressions.arrays import Array
from mullion.loops import loop

FREE, LEFT = -1, -2


@loop
def _slot(row: Array, mask: int) -> np.int64:
    mixed = np.uint64(0)
    for word in row:
        mixed = (mixed ^ np.uint64(word)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed & np.uint64(mask))


@loop
def _equal(row: Array, other: Array) -> bool:
    equal = True
    for j in range(len(row)):
        equal &= row[j] == other[j]
    return equal


@loop
def insert(
    words: Array, slots: Array, keys: Array, free: Array, free_size: int, used: int, out: Array, new: Array
) -> int:
    """The codes of rows. Those that are new get codes from the end of `free`, then from `used` on; `new` tells which
    rows these are. Returns how many. The slots are a power of two and at most half full in the end."""
    mask, added = len(slots) - 1, 0
    for i in range(len(words)):
        row = words[i]
        at = _slot(row, mask)
        code = slots[at]
        while code != FREE and (code == LEFT or not _equal(row, keys[code])):
            at = (at + 1) & mask
            code = slots[at]
        if code == FREE:
            code = free[free_size - 1 - added] if added < free_size else used + added - free_size
            slots[at] = code
            keys[code] = row
            new[added] = i
            added += 1
        out[i] = code
    return added


@loop
def remove(codes: Array, slots: Array, keys: Array) -> None:
    """Rows that are in the table."""
    mask = len(slots) - 1
    for code in codes:
        at = _slot(keys[code], mask)
        while slots[at] != code:
            at = (at + 1) & mask
        slots[at] = LEFT


@loop
def rehash(codes: Array, slots: Array, keys: Array) -> None:
    """Put rows with these codes into empty slots."""
    mask = len(slots) - 1
    for code in codes:
        at = _slot(keys[code], mask)
        while slots[at] != FREE:
            at = (at + 1) & mask
        slots[at] = code
