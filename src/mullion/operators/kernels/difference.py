"""The loop of EXCEPT ALL: of v1 equal rows on the left and v2 on the right, all but the v2 oldest of the left stay.

    rows of one value on the left, oldest first       a  b  c  d  e
    v2 = 2                                            excluded  |  there
                                                          border

A row that comes on the right moves the border on by one row, one that goes there moves it back; so does one of the
excluded that ends. Each change costs what it moves (golab 2.2.2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Array
from mullion.instants import NEVER
from mullion.loops import loop
from mullion.operators.kernels.stays import EarlyEnds, Stays

LEFT_ENDS, RIGHT_CHANGES, LEFT_STARTS = 0, 1, 2
"""What may happen, in the order in which it counts when it happens at one time."""


class ChangedValues(NamedTuple):
    """The values that a step works on: value g has the rows first_row[g] .. first_row[g + 1] of the left, oldest first,
    the changes first_change[g] .. first_change[g + 1], and `right[g]` rows on the right before the step."""

    first_row: Array
    first_change: Array
    right: Array


class MinuendRows(NamedTuple):
    """Rows of the left, which those of the right are taken from."""

    start: Array
    end: Array
    """The end as it is known now."""
    promised: Array
    """The end as it was known when the row came."""
    since: Array
    """Since when the row is in the result, NEVER when it is not."""


class RowChanges(NamedTuple):
    """What happens to the rows of a value, in the order of time."""

    time: Array
    kind: Array
    what: Array
    """The row of the left that starts or ends, or by how much the right changes."""


@loop
def surplus(
    values: ChangedValues, rows: MinuendRows, changes: RowChanges, before: int, stays: Stays, early_ends: EarlyEnds
) -> tuple[int, int]:
    """What a step that goes on from the time `before` makes of the rows of some values.

    Returns how many stays start in the step, and how many of those emitted earlier end before the row promised. There
    is room for a stay for each row and change.
    """
    start, end, _, since = rows
    time, kind, what = changes
    count, ended = 0, 0
    alive = np.zeros(len(start), np.bool_)
    for g in range(len(values.right)):
        low, high = values.first_row[g], values.first_row[g + 1]
        border, living, excluded, others = low, 0, 0, values.right[g]
        for i in range(low, high):
            if start[i] < before and end[i] >= before:
                alive[i] = True
                living += 1
                if since[i] == NEVER:
                    border = i + 1
                    excluded += 1
        e, last = values.first_change[g], values.first_change[g + 1]
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
                        count, ended = _close(i, at, before, rows, stays, count, early_ends, ended)
                e += 1
            target = min(others, living)
            while excluded < target:
                if alive[border]:
                    excluded += 1
                    if since[border] != NEVER:
                        count, ended = _close(border, at, before, rows, stays, count, early_ends, ended)
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
                stays.row[count], stays.start[count], stays.end[count] = i, since[i], end[i]
                count += 1
    return count, ended


@loop
def _close(
    i: int, at: int, before: int, rows: MinuendRows, stays: Stays, count: int, early_ends: EarlyEnds, ended: int
) -> tuple[int, int]:
    """End the stay of a row: emit it as a whole, or only that it ends, if its start was emitted in an earlier step."""
    since = rows.since[i]
    if since >= before:
        stays.row[count], stays.start[count], stays.end[count] = i, since, at
        count += 1
    elif at < rows.promised[i]:
        early_ends.row[ended], early_ends.start[ended], early_ends.at[ended] = i, since, at
        ended += 1
    rows.since[i] = NEVER
    return count, ended
