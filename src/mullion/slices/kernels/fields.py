"""The states of events, lifted and laid out for the compiled loops, and the way back.

A state is columns of numbers that are added up, or of which the least or the most is kept. What several states need is
lifted once: sums, extremes and averages of an integer column that has no NULL all read the column itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import Partial, Places
from mullion.aggregates.count import Count
from mullion.aggregates.exact_sums import CARRY, COARSE, FINE, LARGEST_SPLIT, CoarseSum, Residue
from mullion.aggregates.extremes import Largest, Smallest
from mullion.aggregates.first_last import End
from mullion.aggregates.integer_states import always
from mullion.aggregates.place_loops import are_in_order
from mullion.aggregates.sum import LIMB, SumInLimbs
from mullion.expressions.arrays import Array, Real, Whole
from mullion.expressions.int128 import WIDE
from mullion.expressions.readonly import frozen
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT
from mullion.slices.kernels.compiled import split_doubles

ADD, ADD_DOUBLES, LEAST, MOST = "add", "add doubles", "least", "most"
NO_LEAST, NO_MOST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


class FoldedColumn(NamedTuple):
    """Numbers of events, and what is done with them."""

    op: str
    values: Array

    @property
    def kind(self) -> str:
        return ADD_DOUBLES if self.values.dtype == np.float64 else self.op

    def room(self, rows: int) -> Array:
        """Rows that hold nothing yet."""
        if self.op == ADD:
            return np.zeros(rows, np.float64 if self.values.dtype == np.float64 else np.int64)
        return np.full(rows, NO_LEAST if self.op == LEAST else NO_MOST, np.int64)

    @staticmethod
    def of(op: str, values: Array) -> FoldedColumn:
        """Read-only, so that the loops are compiled once."""
        plain = np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else np.int64).view()
        plain.flags.writeable = False
        return FoldedColumn(op, plain)


class Lifted(NamedTuple):
    """A state of events as columns; none where counting rows is all there is to it."""

    partial: Partial
    columns: tuple[FoldedColumn, ...]
    loaded: tuple[Vector, ...] = ()
    kept: Callable[[Whole], tuple[Vector, ...]] | None = None
    """What one number is kept as that stands for several."""

    def stored(self, rows: Whole, sums: Sequence[Array]) -> tuple[Vector, ...]:
        """The kept form of rows for which the columns came to these numbers."""
        if self.kept is not None:
            return self.kept(sums[0])
        return self.partial.store(tuple(sums) if self.columns else (rows,), self.loaded)


Split = tuple[Whole, Whole, Real]


def lift(partial: Partial, events: Vector, split: Callable[[], Split]) -> Lifted:
    """A dense state of events. `split` splits doubles: both partials of their sum need it, so it is done once."""
    if isinstance(partial, Count) and events.valid.all():
        return Lifted(partial, ())
    if isinstance(partial, CoarseSum | Residue) and events.values.dtype == np.float64:
        return _lift_doubles(partial, *split())
    if isinstance(partial, SumInLimbs) and _may_be_one(events):
        numbers = events.values if events.valid.all() else np.where(events.valid, events.values, 0)
        halves = _halves if len(partial.stored) == 2 else None
        return Lifted(partial, (FoldedColumn.of(ADD, numbers),), (), halves)
    if isinstance(partial, Smallest | Largest):
        op = LEAST if isinstance(partial, Smallest) else MOST
        if events.values.dtype.kind == "i" and events.valid.all():
            return Lifted(partial, (FoldedColumn.of(op, events.values),), (events,))
        return Lifted(partial, (FoldedColumn.of(op, partial.load((events,))[0]),), (events,))
    lifted = partial.lift(events)
    return Lifted(partial, tuple(FoldedColumn.of(ADD, field) for field in partial.load(lifted)), lifted)


def lift_end(partial: End, events: Vector, places: Places) -> Lifted:
    """The first or the last of events, by their rank in the order of the stream."""
    op = LEAST if partial.sign > 0 else MOST
    order: Array | None = None
    ranks = np.arange(len(events))
    time, part, arrival = frozen(*places[:3])
    if not are_in_order(time, part, arrival):
        order = np.lexsort((places.arrival, places.part, places.time))
        ranks = np.empty(len(events), np.int64)
        ranks[order] = np.arange(len(events))
    absent = NO_LEAST if op == LEAST else NO_MOST
    present = places.present & events.valid if partial.ignores_nulls else places.present

    def kept(found: Whole) -> tuple[Vector, ...]:
        some = found != absent
        rank = found if some.all() else np.where(some, found, 0)
        return partial.of_rows(some, rank if order is None else order[rank], places, events)

    return Lifted(
        partial, (FoldedColumn.of(op, ranks if present.all() else np.where(present, ranks, absent)),), (), kept
    )


def _lift_doubles(partial: Partial, coarse: Whole, fine: Whole, rest: Real) -> Lifted:
    if isinstance(partial, Residue):
        return Lifted(partial, (FoldedColumn.of(ADD, rest),))
    if fits_one(coarse):
        return Lifted(partial, (FoldedColumn.of(ADD, (coarse << CARRY) + fine),), (), _coarse_and_fine)
    return Lifted(partial, (FoldedColumn.of(ADD, coarse), FoldedColumn.of(ADD, fine)))


def _halves(sums: Whole) -> tuple[Vector, ...]:
    """Two limbs; of small sums the lower one has all, sign included, and the other is nothing that takes memory."""
    if len(sums) and sums.min() >= -LIMB and sums.max() <= LIMB:
        return always(_zeros(len(sums)), BIGINT), always(sums, BIGINT)
    return always(sums >> 32, BIGINT), always(sums & LIMB, BIGINT)


def _zeros(length: int) -> Array:
    """Part of an array that all share."""
    if length > len(_ZEROS[0]):
        _ZEROS[0] = np.zeros(max(length, 2 * len(_ZEROS[0])), np.int64)
        _ZEROS[0].flags.writeable = False
    return _ZEROS[0][:length]


_ZEROS: list[Array] = [np.zeros(0, np.int64)]


def _coarse_and_fine(sums: Whole) -> tuple[Vector, ...]:
    """Both parts are within their bounds, so nothing is left to carry."""
    return always(sums >> CARRY, BIGINT), always(sums & (2**CARRY - 1), BIGINT)


def _may_be_one(events: Vector) -> bool:
    """Whether the sum of any of these whole numbers stays within 63 bits."""
    if events.values.dtype == WIDE:
        return False
    if not len(events):
        return True
    largest = max(abs(int(events.values.min())), abs(int(events.values.max())))
    return largest * len(events) < 2**62


def fits_one(coarse: Whole) -> bool:
    """Whether sums of any of these stay within 63 bits when coarse and fine parts are one number: n of them are each
    less than (|coarse| + 1) 2^26, as |fine| is at most 2^25, and together less than 2^62."""
    largest = max(abs(int(coarse.min(initial=0))), abs(int(coarse.max(initial=0)))) + 1
    return bool(largest * max(1, len(coarse)) < 2 ** (62 - CARRY))


def split_of(events: Vector) -> Split:
    """`aggregates.exact_sums.split` of doubles, compiled."""
    length = len(events)
    parts = np.empty(length, np.int64), np.empty(length, np.int64), np.empty(length, np.float64)
    values, valid = np.ascontiguousarray(events.values), np.ascontiguousarray(events.valid)
    split_doubles(values, valid, LARGEST_SPLIT, COARSE, FINE, *parts)
    return parts


def stacked(fields: Sequence[Any], dtype: npt.DTypeLike, length: int) -> Any:
    if len(fields) == 1:
        return np.ascontiguousarray(fields[0], dtype).reshape(1, -1)
    return np.ascontiguousarray(np.stack(fields), dtype) if fields else np.empty((0, length), dtype)
