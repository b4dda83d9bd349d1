"""Windows over rows in the order of their slices: what enters and what leaves. Loops that are compiled.

    rows       A   B   A | B   C | A | C   B       the line of each, slice by slice
    window 1  [-------------------]                A B A B C enter: lines A, B, C
    window 2             [------------------]      A B A leave, A C B enter: lines A, B, C

The windows of a segment start and end one after the other, so every row enters once and leaves once. What is held of
each line stands side by side in a table, which stays in the cache, and a bit for each line says whether it has a row:
rows are read and answers are written from the first to the last. A call stops when its room is full, and the next one
goes on from there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mullion.expressions.arrays import Array, Unsigned
from mullion.loops import loop
from mullion.slices.kernels.ranges import combined, seek

WORD = 6
"""A word has 2^6 bits."""


class Course(NamedTuple):
    """Rows by slot, and those of a slot by slice."""

    times: Array
    """The slice of each row."""
    lines: Array


class Swept(NamedTuple):
    """Windows that start and end one after the other, and what they are asked of."""

    bounds: Array
    """Segment s has windows bounds[s] to bounds[s + 1]."""
    rows: Array
    """It is asked of the rows from rows[0, s] to rows[1, s],"""
    lines: Array
    """which are of lines lines[0, s] to lines[1, s]."""
    start: Array
    end: Array
    """Of each window."""


class Held(NamedTuple):
    """What is held of each line, between two calls too."""

    sums: Array
    """Line x number; the first counts something that every row has."""
    present: Array
    """A bit for each line that has a row."""
    place: Array
    """The next window, its segment, the first row that has not left, the first that has not entered, and how many lines
    have a row."""

    @staticmethod
    def nothing(asked: Swept, lines: int, numbers: int) -> Held:
        first = asked.rows[0, 0] if len(asked.start) else 0
        place = np.array([0, 0, first, first, 0], np.int64)
        return Held(np.zeros((lines, numbers), np.int64), np.zeros((lines >> WORD) + 1, np.int64), place)


class LineSums(NamedTuple):
    """Room for pairs of a window and a line that has a row in it, by window and then line."""

    windows: Array
    """Numbered from the first of the call on."""
    lines: Array
    sums: Array
    """Number x pair."""

    @staticmethod
    def room(pairs: int, numbers: int, lines: Any) -> LineSums:
        return LineSums(np.empty(pairs, np.int32), np.empty(pairs, lines), np.empty((numbers, pairs), np.int64))


class Stacks(NamedTuple):
    """What `combinations` holds of each line, between two calls too."""

    identity: Array
    """One state."""
    front: Array
    back: Array
    """Both have the identity where a line has no row."""
    rest: Array
    """Of each row, what the front of its line is without it and those before."""
    place: Array
    """The segment of the last window, the first row that has not left, where the front ends, and the first that has not
    entered."""

    @staticmethod
    def nothing(identity: Array, lines: int, rows: int) -> Stacks:
        place = np.array([-1, 0, 0, 0], np.int64)
        stacks = np.repeat(identity, lines), np.repeat(identity, lines)
        return Stacks(identity, *stacks, np.empty(rows, identity.dtype), place)


class AskedLines(NamedTuple):
    """Pairs of a window and a line that something is asked of."""

    first: Array
    """Those of the w-th of some windows are first[w] to first[w + 1]."""
    lines: Array


DE_BRUIJN = 0x03F79D71B4CB0A89
"""Shifted by 0 to 63 bits, its highest six are different each time (Leiserson, Prokop, Randall 1998)."""
LOWEST = np.zeros(64, np.int64)
LOWEST[[(DE_BRUIJN << bit) % 2**64 >> 58 for bit in range(64)]] = np.arange(64)


@loop
def lowest_bit(word: int) -> int:
    """The number of the lowest bit of a word that is not 0."""
    number: int = LOWEST[((word & -word) * DE_BRUIJN >> 58) & 63]
    return number


@loop
def _leave_all(lines: Array, begin: int, end: int, held: Held) -> None:
    for row in range(begin, end):
        line = Unsigned(lines[row])
        held.present[line >> Unsigned(WORD)] = 0
        for f in range(held.sums.shape[1]):
            held.sums[line, f] = 0


@loop
def _write(window: int, held: Held, first: int, last: int, least: int, out: LineSums, at: int) -> int:
    """Writes the pairs of a window whose first number is not less than `least`, given its first line and where its
    lines end. Returns where the next ones go."""
    for word in range(first >> WORD, ((last - 1) >> WORD) + 1):
        bits = held.present[word]
        while bits != 0:
            line = Unsigned((word << WORD) + lowest_bit(bits))
            bits &= bits - 1
            if held.sums[line, 0] < least:
                continue
            out.windows[Unsigned(at)] = window
            out.lines[Unsigned(at)] = line
            for f in range(held.sums.shape[1]):
                out.sums[f, Unsigned(at)] = held.sums[line, f]
            at += 1
    return at


@loop
def sweep_up(
    course: Course,
    asked: Swept,
    skipped: Array,
    values: Array,
    added: Array,
    least: int,
    held: Held,
    count: Array,
    out: LineSums,
) -> int:
    """Goes on with the windows until all are answered or the room is full, which has a place for each line at least.

    `values` are numbers x rows, of which none is lost when another is subtracted again; those that are `added` are
    wanted. Lines whose first one comes to less than `least` are left out. `count` becomes how many lines each window
    has; those that are skipped have none. Returns how many pairs were written.
    """
    times, lines = course
    window, segment, leave, enter, number = held.place
    first, at, numbers = window, 0, len(added)
    while window < len(asked.start):
        start, end = asked.start[window], asked.end[window]
        if window == asked.bounds[segment + 1]:
            _leave_all(lines, leave, enter, held)
            segment, number = segment + 1, 0
            leave = enter = asked.rows[0, segment]
        elif leave < enter and times[enter - 1] < start:
            _leave_all(lines, leave, enter, held)
            leave, number = enter, 0
        stop = asked.rows[1, segment]
        if skipped[window]:
            window += 1
            continue
        if leave == enter:
            leave = enter = seek(times, enter, stop, start)
        while enter < stop and times[Unsigned(enter)] < end:
            line, row = Unsigned(lines[Unsigned(enter)]), Unsigned(enter)
            number += held.sums[line, 0] == 0
            held.present[line >> Unsigned(WORD)] |= np.int64(1) << np.int64(line & Unsigned(63))
            for f in range(numbers):
                held.sums[line, f] += values[Unsigned(added[f]), row]
            enter += 1
        while leave < enter and times[Unsigned(leave)] < start:
            line, row = Unsigned(lines[Unsigned(leave)]), Unsigned(leave)
            for f in range(numbers):
                held.sums[line, f] -= values[Unsigned(added[f]), row]
            is_empty = np.int64(held.sums[line, 0] == 0)
            number -= is_empty
            held.present[line >> Unsigned(WORD)] &= ~(is_empty << np.int64(line & Unsigned(63)))
            leave += 1
        if at + number > len(out.lines):
            break
        before = at
        at = _write(window - first, held, asked.lines[0, segment], asked.lines[1, segment], least, out, at)
        count[window] = at - before
        window += 1
    held.place[0], held.place[1], held.place[2], held.place[3], held.place[4] = window, segment, leave, enter, number
    return at


@loop
def combinations(
    course: Course,
    asked: Swept,
    first: int,
    wanted: AskedLines,
    values: Array,
    operation: int,
    held: Stacks,
    out: Array,
) -> None:
    """The states of pairs, where states cannot be subtracted, in two stacks for all lines at once. Goes on with the
    wanted windows, the first of which is given; all before it are over.

        rows      | left | front: combined up to `turn` | back: combined from there on |
                         leave                           turn                          enter

    When the front is empty, all that is held becomes the front: going back from the last row, each notes what the front
    of its line is without it, which is what remains when it leaves.
    """
    times, lines = course
    front, back, identity = held.front, held.back, held.identity
    segment, leave, turn, enter = held.place
    for window in range(first, first + len(wanted.first) - 1):
        low, high = wanted.first[window - first], wanted.first[window - first + 1]
        if low == high:
            continue
        start, before = asked.start[window], segment
        while segment < 0 or window >= asked.bounds[segment + 1]:
            segment += 1
        if leave < enter and (segment > before or times[enter - 1] < start):
            for row in range(leave, enter):
                line = Unsigned(lines[row])
                front[line] = back[line] = identity[0]
            leave = enter
        if leave == enter:
            leave = enter if segment == before else asked.rows[0, segment]
            leave = turn = enter = seek(times, leave, asked.rows[1, segment], start)
        stop, end = asked.rows[1, segment], asked.end[window]
        while enter < stop and times[Unsigned(enter)] < end:
            line = Unsigned(lines[Unsigned(enter)])
            back[line] = combined(back[line], values[Unsigned(enter)], operation)
            enter += 1
        while leave < enter and times[Unsigned(leave)] < start:
            if leave == turn:
                for row in range(enter - 1, leave - 1, -1):
                    line = Unsigned(lines[Unsigned(row)])
                    held.rest[Unsigned(row)] = front[line]
                    front[line] = combined(front[line], values[Unsigned(row)], operation)
                    back[line] = identity[0]
                turn = enter
            front[Unsigned(lines[Unsigned(leave)])] = held.rest[Unsigned(leave)]
            leave += 1
        for i in range(Unsigned(low), Unsigned(high)):
            line = Unsigned(wanted.lines[i])
            out[i] = combined(front[line], back[line], operation)
    held.place[0], held.place[1], held.place[2], held.place[3] = segment, leave, turn, enter
