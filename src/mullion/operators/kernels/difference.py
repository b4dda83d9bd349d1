"""The loop of EXCEPT ALL: of v1 equal rows on the left and v2 on the right, all but the v2 oldest of the left stay.

    rows of one value on the left, oldest first       a  b  c  d  e
    v2 = 2                                            excluded  |  there
                                                          border

A row that comes on the right moves the border on by one row, one that goes there moves it back; so does one of the
excluded that ends. Each change costs what it moves (golab 2.2.2).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mullion.expressions.arrays import Array
from mullion.instants import NEVER

LEFT_ENDS, RIGHT_CHANGES, LEFT_STARTS = 0, 1, 2
"""What may happen, in the order in which it counts when it happens at one time."""


@njit(cache=True, nogil=True)
def surplus(
    first: Array,
    first_event: Array,
    right: Array,
    before: int,
    start: Array,
    end: Array,
    promised: Array,
    since: Array,
    time: Array,
    kind: Array,
    what: Array,
    out_row: Array,
    out_start: Array,
    out_end: Array,
    gone_row: Array,
    gone_start: Array,
    gone_at: Array,
) -> tuple[int, int]:
    """What one step makes of the rows of some values.

    Rows first[g] .. first[g + 1] of the left have value g, oldest first, and so have its events in the order of time;
    there were right[g] rows on the right. `since` tells since when a row is there, NEVER when it is not. `what` is the
    row of the left that starts or ends, or by how much the right changes. Returns how many stays start in the step, and
    how many of those told earlier end before the row promised. There is room for a stay for each row and event.
    """
    found, ended = 0, 0
    alive = np.zeros(len(start), np.bool_)
    for g in range(len(first) - 1):
        low, high = first[g], first[g + 1]
        border, living, excluded, others = low, 0, 0, right[g]
        for i in range(low, high):
            if start[i] < before and end[i] >= before:
                alive[i] = True
                living += 1
                if since[i] == NEVER:
                    border = i + 1
                    excluded += 1
        e, last = first_event[g], first_event[g + 1]
        while e < last:
            at, started, behind = time[e], high, low
            while e < last and time[e] == at:
                i = what[e]
                if kind[e] == RIGHT_CHANGES:
                    others += i
                elif kind[e] == LEFT_STARTS:
                    alive[i] = True
                    living += 1
                    started, behind = min(started, i), max(behind, i + 1)
                elif alive[i]:
                    alive[i] = False
                    living -= 1
                    if since[i] == NEVER:
                        excluded -= 1
                    else:
                        found, ended = _close(
                            i, at, before, promised, since, out_row, out_start, out_end, found, gone_row, gone_start,
                            gone_at, ended,
                        )  # fmt: skip
                e += 1
            target = min(others, living)
            while excluded < target:
                if alive[border]:
                    excluded += 1
                    if since[border] != NEVER:
                        found, ended = _close(
                            border, at, before, promised, since, out_row, out_start, out_end, found, gone_row,
                            gone_start, gone_at, ended,
                        )  # fmt: skip
                border += 1
            while excluded > target:
                border -= 1
                if alive[border]:
                    excluded -= 1
                    since[border] = at
            for i in range(max(started, border), behind):
                if alive[i] and since[i] == NEVER:
                    since[i] = at
        for i in range(low, high):
            if alive[i] and since[i] != NEVER and since[i] >= before:
                out_row[found], out_start[found], out_end[found] = i, since[i], end[i]
                found += 1
    return found, ended


@njit(cache=True, nogil=True)
def _close(
    i: int,
    at: int,
    before: int,
    promised: Array,
    since: Array,
    out_row: Array,
    out_start: Array,
    out_end: Array,
    found: int,
    gone_row: Array,
    gone_start: Array,
    gone_at: Array,
    ended: int,
) -> tuple[int, int]:
    """The stay of a row ends: it is told as a whole, or only that it ends, when its start was told earlier."""
    if since[i] >= before:
        out_row[found], out_start[found], out_end[found] = i, since[i], at
        found += 1
    elif at < promised[i]:
        gone_row[ended], gone_start[ended], gone_at[ended] = i, since[i], at
        ended += 1
    since[i] = NEVER
    return found, ended


__all__ = ["LEFT_ENDS", "LEFT_STARTS", "RIGHT_CHANGES", "surplus"]
