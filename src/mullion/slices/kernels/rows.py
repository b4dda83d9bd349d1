"""Dense rows: partials of many predicates without a hash table (design decision 4).

Every event is compared with every predicate, but at the price of a byte: membership bytes of the regions that it falls
into, taken together, select the predicates whose states it is added to. There are no fragments, so there is no final
step over them, and every predicate is cut at the edges of its own windows only. In the words of krishnamurthy Table 5
this is the unshared aggregation, alpha |T|, with everything but the additions shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mullion.aggregates.exact_sums import FINE
from mullion.expressions.arrays import Array, Index, Real, Whole
from mullion.expressions.readonly import frozen
from mullion.planner.slices import Progressions
from mullion.slices.kernels.compiled import (
    DenseRows,
    Edges,
    FieldValues,
    Predicates,
    in_first_units,
    states_by_slice,
    take_units,
)
from mullion.slices.kernels.fields import ADD, LEAST, MOST, FoldedColumn, Lifted, stacked
from mullion.slices.kernels.signature import Masks

UNITS = 2.0**-58, 2.0**-100, 2.0**-142
"""The units in which residues are added as whole numbers, as many of them as it takes to lose nothing. A double from
2^-6 up, which has 53 digits, ends at the first, one from 2^-90 up at the last."""
MOST_EVENTS = 1 << 21
"""Events whose residues are added up as whole numbers before they become doubles again. A residue is at most half of
FINE, 2^-17, so at most 2^41 of the first unit; what that leaves is at most 2^-59, so 2^41 of the second, and so on.
2^21 of them come to at most 2^62, and int64 ends at 2^63."""


@dataclass
class Fields:
    """The states of events, laid out for the loops over dense rows, and the way back.

    The largest of values is found as the least of their complements.
    """

    states: Sequence[Lifted]
    checks: Sequence[FoldedColumn] = ()
    whole: list[Whole] = field(default_factory=list)
    real: list[Real] = field(default_factory=list)
    least: list[Whole] = field(default_factory=list)
    _units: list[int] = field(default_factory=list)
    """How many rows of whole numbers each field of doubles takes."""

    def __post_init__(self) -> None:
        self._places = [[self._place(column) for column in state.columns] for state in self.states]
        self._bad = [self._place(column) for column in self.checks]

    def _place(self, column: FoldedColumn) -> tuple[str, int]:
        if column.op == ADD:
            kind, fields = ("real", self.real) if column.values.dtype == np.float64 else ("whole", self.whole)
            fields.append(column.values)
        else:
            kind, fields = column.op, self.least
            fields.append(column.values if column.op == LEAST else ~column.values)
        return kind, len(fields) - 1

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
        return whole, stacked(real, np.float64, computed.shape[1])

    def in_order(self, order: Index | slice) -> FieldValues:
        """The fields of the events in that order, as the loops want them."""
        length = len((self.whole or self.real or self.least or [np.empty(0)])[0])
        return FieldValues(
            stacked([f[order] for f in self.whole], np.int64, length),
            stacked([f[order] for f in self.real], np.float64, length),
            stacked([f[order] for f in self.least], np.int64, length),
        )

    def columns(self, rows: DenseRows) -> tuple[Array, ...]:
        """What the loops made of each column of the states, then of the checks."""
        found = {"whole": rows.whole, "real": rows.real, LEAST: rows.least}
        places = [place for places in (*self._places, self._bad) for place in places]
        return tuple(~rows.least[at] if kind == MOST else found[kind][at] for kind, at in places)


def in_units(residues: Real) -> list[Whole] | None:
    """Residues as whole numbers of the first, the second, .. of UNITS, which together lose nothing; else None.

    >>> in_units(np.array([3 * 2.0**-58, -(2.0**-17)]))
    [array([            3, -2199023255552])]
    >>> in_units(np.array([2.0**-58 + 2.0**-100]))
    [array([1]), array([1])]
    """
    (values,) = frozen(residues)
    numbers = [np.empty(len(values), np.int64)]
    is_small, is_left = in_first_units(values, UNITS[0], FINE / 2, numbers[0])
    if not is_small:
        return None
    left = values - numbers[0] * UNITS[0] if is_left else values
    for unit in UNITS[1:] if is_left else ():
        numbers.append(np.empty(len(values), np.int64))
        is_left = take_units(left, unit, numbers[-1])
        if not is_left:
            break
    return None if is_left else numbers


def edges_of_predicates(progressions: Progressions, low: int, high: int) -> Edges:
    """The edges of all predicates that events from low to high need."""
    slot, edge = progressions.edges(low, high)
    order = np.argsort(edge, kind="stable")
    edge = edge[order]
    first = np.flatnonzero(np.append(True, edge[1:] != edge[:-1])[: len(edge)])
    return Edges(edge[first], slot[order].astype(np.int32), np.append(first, len(edge)))


def dense_rows(times: Whole, masks: Masks, fields: Fields, progressions: Progressions) -> DenseRows:
    """The rows of a batch, whose events come in the order of time."""
    if not len(times):
        return DenseRows.room(0, len(fields.whole), len(fields.real), len(fields.least))
    cut = edges_of_predicates(progressions, int(times[0]), int(times[-1]))
    slices = np.searchsorted(cut.edges, times, "right") - 1
    predicates = Predicates(np.stack(masks.codes), masks.table, masks.first)
    return _by_slice(cut, slices, predicates, fields.in_order(slice(None)))


def _by_slice(cut: Edges, slices: Index, predicates: Predicates, values: FieldValues) -> DenseRows:
    slots = predicates.table.shape[1]
    start = np.full(slots, cut.edges[0], np.int64)
    room = DenseRows.room(len(cut.slots) + slots, *map(len, values))
    return room.first(states_by_slice(slices, cut, start, predicates, values, room))
