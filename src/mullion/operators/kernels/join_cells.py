"""Cells of a join's results, and windows that are folded from them. Loops that are compiled.

cells of a group, by place    | 10 | 20 | 30 | 40 |        at 50, after the results that were made before it came:
                                         <----[    ]       the window from 40, answered along the way
                               <---------[         ]       and the window from 20, on the same walk (golab 8.3.2)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Array, Unsigned
from mullion.loops import loop
from mullion.slices.kernels.ranges import ADD, LEAST, MOST

ADD_DOUBLES = 3
"""Beside ADD, LEAST and MOST of whole numbers: the number is the bits of a double."""


class Cells(NamedTuple):
    """The cells of all groups, by group and place."""

    bounds: Array
    """Those of group g are bounds[g] to bounds[g + 1]."""
    places: Array
    states: Array
    """Cell x number; the first counts results."""


class Coming(NamedTuple):
    """Results that come, by group and by when they are seen first."""

    bounds: Array
    cells: Array
    seen: Array
    """The first of the instants that sees the result."""
    states: Array


class AskedPlaces(NamedTuple):
    """What is asked at instants: from which place on results are folded. The youngest places come first."""

    times: Array
    bounds: Array
    """Instant u asks for bounds[u] to bounds[u + 1]."""
    begins: Array
    numbers: Array
    """By which each is called."""


class AnswerStates(NamedTuple):
    groups: Array
    states: Array
    """Number x answer."""


@loop
def fold(into: Array, at: int, states: Array, row: int, operations: Array) -> None:
    """Combines the numbers of a row with those at a place."""
    own, given = into.view(np.float64), states.view(np.float64)
    for f in range(len(operations)):
        operation = operations[f]
        if operation == ADD:
            into[at, f] += states[row, f]
        elif operation == LEAST:
            into[at, f] = min(into[at, f], states[row, f])
        elif operation == MOST:
            into[at, f] = max(into[at, f], states[row, f])
        else:
            own[at, f] += given[row, f]


NOWHERE = np.iinfo(np.int64).min


@loop
def _youngest(cells: Cells, low: int, high: int) -> int:
    """Where the youngest cell of a group that has a result begins."""
    for cell in range(high - 1, low - 1, -1):
        if cells.states[cell, 0] > 0:
            place: int = cells.places[cell]
            return place
    return NOWHERE


@loop
def count(cells: Cells, coming: Coming, asked: AskedPlaces, longest: int, counts: Array) -> None:
    """How many groups answer each question: those with a result that is not placed before it begins."""
    for group in range(len(cells.bounds) - 1):
        low, high = cells.bounds[group], cells.bounds[group + 1]
        row, end = coming.bounds[group], coming.bounds[group + 1]
        youngest = _youngest(cells, low, high)
        first = coming.seen[row] if youngest == NOWHERE and row < end else 0
        last = np.searchsorted(asked.times, cells.places[high - 1] + longest, "right")
        for instant in range(first, last):
            while row < end and coming.seen[row] <= instant:
                youngest = max(youngest, cells.places[Unsigned(coming.cells[Unsigned(row)])])
                row += 1
            for question in range(asked.bounds[instant], asked.bounds[instant + 1]):
                at = Unsigned(question)
                counts[Unsigned(asked.numbers[at])] += youngest >= asked.begins[at]


@loop
def _plant(tree: Array, cells: Cells, low: int, high: int, operations: Array, identity: Array) -> None:
    """Intervals of 1, 2, 4, .. neighbouring cells of a group: tree[i] is of as many, up to the i-th youngest, as the
    lowest bit of i says (Fenwick 1994)."""
    count = high - low
    for i in range(1, count + 1):
        tree[i] = identity[0]
    for i in range(1, count + 1):
        fold(tree, i, cells.states, high - i, operations)
        if i + (i & -i) <= count:
            fold(tree, i + (i & -i), tree, i, operations)


@loop
def _add(tree: Array, count: int, at: int, states: Array, row: int, operations: Array) -> None:
    """Adds a result to the intervals that hold the cell it goes to."""
    while at <= count:
        fold(tree, at, states, row, operations)
        at += at & -at


@loop
def _is_tree_less(count: int, coming: int, instants: int, questions: int) -> bool:
    """Whether intervals cost less than walks, in accesses."""
    height = 1
    while (1 << height) <= count:
        height += 1
    return instants * count > 2 * (count + (coming + questions) * height)


@loop
def probe_cells(
    cells: Cells,
    coming: Coming,
    asked: AskedPlaces,
    longest: int,
    operations: Array,
    identity: Array,
    nexts: Array,
    out: AnswerStates,
) -> None:
    """Adds what comes to the cells, and answers on the way: at each instant one walk from the youngest cell of a group
    to the oldest (golab 8.3.2, BIJ; rule CS5), or a look at some intervals of cells for each question (IJ), whichever
    is less for the group. The answers of question a go to nexts[a] and on, in the order of groups."""
    held = identity.copy()
    tree = np.empty((np.diff(cells.bounds).max() + 1 if len(cells.bounds) > 1 else 0, len(operations)), np.int64)
    for group in range(len(cells.bounds) - 1):
        low, high = cells.bounds[group], cells.bounds[group + 1]
        row, end = coming.bounds[group], coming.bounds[group + 1]
        is_new = _youngest(cells, low, high) == NOWHERE
        instant = coming.seen[row] if is_new and row < end else 0
        last = np.searchsorted(asked.times, cells.places[high - 1] + longest, "right")
        number = asked.bounds[max(instant, last)] - asked.bounds[instant]
        in_tree = _is_tree_less(high - low, end - row, last - instant, number)
        if in_tree:
            _plant(tree, cells, low, high, operations, identity)
        while instant < last:
            while row < end and coming.seen[row] <= instant:
                fold(cells.states, coming.cells[row], coming.states, row, operations)
                if in_tree:
                    _add(tree, high - low, high - coming.cells[row], coming.states, row, operations)
                row += 1
            held[:] = identity
            cell = high - 1
            for question in range(asked.bounds[instant], asked.bounds[instant + 1]):
                if in_tree:
                    held[:] = identity
                    at = high - low - np.searchsorted(cells.places[low:high], asked.begins[question])
                    while at > 0:
                        fold(held, 0, tree, at, operations)
                        at -= at & -at
                else:
                    while cell >= low and cells.places[cell] >= asked.begins[question]:
                        if cells.states[cell, 0] > 0:
                            fold(held, 0, cells.states, cell, operations)
                        cell -= 1
                if held[0, 0] > 0:
                    number = asked.numbers[question]
                    out.groups[nexts[number]] = group
                    for f in range(len(operations)):
                        out.states[f, nexts[number]] = held[0, f]
                    nexts[number] += 1
            instant += 1
        while row < end:
            fold(cells.states, coming.cells[row], coming.states, row, operations)
            row += 1
