"""Values of any type as numbers that mean the same from batch to batch, for windows that slide.

    extremes     a     c     f            labels in the order of the values, with room between them:
                 0     64    128          b comes, and is 32; where there is no room, all are labelled anew
    ends         the code of the value beside its place: the earliest and the latest need no order of values

Texts and wide decimals have no number of their own. Where all rows are loaded together their ranks do. A window that
slides loads some rows after the others, so it numbers values itself; whenever all its rows become a front it begins
anew, so that it never knows many more values than the rows of two windows have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mullion.aggregates.base import Partial, State
from mullion.aggregates.extremes import Extreme
from mullion.aggregates.first_last import End
from mullion.expressions.arrays import Array, Codes, Index, Whole, objects
from mullion.expressions.coding.code_table import CodeTable
from mullion.expressions.vector import Vector, arrow_type, constant
from mullion.language.types import Type
from mullion.planner.plan import StateColumn
from mullion.slices.subwindow import PartialSubWindows

ROOM = 1 << 32
"""Between the labels of neighbours, at first."""
FARTHEST = 1 << 61

Relabelled = Callable[[Whole, Whole], None]
"""Told of labels that have become others: those before, ascending, and those that took their places."""


class NumberedValues:
    """The values of one state of a window, each once.

    Time: O(log n) for a value that is new among n, and O(n) numbers that are moved for all of a call.
    Space: O(n).
    """

    def __init__(self, state: StateColumn, relabelled: Relabelled) -> None:
        self._state, self._relabelled = state, relabelled
        self._type = state.partial.argument
        self._table = CodeTable(pa.schema([("value", arrow_type(self._type))]))
        self._values: Array = np.empty(0, np.object_)
        """In their order,"""
        self._labels: Whole = np.empty(0, np.int64)
        self._codes: Codes = np.empty(0, np.int64)
        self._label_of: Whole = np.empty(0, np.int64)
        """with their labels and codes; and the label of each code."""

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return self._table.size + 4 * self._labels.nbytes

    # Into states

    def load(self, parts: Sequence[PartialSubWindows]) -> State:
        """The states of the rows of sub-windows, one after the other."""
        partial = self._state.partial
        if isinstance(partial, End):
            present, *places = (
                Vector.from_arrow(self._column(parts, at, kind).column(0), kind)
                for at, kind in enumerate(partial.stored[:4])
            )
            return partial.placed(present, places, self._table.codes(self._column(parts, 4, self._type)))
        assert isinstance(partial, Extreme)
        column = self._column(parts, 0, self._type)
        valid = np.asarray(column.column(0).is_valid())
        labels = partial.identity(len(valid))[0]
        labels[valid] = self._labelled(column.filter(pa.array(valid)))
        return (labels,)

    def _column(self, parts: Sequence[PartialSubWindows], at: int, type_: Type) -> pa.Table:
        """A field of the state as it was stored; NULL throughout where it was not kept yet."""
        name, kind = f"{self._state.name}.{at}", arrow_type(type_)
        chunks: list[pa.Array] = []
        for own in parts:
            is_there = name in own.table.schema.names
            chunks += own.table.column(name).chunks if is_there else [pa.nulls(len(own.slices), kind)]
        return pa.table({"value": pa.chunked_array(chunks, kind)})

    def _labelled(self, rows: pa.Table) -> Whole:
        codes = self._table.codes(rows)
        new = np.arange(len(self._label_of), self._table.room)
        if len(new):
            self._insert(new)
        return self._label_of[codes]

    def _insert(self, codes: Codes) -> None:
        """Give new values a label between those of their neighbours."""
        values = self._table.rows(codes).column(0).combine_chunks()
        order = np.asarray(pc.sort_indices(values))
        own = objects(values.take(pa.array(order)).to_pylist())
        at = np.searchsorted(self._values, own) if len(self._values) else np.zeros(len(own), np.intp)
        labels = _between(self._labels, at)
        self._values, self._codes = np.insert(self._values, at, own), np.insert(self._codes, at, codes[order])
        if labels is None:
            before, self._labels = self._labels, _even(len(self._values))
            stayed = np.ones(len(self._values), np.bool_)
            stayed[at + np.arange(len(at))] = False
            self._relabelled(before, self._labels[stayed])
        else:
            self._labels = np.insert(self._labels, at, labels)
        self._label_of = np.empty(len(self._codes), np.int64)
        self._label_of[self._codes] = self._labels

    # And back

    def finished(self, state: State) -> State:
        """The states with values in place of numbers, and whether there is one."""
        partial = self._state.partial
        if isinstance(partial, End):
            present, codes, others = state[0], state[4], state[:4]
        else:
            present, others = state[0] != partial.identity(1)[0][0], ()
            at = np.searchsorted(self._labels, state[0][present])
            codes = np.zeros(len(present), np.int64)
            codes[present] = self._codes[at]
        values = constant(self._type, None, len(codes))
        if present.any():
            known = Vector.from_arrow(self._table.rows(codes[present]).column(0), self._type)
            values.values[present], values.valid[present] = known.values, known.valid
        return *others, values.values, values.valid


def finish_numbered(partial: Partial, finished: State) -> tuple[Vector, ...]:
    """What `Aggregate.lower` takes of states with values."""
    value = Vector(partial.argument, finished[-2], finished[-1])
    return partial.with_places(finished, value) if isinstance(partial, End) else (value,)


def _between(labels: Whole, at: Index) -> Whole | None:
    """Labels for values that are inserted before these places, which ascend; None where there is no room.

    >>> _between(np.array([0, 100]), np.array([1, 1, 1, 2])) - np.array([0, 0, 0, ROOM])
    array([ 25,  50,  75, 100])
    """
    if not len(labels):
        return _even(len(at))
    _, first, run, size = np.unique(at, return_index=True, return_inverse=True, return_counts=True)
    number, among = np.arange(len(at)) - first[run] + 1, size[run]
    low, high = labels[np.maximum(at - 1, 0)], labels[np.minimum(at, len(labels) - 1)]
    inner = low + (high - low) // (among + 1) * number
    found: npt.NDArray[np.int64] = np.where(at == 0, high - ROOM * (among - number + 1), inner)
    found = np.where(at == len(labels), low + ROOM * number, found)
    has_room = (high - low > among) | (at == 0) | (at == len(labels))
    return found if has_room.all() and np.abs(found).max() < FARTHEST else None


def _even(number: int) -> Whole:
    return (np.arange(number) - number // 2) * min(ROOM, FARTHEST // max(1, number))
