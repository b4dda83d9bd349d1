"""The loops over events that numpy cannot express, compiled by numba.

Every function is compiled for the types it is called with, once for a machine: the code is cached beside this file,
or in the user's cache directory where that cannot be written, and later runs and Spark's Python workers load it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Array, Mask
from mullion.loops import loop

NO_VALUE = np.iinfo(np.int64).max
"""What is larger than any value; the largest of values is found as the least of their complements."""


class Edges(NamedTuple):
    """Where predicates are cut: all edges in the stretch of the events, and which predicates have one there."""

    edges: Array
    slots: Array
    starts: Array
    """Predicates `slots[starts[s]:starts[s + 1]]` have an edge at edge s. Edge 0 lies before all events."""


class Predicates(NamedTuple):
    """Which predicates each event satisfies: those that all its rows of the table name, one row of each part."""

    codes: Array
    """The rows of each part, from its first row on: parts x events."""
    table: Array
    first: Array


class FieldValues(NamedTuple):
    """What is added up of each event, and of what the least is taken: a row for each field."""

    whole: Array
    real: Array
    least: Array


class DenseRows(NamedTuple):
    """Rows: the predicate, the start of its slice, how many events, and the states."""

    slot: Array
    slices: Array
    rows: Array
    whole: Array
    real: Array
    least: Array

    @staticmethod
    def room(number: int, whole: int, real: int, least: int) -> DenseRows:
        return DenseRows(
            np.empty(number, np.int32),
            np.empty(number, np.int64),
            np.empty(number, np.int64),
            np.empty((whole, number), np.int64),
            np.empty((real, number), np.float64),
            np.empty((least, number), np.int64),
        )

    @staticmethod
    def together(parts: Sequence[DenseRows]) -> DenseRows:
        """The rows of different predicates."""
        if len(parts) == 1:
            return parts[0]
        return DenseRows(*(np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True)))

    def first(self, number: int) -> DenseRows:
        return DenseRows(*(column[..., :number] for column in self))

    def where(self, kept: Mask) -> DenseRows:
        """Only some of the rows."""
        return self if kept.all() else DenseRows(*(column[..., kept] for column in self))


@loop
def in_first_units(values: Array, unit: float, limit: float, out: Array) -> tuple[bool, bool]:
    """The nearest whole number of units, a power of two, of each double; returns whether none is beyond the limit, and
    whether anything is left of one."""
    is_small, is_left = True, False
    for i in range(len(values)):
        value = values[i] if abs(values[i]) <= limit else 0.0
        number = np.rint(value / unit)
        out[i] = np.int64(number)
        is_small &= abs(values[i]) <= limit
        is_left |= number * unit != value
    return is_small, is_left


@loop
def take_units(left: Array, unit: float, out: Array) -> bool:
    """Takes the nearest whole number of units, a power of two, out of each double; returns whether anything is left."""
    is_left = False
    for i in range(len(left)):
        number = np.rint(left[i] / unit)
        out[i] = np.int64(number)
        left[i] -= number * unit
        is_left |= left[i] != 0.0
    return is_left


@loop
def split_doubles(
    values: Array, valid: Array, limit: float, unit: float, small: float, coarse: Array, fine: Array, rest: Array
) -> None:
    """`aggregates.exact_sums.split` in one pass."""
    for i in range(len(values)):
        value = values[i] if valid[i] else 0.0
        if abs(value) < limit:
            whole = np.rint(value / unit)
            left = value - whole * unit
            parts = np.rint(left / small)
            coarse[i], fine[i], rest[i] = np.int64(whole), np.int64(parts), left - parts * small
        else:
            coarse[i], fine[i], rest[i] = 0, 0, value


@loop
def satisfied(codes: Array, table: Array, first: Array, i: int, mask: Array) -> None:
    """The predicates that event i satisfies: one row of each attribute's table, taken together."""
    slots = len(mask)
    row = table[first[0] + codes[0, i]]
    for q in range(slots):
        mask[q] = row[q]
    for a in range(1, codes.shape[0]):
        row = table[first[a] + codes[a, i]]
        for q in range(slots):
            mask[q] &= row[q]


@loop
def states_by_slice(
    slices: Array, cut: Edges, start: Array, predicates: Predicates, values: FieldValues, out: DenseRows
) -> int:
    """Dense rows without groups: for each event, one pass over all predicates (design decision 4).

    Events come in the order of their slices. The states of a predicate are written out where one of its own windows
    has an edge, so what is worked on stays as small as one row of predicates. `start` has the start of the present
    slice of each. Returns how many rows were written; there is room for a row for every edge of a predicate, and one
    more for each predicate.
    """
    edges, ending, ending_from = cut
    codes, table, first = predicates
    whole, real, least = values
    out_slot, out_slice, out_rows, out_whole, out_real, out_least = out
    slots = table.shape[1]
    mask = np.empty(slots, np.uint8)
    counted = np.zeros(slots, np.int64)
    sums = np.zeros((whole.shape[0], slots), np.int64)
    totals = np.zeros((real.shape[0], slots), np.float64)
    lows = np.full((least.shape[0], slots), NO_VALUE, np.int64)
    rows, current = 0, 0
    last = len(slices)
    for i in range(last + 1):
        upto = slices[i] if i < last else current + 1
        while current < upto:
            current += 1
            begin, end = (ending_from[current], ending_from[current + 1]) if i < last else (0, slots)
            for j in range(begin, end):
                q = ending[j] if i < last else j
                if counted[q] > 0:
                    out_slot[rows], out_slice[rows], out_rows[rows] = q, start[q], counted[q]
                    counted[q] = 0
                    for f in range(whole.shape[0]):
                        out_whole[f, rows] = sums[f, q]
                        sums[f, q] = 0
                    for f in range(real.shape[0]):
                        out_real[f, rows] = totals[f, q]
                        totals[f, q] = 0.0
                    for f in range(least.shape[0]):
                        out_least[f, rows] = lows[f, q]
                        lows[f, q] = NO_VALUE
                    rows += 1
                if i < last:
                    start[q] = edges[current]
        if i == last:
            break
        satisfied(codes, table, first, i, mask)
        for q in range(slots):
            counted[q] += mask[q]
        for f in range(whole.shape[0]):
            number, own_sums = whole[f, i], sums[f]
            for q in range(slots):
                own_sums[q] += number if mask[q] else 0
        for f in range(real.shape[0]):
            value, own_totals = real[f, i], totals[f]
            for q in range(slots):
                own_totals[q] += value if mask[q] else 0.0
        for f in range(least.shape[0]):
            low, own_lows = least[f, i], lows[f]
            for q in range(slots):
                own_lows[q] = min(own_lows[q], low if mask[q] else NO_VALUE)
    return rows
