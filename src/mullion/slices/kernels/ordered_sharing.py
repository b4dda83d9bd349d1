"""The loops of ordered sharing: values come in, kept answers are pruned, and lost ones are found again.

`ring` holds the newest values as whole numbers in their order, row r at (r - 1) % len(ring), a NULL as the least.
Kept answers stand at steps[:, top:], ordered by size and at once by answer: SIZE is the largest window that has the
answer, ROW the newest row that gives it. `state` is (top, rows seen, rows passed over to find answers again).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mullion.expressions.arrays import Array

SIZE, ANSWER, ROW = 0, 1, 2
TOP, SEEN, PASSED = 0, 1, 2
NULL, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
NAN = np.array([np.nan]).view(np.int64)[0]


@njit(cache=True, nogil=True)
def first_not_below(sorted_values: Array, low: int, value: int) -> int:
    """Where from `low` on the first number that is not below `value` stands."""
    high = len(sorted_values)
    while low < high:
        middle = (low + high) >> 1
        if sorted_values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def insert(values: Array, valid: Array, of_largest: bool, ring: Array, steps: Array, state: Array) -> None:
    """Take in a run of rows between which nothing is asked: only the largest of them, the newest of equals, matters.

    The largest kept answer that it reaches becomes the new value, and all smaller windows share it. Answers that have
    expired need no care: they are still not below any row of their window.
    """
    bits = values.view(np.int64)
    rows, row = len(ring), state[SEEN]
    at = row % rows
    largest, newest = NULL, row
    for i in range(len(values)):
        if not valid[i]:
            order = NULL
        else:
            order = NAN if values[i] != values[i] else (0 if values[i] == 0.0 else bits[i])
            order ^= (order >> 63) & HIGHEST
            if not of_largest:
                order = ~order
        ring[at] = order
        at = at + 1 if at + 1 < rows else 0
        row += 1
        if order >= largest:
            largest, newest = order, row
    if row == state[SEEN]:
        return
    state[SEEN] = row
    kept, top = steps[ANSWER], state[TOP]
    reached = first_not_below(kept, top, largest + 1)
    if reached > top:
        state[TOP] = reached - 1
        steps[ANSWER, reached - 1], steps[ROW, reached - 1] = largest, newest


@njit(cache=True, nogil=True)
def validate(window: int, ring: Array, steps: Array, state: Array) -> None:
    """Find the answers of a window and of all smaller ones again, in one pass from the newest row back.

    From the row of a kept answer the pass jumps to the end of its window: no row in between is above it.
    """
    rows, seen = len(ring), state[SEEN]
    stairs = np.empty(min(window, seen), np.int64)
    valid, largest, age, step = 0, NULL, 0, state[TOP]
    while age < len(stairs):
        row = seen - age
        value = ring[(row - 1) % rows]
        if value > largest or age == 0:
            largest = value
            stairs[valid] = row
            valid += 1
        age += 1
        state[PASSED] += 1
        while step < steps.shape[1] and steps[ROW, step] >= row:
            if steps[ROW, step] == row:
                age = max(age, steps[SIZE, step])
            step += 1
    top = first_not_below(steps[SIZE], state[TOP], window + 1)
    size = window
    for i in range(valid - 1, -1, -1):
        top -= 1
        row = stairs[i]
        steps[SIZE, top], steps[ANSWER, top], steps[ROW, top] = size, ring[(row - 1) % rows], row
        size = seen - row
    if valid == 0:
        top -= 1
        steps[SIZE, top], steps[ANSWER, top], steps[ROW, top] = window, NULL, 0
    state[TOP] = top


@njit(cache=True, nogil=True)
def look_up(windows: Array, of_largest: bool, ring: Array, steps: Array, state: Array, out: Array, valid: Array) -> int:
    """The answer of each window; returns the first that is too large or too small, or -1.

    The largest window without a valid answer is found again, and with it all smaller ones: one pass for all.
    """
    lost, seen = 0, state[SEEN]
    for i in range(len(windows)):
        window = windows[i]
        if window < 1 or window > len(ring):
            return i
        if window > lost:
            step = first_not_below(steps[SIZE], state[TOP], window)
            if step == steps.shape[1] or seen - steps[ROW, step] >= window:
                lost = window
    if lost:
        validate(lost, ring, steps, state)
    bits = out.view(np.int64)
    for i in range(len(windows)):
        order = steps[ANSWER, first_not_below(steps[SIZE], state[TOP], windows[i])]
        valid[i] = order != NULL
        if not of_largest:
            order = ~order
        bits[i] = order ^ ((order >> 63) & HIGHEST)
    return -1


@njit(cache=True, nogil=True)
def insert_and_look_up(
    values: Array,
    known: Array,
    windows: Array,
    at: Array,
    of_largest: bool,
    ring: Array,
    steps: Array,
    state: Array,
    out: Array,
    valid: Array,
) -> None:
    """Rows come in, and window i is asked after row at[i]; `at` does not decrease."""
    done, i = 0, 0
    while i < len(windows):
        j = i
        while j < len(windows) and at[j] == at[i]:
            j += 1
        upto = at[i] - state[SEEN] + done
        insert(values[done:upto], known[done:upto], of_largest, ring, steps, state)
        look_up(windows[i:j], of_largest, ring, steps, state, out[i:j], valid[i:j])
        done, i = upto, j
    insert(values[done:], known[done:], of_largest, ring, steps, state)
