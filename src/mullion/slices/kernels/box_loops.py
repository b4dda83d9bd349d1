"""The compiled loop of sums over boxes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Array, Unsigned
from mullion.loops import loop


class Stretches(NamedTuple):
    """Events between edges, and which predicates have an edge there."""

    edges: Array
    """Edge 0 lies at or before all events."""
    bounds: Array
    """The first event at or after each edge, and after the last one how many events there are."""
    ending: Array
    starts: Array
    """Predicates `ending[starts[e]:starts[e + 1]]` have an edge at edge e."""


class EventCells(NamedTuple):
    """The cell of each event, and its numbers. The first of them are arrays of their own, so that they are added in one
    pass and need not be copied together; those that are not there have no events."""

    outer: Array
    inner: Array
    height: int
    width: int
    depth: int
    """How many numbers a cell has, of which the first counts events."""
    first: Array
    second: Array
    third: Array
    others: Array
    """Number x event."""


class BoxRuns(NamedTuple):
    """Predicate q holds in runs first[q] up to first[q + 1] of both axes: in each pair of them, a box."""

    outer_first: Array
    outer: Array
    inner_first: Array
    inner: Array
    area: Array
    """Cells in all boxes of each predicate."""


class BoxRows(NamedTuple):
    """Rows: the predicate, the start of its slice, and the sums."""

    slot: Array
    slices: Array
    sums: Array
    """Row x number, of which the first counts events."""


@loop
def _add_events(events: EventCells, begin: int, end: int, cells: Array) -> None:
    """Cells are one after the other, the numbers of each together: then an event waits for memory once."""
    outer, inner, _, width, depth, first, second, third, others = events
    for i in range(Unsigned(begin), Unsigned(end)):
        at = Unsigned((np.int64(outer[i]) * width + inner[i]) * depth)
        cells[at] += 1
        if depth > 1:
            cells[at + Unsigned(1)] += first[i]
        if depth > 2:
            cells[at + Unsigned(2)] += second[i]
        if depth > 3:
            cells[at + Unsigned(3)] += third[i]
        for f in range(4, depth):
            cells[at + Unsigned(f)] += others[f - 4, i]


@loop
def _fill_prefixes(cells: Array, prefixes: Array, row: Array) -> None:
    """prefixes[o, i] is the sum of all cells before row o and column i."""
    numbers, at = len(row), 0
    for o in range(prefixes.shape[0] - 1):
        row[:] = 0
        for i in range(prefixes.shape[1] - 1):
            for f in range(numbers):
                row[f] += cells[at]
                prefixes[o + 1, i + 1, f] = prefixes[o, i + 1, f] + row[f]
                at += 1


@loop
def _from_prefixes(q: int, runs: BoxRuns, prefixes: Array, now: Array) -> None:
    now[:] = 0
    for a in range(runs.outer_first[q], runs.outer_first[q + 1]):
        top, bottom = prefixes[runs.outer[a, 0]], prefixes[runs.outer[a, 1]]
        for b in range(runs.inner_first[q], runs.inner_first[q + 1]):
            low, high = runs.inner[b, 0], runs.inner[b, 1]
            for f in range(len(now)):
                now[f] += bottom[high, f] - bottom[low, f] - top[high, f] + top[low, f]


@loop
def _add_run(cells: Array, low: int, high: int, now: Array) -> None:
    """Adds the cells from one place to another, whose numbers are kept in registers."""
    depth = len(now)
    events, first, second, third = 0, 0, 0, 0
    for at in range(Unsigned(low * depth), Unsigned(high * depth), Unsigned(depth)):
        events += cells[at]
        if depth > 1:
            first += cells[at + Unsigned(1)]
        if depth > 2:
            second += cells[at + Unsigned(2)]
        if depth > 3:
            third += cells[at + Unsigned(3)]
    now[0] += events
    if depth > 1:
        now[1] += first
    if depth > 2:
        now[2] += second
    if depth > 3:
        now[3] += third
    for f in range(4, depth):
        for at in range(low * depth + f, high * depth + f, depth):
            now[f] += cells[at]


@loop
def _from_cells(q: int, runs: BoxRuns, cells: Array, width: int, now: Array) -> None:
    now[:] = 0
    for a in range(runs.outer_first[q], runs.outer_first[q + 1]):
        for o in range(runs.outer[a, 0], runs.outer[a, 1]):
            for b in range(runs.inner_first[q], runs.inner_first[q + 1]):
                _add_run(cells, o * width + runs.inner[b, 0], o * width + runs.inner[b, 1], now)


@loop
def _write(q: int, start: int, now: Array, before: Array, out: BoxRows, written: int) -> int:
    """Writes what came to predicate q since its last row, if anything did."""
    if now[0] == before[q, 0]:
        return written
    out.slot[written], out.slices[written] = q, start
    for f in range(len(now)):
        out.sums[written, f] = now[f] - before[q, f]
        before[q, f] = now[f]
    return written + 1


@loop
def sums_of_boxes(
    stretches: Stretches, events: EventCells, runs: BoxRuns, start: Array, most: int, dear: int, out: BoxRows
) -> int:
    """Rows of all predicates; see `boxes`. Returns how many were written.

    `start` has the start of the present slice of each predicate. After every `most` events all predicates are written
    out and cells begin anew, so no number holds the sum of more. Prefixes are made where the boxes that end have more
    than `dear` times as many cells as there are.
    """
    slots, size, numbers = len(start), events.height * events.width, events.depth
    cells = np.zeros(size * numbers, np.int64)
    prefixes = np.zeros((events.height + 1, events.width + 1, numbers), np.int64)
    before = np.zeros((slots, numbers), np.int64)
    now, row = np.zeros(numbers, np.int64), np.zeros(numbers, np.int64)
    written, taken, last = 0, 0, len(stretches.edges)
    for e in range(last + 1):
        begin, end = (stretches.starts[e], stretches.starts[e + 1]) if e < last else (0, slots)
        area = 0
        for j in range(begin, end):
            area += runs.area[stretches.ending[j] if e < last else j]
        by_prefixes = area > dear * size
        if by_prefixes and taken > 0:
            _fill_prefixes(cells, prefixes, row)
        for j in range(begin, end):
            q = stretches.ending[j] if e < last else j
            if taken > 0:
                if by_prefixes:
                    _from_prefixes(q, runs, prefixes, now)
                else:
                    _from_cells(q, runs, cells, events.width, now)
                written = _write(q, start[q], now, before, out, written)
            if e < last:
                start[q] = stretches.edges[e]
        if e == last:
            break
        at = stretches.bounds[e]
        while at < stretches.bounds[e + 1]:
            upto = min(stretches.bounds[e + 1], at + most - taken)
            _add_events(events, at, upto, cells)
            at, taken = upto, taken + upto - at
            if taken == most:
                _fill_prefixes(cells, prefixes, row)
                for q in range(slots):
                    _from_prefixes(q, runs, prefixes, now)
                    written = _write(q, start[q], now, before, out, written)
                taken = 0
                cells[:] = 0
                before[:] = 0
    return written
