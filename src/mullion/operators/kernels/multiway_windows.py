"""The windows of the multi-way joins, as compiled loops keep them.

A window is one list of tuples in the order of arrival, or b lists, one for each bucket of a hash table. A tuple is the
number of its event, so a list is two arrays of numbers:

    head[s, b] -> 3 -> 7 -> 8 <- tail[s, b]            after[3] = 7, before[7] = 3

Tuples of a window live equally long, so those that expire stand at the head. A negative tuple takes one from anywhere.
"""

from __future__ import annotations

from typing import NamedTuple

from mullion.expressions.arrays import Array
from mullion.loops import loop

NOBODY = -1
COMPARED, LOOKED_AT, CHECKED, RESULTS, ENDS, HELD, MOST_HELD = range(7)
"""Where `LinkedWindows.counts` has: values compared, tuples looked at while probing, tuples looked at for expiry,
results, the sum of the results' ends, tuples held now, and at most."""
ABSENT, WAITING, INSIDE = range(3)
"""Where a tuple is: not here, waiting for the next execution, or in its window."""


class LinkedWindows(NamedTuple):
    """Tuples (one entry for each event) and the lists that they are in."""

    stream: Array
    value: Array
    ts: Array
    end: Array
    head: Array
    tail: Array
    after: Array
    before: Array
    place: Array
    probes: Array
    """Row i: the windows that a tuple of stream i is joined with, in the global order."""
    counts: Array


class ResultBuffers(NamedTuple):
    """Room for results. Without rows results are only counted."""

    parts: Array
    emitted: Array
    end: Array
    sign: Array


@loop
def insert(windows: LinkedWindows, e: int) -> None:
    s, b = windows.stream[e], windows.value[e] % windows.head.shape[1]
    last = windows.tail[s, b]
    windows.before[e], windows.after[e] = last, NOBODY
    if last == NOBODY:
        windows.head[s, b] = e
    else:
        windows.after[last] = e
    windows.tail[s, b] = e
    windows.place[e] = INSIDE
    windows.counts[HELD] += 1
    windows.counts[MOST_HELD] = max(windows.counts[MOST_HELD], windows.counts[HELD])


@loop
def remove(windows: LinkedWindows, e: int) -> None:
    s, b = windows.stream[e], windows.value[e] % windows.head.shape[1]
    left, right = windows.before[e], windows.after[e]
    if left == NOBODY:
        windows.head[s, b] = right
    else:
        windows.after[left] = right
    if right == NOBODY:
        windows.tail[s, b] = left
    else:
        windows.before[right] = left
    windows.place[e] = ABSENT
    windows.counts[HELD] -= 1


@loop
def expire(windows: LinkedWindows, but: int, last_end: int) -> None:
    """Remove what ends at `last_end` or before from all windows but one. Every bucket is looked at."""
    checked = 0
    for s in range(windows.head.shape[0]):
        if s == but:
            continue
        for b in range(windows.head.shape[1]):
            e = windows.head[s, b]
            while e != NOBODY:
                checked += 1
                if windows.end[e] > last_end:
                    break
                remove(windows, e)
                e = windows.head[s, b]
    windows.counts[CHECKED] += checked


@loop
def emit(windows: LinkedWindows, out: ResultBuffers, k: int, chosen: Array, now: int, end: int, sign: int) -> None:
    """One result: tuple k with those that were chosen from the windows that it probes."""
    row = windows.counts[RESULTS]
    windows.counts[RESULTS] += 1
    windows.counts[ENDS] += end
    if len(out.emitted) > 0:
        s = windows.stream[k]
        out.parts[row, s] = k
        for level in range(len(chosen)):
            out.parts[row, windows.probes[s, level]] = chosen[level]
        out.emitted[row], out.end[row], out.sign[row] = now, end, sign
