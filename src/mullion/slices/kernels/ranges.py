"""Where the rows of windows lie, and what they hold: loops over (window, line) pairs that are compiled.

A line is a slot and a group. Its rows follow one another in the order of their slices, so the rows of a window are one
range of them. The windows of a query start and end one after the other: ranges are found by going on from those of
the window before, and pairs without a row cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from mullion.expressions.arrays import Array, Unsigned
from mullion.loops import loop

ADD, LEAST, MOST = 0, 1, 2
"""What `over_ranges` does with two states."""


class Lines(NamedTuple):
    times: Array
    """The slice of each row."""
    starts: Array
    """Line l has rows starts[l] to starts[l + 1], in the order of their slices."""


class Segments(NamedTuple):
    """Windows that start and end one after the other, and the lines that they are asked of."""

    bounds: Array
    """Segment s has windows bounds[s] to bounds[s + 1]."""
    begin: Array
    """Its first line."""
    lines: Array
    """How many lines it has."""
    start: Array
    end: Array
    """Of each window."""


@loop
def sort_by_line(line: Array, size: int, order: Array, starts: Array) -> None:
    """A stable counting sort: `order` are the rows line by line, `starts` has room for size + 1."""
    starts[:] = 0
    for i in range(len(line)):
        starts[Unsigned(line[i] + 1)] += 1
    for i in range(size):
        starts[i + 1] += starts[i]
    at = starts[:-1].copy()
    for i in range(len(line)):
        own = Unsigned(line[i])
        order[Unsigned(at[own])] = i
        at[own] += 1


@loop
def count_members(rows: Array, inside: Array, count: Array) -> None:
    """How many rows each slot has, from those of each fragment and whether it is inside each slot."""
    for fragment in range(len(inside)):
        for slot in range(inside.shape[1]):
            count[slot] += rows[fragment] * inside[fragment, slot]


@loop
def rows_of_fragments(codes: Array, order: Array, first: Array, slot: Array, at: Array, out: Array) -> None:
    """The rows of each slot in their order, from the fragment of each row and the slots of each fragment, which are
    slot[first[f]] to slot[first[f + 1]]. `at` is where the rows of each slot begin, and is changed."""
    for i in range(len(order)):
        fragment = codes[Unsigned(order[i])]
        for j in range(first[fragment], first[fragment + 1]):
            own = Unsigned(slot[Unsigned(j)])
            out[Unsigned(at[own])] = order[i]
            at[own] += 1


@loop
def is_in_order(times: Array, starts: Array) -> bool:
    """Whether the times ascend within each line."""
    for line in range(len(starts) - 1):
        for i in range(starts[line] + 1, starts[line + 1]):
            if times[i] < times[i - 1]:
                return False
    return True


@loop
def seek(times: Array, at: int, stop: int, time: int) -> int:
    """The first place from `at` on whose time is not before `time`, in steps that double: near places cost little."""
    if at >= stop or times[Unsigned(at)] >= time:
        return at
    step = 1
    while at + step < stop and times[Unsigned(at + step)] < time:
        at += step
        step <<= 1
    low, high = at + 1, min(at + step, stop)
    while low < high:
        middle = (low + high) >> 1
        if times[Unsigned(middle)] < time:
            low = middle + 1
        else:
            high = middle
    return low


@loop
def seek_each(times: Array, wanted: Array, at: Array) -> None:
    """The first place whose time is not before each of the wanted ones, which ascend."""
    place = 0
    for i in range(len(wanted)):
        at[i] = place = seek(times, place, len(times), wanted[i])


@loop
def count_pairs(rows: Lines, asked: Segments, count: Array) -> None:
    """For each window, the lines that have a row in it."""
    for s in range(len(asked.begin)):
        stop_window = asked.bounds[s + 1]
        for line in range(asked.begin[s], asked.begin[s] + asked.lines[s]):
            low, stop = rows.starts[line], rows.starts[line + 1]
            window = asked.bounds[s]
            while window < stop_window:
                low = seek(rows.times, low, stop, asked.start[window])
                if low == stop:
                    break
                if rows.times[low] < asked.end[window]:
                    count[window] += 1
                    window += 1
                else:
                    window = seek(asked.end, window + 1, stop_window, rows.times[low] + 1)


@loop
def find_pairs(rows: Lines, asked: Segments, place: Array, lines: Array, lows: Array, highs: Array) -> None:
    """The line and the range of rows of each pair that has some. Those of window w go to place[w] and on, by line."""
    for s in range(len(asked.begin)):
        stop_window = asked.bounds[s + 1]
        for line in range(asked.begin[s], asked.begin[s] + asked.lines[s]):
            low, stop = rows.starts[line], rows.starts[line + 1]
            high = low
            window = asked.bounds[s]
            while window < stop_window:
                low = seek(rows.times, low, stop, asked.start[window])
                if low == stop:
                    break
                if rows.times[low] < asked.end[window]:
                    high = seek(rows.times, max(low, high), stop, asked.end[window])
                    at = place[window]
                    lines[at], lows[at], highs[at] = line, low, high
                    place[window] = at + 1
                    window += 1
                else:
                    window = seek(asked.end, window + 1, stop_window, rows.times[low] + 1)


@loop
def search_ranges(rows: Lines, line: Array, start: Array, end: Array, lows: Array, highs: Array) -> None:
    """The rows of each (line, start, end); of line -1 there are none. Whatever their order, but those of a query follow
    one another, and each is soon found from the one before."""
    low = high = 0
    for i in range(len(line)):
        if line[i] < 0:
            lows[i] = highs[i] = 0
            continue
        first, stop = rows.starts[line[i]], rows.starts[line[i] + 1]
        if i == 0 or line[i] != line[i - 1] or start[i] < start[i - 1] or end[i] < end[i - 1]:
            low = high = first
        lows[i] = low = seek(rows.times, low, stop, start[i])
        highs[i] = high = seek(rows.times, max(low, high), stop, end[i])


@loop
def prefixes(values: Array, order: Array, out: Array) -> None:
    """The sums of the first 0, 1, 2, .. values in an order."""
    total = 0
    out[0] = 0
    for i in range(len(order)):
        total += values[Unsigned(order[i])]
        out[i + 1] = total


@loop
def differences(sums: Array, low: Array, high: Array, out: Array) -> None:
    for i in range(len(low)):
        out[i] = sums[Unsigned(high[i])] - sums[Unsigned(low[i])] if high[i] > low[i] else 0


@loop
def over_ranges(nodes: Array, first: Array, operation: int, low: Array, high: Array, out: Array) -> int:
    """The combination of each range through a tree of intervals: level k begins at node first[k]. `out` holds the
    identity. Returns how many nodes were taken."""
    taken = 0
    for i in range(len(low)):
        left, right, level, value = low[i], high[i], 0, out[i]
        while left < right:
            if left & 1:
                value = combined(value, nodes[Unsigned(first[level] + left)], operation)
                taken += 1
            if right & 1:
                value = combined(value, nodes[Unsigned(first[level] + right - 1)], operation)
                taken += 1
            left, right, level = (left + 1) >> 1, right >> 1, level + 1
        out[i] = value
    return taken


@loop
def combined(a: float, b: float, operation: int) -> float:
    if operation == ADD:
        return a + b
    if operation == LEAST:
        return min(a, b)
    return max(a, b)


@loop
def first_by_rank(ranks: Array, bounds: Array, most: int, out: Array) -> int:
    """Of the rows bounds[a] to bounds[a + 1] of each answer, the first ones by `ranks` (columns x rows), in order; rows
    of equal ranks as they stand. Returns how many there are together."""
    columns = len(ranks)
    number = 0
    for answer in range(len(bounds) - 1):
        held = 0
        for row in range(bounds[answer], bounds[answer + 1]):
            if held == most and not _precedes(ranks, columns, row, out[number + held - 1]):
                continue
            at = number + (held if held < most else held - 1)
            held = min(held + 1, most)
            while at > number and _precedes(ranks, columns, row, out[at - 1]):
                out[at] = out[at - 1]
                at -= 1
            out[at] = row
        number += held
    return number


@loop
def _precedes(ranks: Array, columns: int, a: int, b: int) -> bool:
    for column in range(columns):
        if ranks[column, a] != ranks[column, b]:
            return bool(ranks[column, a] < ranks[column, b])
    return False
