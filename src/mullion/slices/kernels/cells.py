"""The loops over cells: how often each value occurs in each line, in the order of lines and then of values."""

from __future__ import annotations

from typing import NamedTuple

from mullion.expressions.arrays import Array
from mullion.loops import loop


class LineCells(NamedTuple):
    """Values of lines in their order. `cell` is a number that stays while the value is there, `since` tells when it
    came: another value may have its number later."""

    line: Array
    value: Array
    cell: Array
    since: Array


@loop
def merge_cells(before: LineCells, stays: Array, new: LineCells, out: LineCells) -> None:
    """The cells that stay and the new ones, all in order."""
    at, j = 0, 0
    for i in range(len(before.line)):
        if not stays[i]:
            continue
        while j < len(new.line) and (
            new.line[j] < before.line[i] or (new.line[j] == before.line[i] and new.value[j] < before.value[i])
        ):
            _copy(new, j, out, at)
            at += 1
            j += 1
        _copy(before, i, out, at)
        at += 1
    while j < len(new.line):
        _copy(new, j, out, at)
        at += 1
        j += 1


@loop
def _copy(source: LineCells, i: int, out: LineCells, at: int) -> None:
    out.line[at], out.value[at] = source.line[i], source.value[i]
    out.cell[at], out.since[at] = source.cell[i], source.since[i]


@loop
def top_of_ranges(count: Array, low: Array, high: Array, offsets: Array, codes: Array, frequencies: Array) -> None:
    """The most frequent cells of each range, the most frequent first, of equally frequent ones the first: as many as
    there is room between its offsets."""
    for r in range(len(low)):
        first, room, held = offsets[r], offsets[r + 1] - offsets[r], 0
        for i in range(low[r], high[r]):
            if held == room and (not room or frequencies[first + held - 1] >= count[i]):
                continue
            at = first + min(held, room - 1)
            while at > first and frequencies[at - 1] < count[i]:
                codes[at], frequencies[at] = codes[at - 1], frequencies[at - 1]
                at -= 1
            codes[at], frequencies[at] = i, count[i]
            held = min(held + 1, room)
