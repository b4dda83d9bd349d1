"""The loops of ordered sharing: values come in, answers that can never be given again are dropped.

rows[head:top] are the rows that no later one reaches, oldest first, so their values stairs[head:top] fall strictly.
Values are whole numbers in their order. `state` is (head, top, rows seen).
"""

from __future__ import annotations

import numpy as np

from mullion.expressions.arrays import Array
from mullion.loops import loop

HEAD, TOP, SEEN = 0, 1, 2
HIGHEST = np.iinfo(np.int64).max
NAN = np.array([np.nan]).view(np.int64)[0]


@loop
def orders_of(values: Array, of_largest: bool, out: Array) -> None:
    """Whole numbers in the order of doubles, or in the opposite one: NaN is the largest, and -0.0 equals 0.0."""
    bits = values.view(np.int64)
    for i in range(len(values)):
        order = NAN if values[i] != values[i] else (0 if values[i] == 0.0 else bits[i])
        order ^= (order >> 63) & HIGHEST
        out[i] = order if of_largest else ~order


@loop
def insert(orders: Array, known: Array, rows: Array, stairs: Array, state: Array) -> None:
    """A value drops all stairs that it reaches; there is room for all values."""
    head, top, seen = state[HEAD], state[TOP], state[SEEN]
    for i in range(len(orders)):
        if known[i]:
            while top > head and stairs[top - 1] <= orders[i]:
                top -= 1
            rows[top], stairs[top] = seen + i + 1, orders[i]
            top += 1
    state[TOP], state[SEEN] = top, seen + len(orders)


@loop
def look_up(windows: Array, rows: Array, stairs: Array, state: Array, out: Array, valid: Array) -> None:
    """The answer of each window is the oldest stair in it."""
    head, top, seen = state[HEAD], state[TOP], state[SEEN]
    for i in range(len(windows)):
        low, high = head, top
        while low < high:
            middle = (low + high) >> 1
            if rows[middle] <= seen - windows[i]:
                low = middle + 1
            else:
                high = middle
        valid[i] = low < top
        out[i] = stairs[low] if low < top else 0


@loop
def insert_and_look_up(
    orders: Array,
    known: Array,
    windows: Array,
    at: Array,
    rows: Array,
    stairs: Array,
    state: Array,
    out: Array,
    valid: Array,
) -> None:
    """Rows come in, and window i is asked after row at[i]; `at` does not decrease."""
    done, before = 0, state[SEEN]
    for i in range(len(windows)):
        upto = at[i] - before
        insert(orders[done:upto], known[done:upto], rows, stairs, state)
        look_up(windows[i : i + 1], rows, stairs, state, out[i : i + 1], valid[i : i + 1])
        done = upto
    insert(orders[done:], known[done:], rows, stairs, state)
