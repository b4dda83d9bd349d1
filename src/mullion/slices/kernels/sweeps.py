"""Windows over rows in the order of their slices: what enters and what leaves. Loops that are compiled.

    rows       A   B   A | B   C | A | C   B       the line of each, slice by slice
    window 1  [-------------------]                A B A B C enter: lines A, B, C
    window 2             [------------------]      A B A leave, A C B enter: lines A, B, C

The windows of a segment start and end one after the other, so every row enters once and leaves once. What is held of
each line is a number in a table, which stays in the cache: rows are read and answers are written from the first to the
last.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mullion.expressions.arrays import Array
from mullion.slices.kernels.ranges import combined, seek


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


class Wanted(NamedTuple):
    """Pairs of a window and a line that something is asked of."""

    first: Array
    """Those of window w are first[w] to first[w + 1]."""
    lines: Array


@njit(cache=True, nogil=True)
def count_lines(course: Course, asked: Swept, held: Array, count: Array) -> None:
    """How many lines have a row in each window. `held` has a place for each line, 0 before the call and after it."""
    times, lines = course
    for s in range(len(asked.bounds) - 1):
        leave = enter = asked.rows[0, s]
        stop, number = asked.rows[1, s], 0
        for window in range(asked.bounds[s], asked.bounds[s + 1]):
            if leave == enter:
                leave = enter = seek(times, enter, stop, asked.start[window])
            while enter < stop and times[enter] < asked.end[window]:
                line = lines[enter]
                number += held[line] == 0
                held[line] += 1
                enter += 1
            while leave < enter and times[leave] < asked.start[window]:
                line = lines[leave]
                held[line] -= 1
                number -= held[line] == 0
                leave += 1
            count[window] = number
        for row in range(leave, enter):
            held[lines[row]] = 0


@njit(cache=True, nogil=True)
def find_lines(course: Course, asked: Swept, held: Array, out: Array) -> None:
    """The lines that have a row in each window, window by window and in their order. `out` has room for one more."""
    times, lines = course
    at = 0
    for s in range(len(asked.bounds) - 1):
        leave = enter = asked.rows[0, s]
        stop = asked.rows[1, s]
        for window in range(asked.bounds[s], asked.bounds[s + 1]):
            if leave == enter:
                leave = enter = seek(times, enter, stop, asked.start[window])
            while enter < stop and times[enter] < asked.end[window]:
                held[lines[enter]] += 1
                enter += 1
            while leave < enter and times[leave] < asked.start[window]:
                held[lines[leave]] -= 1
                leave += 1
            for line in range(asked.lines[0, s], asked.lines[1, s]):
                out[at] = line
                at += held[line] > 0
        for row in range(leave, enter):
            held[lines[row]] = 0


@njit(cache=True, nogil=True)
def find_few_lines(course: Course, asked: Swept, held: Array, place: Array, out: Array) -> None:
    """The same where windows have few of the lines: those that have a row are listed, and `place` says where."""
    times, lines = course
    listed = np.empty(len(place), out.dtype)
    at = 0
    for s in range(len(asked.bounds) - 1):
        leave = enter = asked.rows[0, s]
        stop, number = asked.rows[1, s], 0
        for window in range(asked.bounds[s], asked.bounds[s + 1]):
            if leave == enter:
                leave = enter = seek(times, enter, stop, asked.start[window])
            while enter < stop and times[enter] < asked.end[window]:
                line = lines[enter]
                if held[line] == 0:
                    listed[number] = line
                    place[line] = number
                    number += 1
                held[line] += 1
                enter += 1
            while leave < enter and times[leave] < asked.start[window]:
                line = lines[leave]
                held[line] -= 1
                if held[line] == 0:
                    number -= 1
                    last = listed[number]
                    listed[place[line]] = last
                    place[last] = place[line]
                leave += 1
            out[at : at + number] = listed[:number]
            out[at : at + number].sort()
            at += number
        for row in range(leave, enter):
            held[lines[row]] = 0


@njit(cache=True, nogil=True)
def sums(course: Course, asked: Swept, wanted: Wanted, values: Array, held: Array, out: Array) -> None:
    """The sum of the rows of each pair. Requires numbers of which none is lost when another is subtracted again."""
    times, lines = course
    for s in range(len(asked.bounds) - 1):
        leave = enter = asked.rows[0, s]
        stop = asked.rows[1, s]
        for window in range(asked.bounds[s], asked.bounds[s + 1]):
            if leave == enter:
                leave = enter = seek(times, enter, stop, asked.start[window])
            while enter < stop and times[enter] < asked.end[window]:
                held[lines[enter]] += values[enter]
                enter += 1
            while leave < enter and times[leave] < asked.start[window]:
                held[lines[leave]] -= values[leave]
                leave += 1
            for i in range(wanted.first[window], wanted.first[window + 1]):
                out[i] = held[wanted.lines[i]]
        for row in range(leave, enter):
            held[lines[row]] = 0


@njit(cache=True, nogil=True)
def combinations(
    course: Course, asked: Swept, wanted: Wanted, values: Array, operation: int, front: Array, back: Array, out: Array
) -> None:
    """The same of states that cannot be subtracted, in two stacks for all lines at once. `front` and `back` have a
    place for each line, the identity before the call and after it.

        rows      | left | front: combined up to `turn` | back: combined from there on |
                         leave                           turn                          enter

    When the front is empty, all that is held becomes the front: going back from the last row, each notes what the front
    of its line is without it, which is what remains when it leaves.
    """
    if not len(front):
        return
    times, lines = course
    identity = front[0]
    rest = np.empty(len(values), values.dtype)
    for s in range(len(asked.bounds) - 1):
        leave = turn = enter = asked.rows[0, s]
        stop = asked.rows[1, s]
        for window in range(asked.bounds[s], asked.bounds[s + 1]):
            start = asked.start[window]
            if leave < enter and times[enter - 1] < start:
                for row in range(leave, enter):
                    front[lines[row]] = back[lines[row]] = identity
                leave = enter
            if leave == enter:
                leave = turn = enter = seek(times, enter, stop, start)
            while enter < stop and times[enter] < asked.end[window]:
                line = lines[enter]
                back[line] = combined(back[line], values[enter], operation)
                enter += 1
            while leave < enter and times[leave] < start:
                if leave == turn:
                    for row in range(enter - 1, leave - 1, -1):
                        line = lines[row]
                        rest[row] = front[line]
                        front[line] = combined(front[line], values[row], operation)
                        back[line] = identity
                    turn = enter
                front[lines[leave]] = rest[leave]
                leave += 1
            for i in range(wanted.first[window], wanted.first[window + 1]):
                line = wanted.lines[i]
                out[i] = combined(front[line], back[line], operation)
        for row in range(leave, enter):
            front[lines[row]] = back[lines[row]] = identity


__all__ = ["Course", "Swept", "Wanted", "combinations", "count_lines", "find_few_lines", "find_lines", "sums"]
