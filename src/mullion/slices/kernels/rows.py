"""Dense rows: partials of many predicates without a hash table (design decision 4).

Every event is compared with every predicate, but at the price of a byte: membership bytes of the regions that it falls
into, taken together, select the predicates whose states it is added to. There are no fragments, so there is no final
step over them, and every predicate is cut at the edges of its own windows only. In the words of krishnamurthy Table 5
this is the unshared aggregation, alpha |T|, with everything but the additions shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import Partial
from mullion.aggregates.count import Count
from mullion.aggregates.exact_sums import CARRY, COARSE, FINE, LARGEST_SPLIT, CoarseSum, Residue
from mullion.aggregates.extremes import Largest, Smallest
from mullion.expressions.arrays import Index, Real, Whole
from mullion.expressions.vector import Vector
from mullion.planner.slices import Progressions
from mullion.slices.kernels.compiled import (
    Classes,
    DenseRows,
    Edges,
    Predicates,
    Values,
    split_doubles,
    states_by_class,
    states_by_group,
    states_by_slice,
    take_units,
)
from mullion.slices.kernels.signature import Masks

UNITS = 2.0**-58, 2.0**-100, 2.0**-142
"""The units in which residues are added as whole numbers, as many of them as it takes to lose nothing. A double from
2^-6 up, which has 53 digits, ends at the first, one from 2^-90 up at the last."""
MOST_EVENTS = 1 << 21
"""Events whose residues are added up as whole numbers before they become doubles again. A residue is at most half of
FINE, 2^-17, so at most 2^41 of the first unit; what that leaves is at most 2^-59, so 2^41 of the second, and so on.
2^21 of them come to at most 2^62, and int64 ends at 2^63."""
MOST_OWN = 1 << 24
"""Entries of the table slice x predicate that groups need."""


@dataclass
class Fields:
    """The states of events, lifted and laid out for the compiled loops, and the way back.

    Counting values none of which is NULL is counting rows. The two whole numbers of a sum of doubles are one while they
    fit into it.
    """

    whole: list[Whole]
    real: list[Real]
    least: list[Whole]
    _back: list[tuple[Partial, str, int, tuple[Vector, ...]]]
    _splits: dict[int, tuple[Vector, tuple[Whole, Whole, Real]]] = field(default_factory=dict)
    _units: list[int] = field(default_factory=list)
    """How many rows of whole numbers each field of doubles takes."""

    @staticmethod
    def of(states: Sequence[tuple[Partial, Vector]], bad: Sequence[npt.NDArray[np.bool_]]) -> Fields:
        fields = Fields([], [], [], [])
        for partial, events in states:
            fields._add(partial, events)
        fields.whole += [b.astype(np.int64) for b in bad]
        return fields

    def _add(self, partial: Partial, events: Vector) -> None:
        if isinstance(partial, Count) and events.valid.all():
            self._back.append((partial, "rows", 0, ()))
            return
        if isinstance(partial, CoarseSum | Residue) and events.values.dtype == np.float64:
            self._add_doubles(partial, *self._split(events))
            return
        lifted = partial.lift(events)
        state = partial.load(lifted)
        if isinstance(partial, Residue):
            self._back.append((partial, "real", len(self.real), lifted))
            self.real.append(state[0])
        elif isinstance(partial, Smallest | Largest):
            self._back.append((partial, "least", len(self.least), lifted))
            self.least.append(state[0] if isinstance(partial, Smallest) else ~state[0])
        else:
            self._back.append((partial, "whole", len(self.whole), lifted))
            self.whole += state

    def _add_doubles(self, partial: Partial, coarse: Whole, fine: Whole, rest: Real) -> None:
        if isinstance(partial, Residue):
            self._back.append((partial, "real", len(self.real), ()))
            self.real.append(rest)
        elif _fits(coarse, fine):
            self._back.append((partial, "fixed", len(self.whole), ()))
            self.whole.append((coarse << CARRY) + fine)
        else:
            self._back.append((partial, "whole", len(self.whole), ()))
            self.whole += [coarse, fine]

    def _split(self, events: Vector) -> tuple[Whole, Whole, Real]:
        """Both partials of a sum of doubles need the same split, so it is done once."""
        if id(events) not in self._splits:
            length = len(events)
            parts = np.empty(length, np.int64), np.empty(length, np.int64), np.empty(length, np.float64)
            values, valid = np.ascontiguousarray(events.values), np.ascontiguousarray(events.valid)
            split_doubles(values, valid, LARGEST_SPLIT, COARSE, FINE, *parts)
            self._splits[id(events)] = events, parts
        return self._splits[id(events)][1]

    def as_whole(self) -> list[Whole] | None:
        """All fields as whole numbers; a field of doubles takes a row for each of UNITS that it needs. None where
        doubles are not what `CoarseSum` leaves of a value, or too small for the last unit."""
        whole = list(self.whole)
        self._units.clear()
        for doubles in self.real:
            units = in_units(doubles)
            if units is None:
                return None
            self._units.append(len(units))
            whole += units
        return whole

    def back_from_whole(self, computed: Whole) -> tuple[Whole, Real]:
        """The fields of rows that were computed from `as_whole`."""
        whole, rest = computed[: len(self.whole)], iter(computed[len(self.whole) :])
        real = [sum(next(rest).astype(np.float64) * unit for unit in UNITS[:units]) for units in self._units]
        return whole, _stacked(real, np.float64, computed.shape[1])

    def in_order(self, order: Index | slice) -> Values:
        """The fields of the events in that order, as the loops want them."""
        length = len((self.whole or self.real or self.least or [np.empty(0)])[0])
        return Values(
            _stacked([f[order] for f in self.whole], np.int64, length),
            _stacked([f[order] for f in self.real], np.float64, length),
            _stacked([f[order] for f in self.least], np.int64, length),
        )

    def stored(self, rows: Whole, whole: Whole, real: Real, least: Whole) -> list[tuple[Vector, ...]]:
        """The kept form of each state of the rows that a loop wrote."""
        states = []
        for partial, kind, at, lifted in self._back:
            if kind == "rows":
                state: tuple[npt.NDArray[np.generic], ...] = (rows,)
            elif kind == "real":
                state = (real[at],)
            elif kind == "least":
                state = (least[at] if isinstance(partial, Smallest) else ~least[at],)
            elif kind == "fixed":
                state = (whole[at] >> CARRY, whole[at] & (2**CARRY - 1))
            else:
                state = tuple(whole[at + i] for i in range(len(partial.stored)))
            states.append(partial.store(state, lifted))
        return states


def in_units(residues: Real) -> list[Whole] | None:
    """Residues as whole numbers of the first, the second, .. of UNITS, which together lose nothing; else None.

    >>> in_units(np.array([3 * 2.0**-58, -(2.0**-17)]))
    [array([            3, -2199023255552])]
    >>> in_units(np.array([2.0**-58 + 2.0**-100]))
    [array([1]), array([1])]
    """
    left, numbers = residues.copy(), list[Whole]()
    if not (np.abs(left) <= FINE / 2).all():
        return None
    for unit in UNITS:
        numbers.append(np.empty(len(left), np.int64))
        if not take_units(left, unit, numbers[-1]):
            return numbers
    return None


def _fits(coarse: Whole, fine: Whole) -> bool:
    """Whether sums of any of these stay within 63 bits when both are one number: n of them are each less than
    (|coarse| + 1) 2^26, as |fine| is at most 2^25, and together less than 2^62."""
    largest = int(np.abs(coarse).max(initial=0)) + 1
    return bool(largest * max(1, len(coarse)) < 2 ** (62 - CARRY))


def _stacked(fields: list[Any], dtype: npt.DTypeLike, length: int) -> Any:
    if len(fields) == 1:
        return np.ascontiguousarray(fields[0], dtype).reshape(1, -1)
    return np.ascontiguousarray(np.stack(fields), dtype) if fields else np.empty((0, length), dtype)


def edges_between(progressions: Progressions, low: int, high: int) -> Edges:
    """The edges of all predicates that events from low to high need."""
    slot, edge = progressions.edges(low, high)
    edges, at = np.unique(edge, return_inverse=True)
    order = np.argsort(at, kind="stable")
    return Edges(edges, slot[order].astype(np.int32), np.searchsorted(at[order], np.arange(len(edges) + 1)))


def dense_rows(
    times: Whole, groups: npt.NDArray[np.int64] | None, masks: Masks, fields: Fields, progressions: Progressions
) -> DenseRows:
    """The rows of a batch. Times and groups of the events are given in the order of the batch."""
    if not len(times):
        return DenseRows.room(0, len(fields.whole), len(fields.real), len(fields.least))
    cut = edges_between(progressions, int(times.min()), int(times.max()))
    slices = np.searchsorted(cut.edges, times, "right") - 1
    order: Index | slice = slice(None)
    if groups is not None:
        order = np.lexsort((slices, groups))
    elif (slices[1:] < slices[:-1]).any():
        order = np.argsort(slices, kind="stable")
    if groups is None:
        classes = classes_of(masks, fields)
        numbers = fields.as_whole() if classes is not None else None
        if classes is not None and numbers is not None:
            return _by_class(cut, slices[order], classes, fields, numbers, order)
    values = fields.in_order(order)
    predicates = Predicates(np.stack([part[order] for part in masks.codes]), masks.table, masks.first)
    if groups is None:
        return _without_groups(cut, slices[order], predicates, values)
    return _with_groups(cut, slices[order], groups[order], predicates, values, order)


def _without_groups(cut: Edges, slices: Index, predicates: Predicates, values: Values) -> DenseRows:
    slots = predicates.table.shape[1]
    start = np.full(slots, cut.edges[0], np.int64)
    room = DenseRows.room(len(cut.slots) + slots, *map(len, values))
    return room.first(states_by_slice(slices, cut, start, predicates, values, room))


def classes_of(masks: Masks, fields: Fields) -> Classes | None:
    """The classes of predicates. None where single predicates depend on too much, or there are not enough of them to be
    worth it."""
    slots = masks.table.shape[1]
    if fields.least or slots < LEAST_LANES:
        return None
    bounds = np.append(masks.first, len(masks.table))
    codes = np.empty((len(masks.codes), len(masks.codes[0])), np.int32)
    tables = []
    for part, (low, high) in enumerate(pairwise(bounds.tolist())):
        there = np.bincount(masks.codes[part], minlength=high - low) > 0
        np.take((np.cumsum(there) - 1).astype(np.int32), masks.codes[part], out=codes[part])
        tables.append(masks.table[low:high][there])
    sizes = np.array([len(table) for table in tables], np.int64)
    depends = np.stack([(table != table[:1]).any(axis=0) | (table[0] == 0) for table in tables])
    if (depends.sum(axis=0) > 2).any():
        return None
    kinds, slot_class = np.unique(depends, axis=1, return_inverse=True)
    classes, base = [], 0
    for kind in kinds.T:
        parts = np.flatnonzero(kind)
        parts = parts[np.argsort(sizes[parts], kind="stable")]
        inner = int(parts[-1]) if len(parts) else 0
        outer = int(parts[0]) if len(parts) == 2 else -1
        classes.append((outer, inner, base))
        base += int(sizes[inner] * (sizes[outer] if outer >= 0 else 1))
    if base > MOST_CELLS or len(classes) * CELL_PRICE > slots:
        return None
    members = np.ascontiguousarray(np.concatenate(tables).T)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    return Classes(codes, members, first, sizes, slot_class.astype(np.int64), np.array(classes, np.int64))


MOST_CELLS = 1 << 17
"""Cells of all histograms; more do not stay in the cache."""
CELL_PRICE = 8
"""Predicates that a compiled pass adds an event to in the time of one cell of a histogram."""
LEAST_LANES = 16


def _by_class(
    cut: Edges, slices: Index, classes: Classes, fields: Fields, numbers: Sequence[Whole], order: Index | slice
) -> DenseRows:
    slots, length = len(classes.slot_class), len(slices)
    counted = np.ones(length, np.int64)
    whole = np.stack([counted, *(field[order] for field in numbers)])
    room = len(cut.slots) + slots * -(-length // MOST_EVENTS)
    slot, start, sums = np.empty(room, np.int32), np.empty(room, np.int64), np.empty((len(whole), room), np.int64)
    first = np.full(slots, cut.edges[0], np.int64)
    classes = classes._replace(codes=np.ascontiguousarray(classes.codes[:, order]))
    rows = states_by_class(slices, cut, first, classes, whole, MOST_EVENTS, slot, start, sums)
    states, real = fields.back_from_whole(sums[1:, :rows])
    none = np.empty((0, rows), np.int64)
    return DenseRows(slot[:rows], start[:rows], np.zeros(rows, np.intp), sums[0, :rows], states, real, none)


def _with_groups(
    cut: Edges,
    slices: Index,
    groups: npt.NDArray[np.int64],
    predicates: Predicates,
    values: Values,
    order: Index | slice,
) -> DenseRows:
    slots = predicates.table.shape[1]
    own = np.zeros((len(cut.edges), slots), np.int32)
    which = np.repeat(np.arange(len(cut.edges)), np.diff(cut.starts))
    own[which, cut.slots] = which
    own = np.maximum.accumulate(own, axis=0)
    size = 2 * len(slices) + slots
    while True:
        room = DenseRows.room(size, *map(len, values))
        count = states_by_group(slices, groups, own, predicates, values, room)
        if count >= 0:
            break
        size *= 4
    rows = room.first(count)
    events = np.arange(len(slices))[order] if isinstance(order, slice) else order
    return rows._replace(slices=cut.edges[rows.slices], event=events[rows.event])
