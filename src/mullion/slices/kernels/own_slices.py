"""One predicate, cut at the edges of its own windows (design decision 11): its rows, without a hash table or a sort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Array, Times, Whole
from mullion.expressions.readonly import frozen
from mullion.slices.kernels.fields import ADD, ADD_DOUBLES, LEAST, MOST, FoldedColumn
from mullion.slices.kernels.groups import Groups
from mullion.slices.kernels.row_loops import (
    add_up,
    add_up_doubles,
    add_up_doubles_of_slices,
    add_up_slices,
    count_events,
    keep_least,
    keep_most,
    least_of_slices,
    most_of_slices,
    rows_of_events,
    select_events,
    spread,
)
from mullion.slices.kernels.slicing import Cut

OF_GROUPS = {ADD: add_up, ADD_DOUBLES: add_up_doubles, LEAST: keep_least, MOST: keep_most}
OF_SLICES = {ADD: add_up_slices, ADD_DOUBLES: add_up_doubles_of_slices, LEAST: least_of_slices, MOST: most_of_slices}

SelectionMask = npt.NDArray[np.uint8] | bool
"""Which events are selected; True: all, False: none."""


class OwnRows(NamedTuple):
    slices: Times
    group: npt.NDArray[np.int32] | None
    rows: Whole
    """How many events each row holds."""
    columns: tuple[Array, ...]

    def __len__(self) -> int:
        return len(self.slices)


def own_rows(cut: Cut, selected: SelectionMask, groups: Groups | None, columns: Sequence[FoldedColumn]) -> OwnRows:
    """The rows of a predicate: one for each slice of its own and group that holds a selected event.

    Time: O(n) for n events, a few nanoseconds for each column of the states of a selected event. Space: two numbers for
    each selected event, one for each group, and the rows. Requires: events in the order of time, groups as small
    numbers, and states that are added or of which an extreme is kept.

    >>> cut = Cut(np.array([0, 10]), np.array([0, 3, 4]))
    >>> some = np.array([1, 1, 0, 1], np.uint8)
    >>> own_rows(cut, some, None, [FoldedColumn(ADD, np.array([5, 6, 7, 8]))]).columns
    (array([11,  8]),)
    """
    if selected is False or not len(cut.starts):
        cut, selected = Cut(cut.starts[:0], np.zeros(1, np.int64)), True
    mask = None if isinstance(selected, bool) else selected
    return _of_slices(cut, mask, columns) if groups is None else _of_groups(cut, mask, groups, columns)


def _of_groups(
    cut: Cut, mask: npt.NDArray[np.uint8] | None, groups: Groups, columns: Sequence[FoldedColumn]
) -> OwnRows:
    upto = cut.bounds[1:].copy()
    count = int(cut.bounds[-1])
    event: npt.NDArray[np.int32] | None = None
    if mask is not None:
        room = np.empty(count + 1, np.int32)
        count = select_events(cut.bounds, mask, room, upto)
        event = room[:count]
    row = np.empty(count, np.int32)
    group_of = np.empty(count + 1, np.int32)
    row_of = np.full(groups.size, -1, np.int32)
    (codes,) = frozen(groups.codes)
    rows = rows_of_events(event, upto, codes, row_of, row, group_of)
    counted = np.zeros(rows, np.int64)
    count_events(row, counted)
    results = []
    for column in columns:
        out = column.room(rows)
        OF_GROUPS[column.kind](event, row, column.values, out)
        results.append(out)
    slices = np.empty(rows, np.int64)
    spread(cut.starts, upto, slices)
    return OwnRows(slices, group_of[:rows].copy(), counted, tuple(results))


def _of_slices(cut: Cut, mask: npt.NDArray[np.uint8] | None, columns: Sequence[FoldedColumn]) -> OwnRows:
    counted = np.diff(cut.bounds)
    if mask is not None:
        counted = np.zeros(len(cut.starts), np.int64)
        add_up_slices(cut.bounds, None, mask, counted)
    results = []
    for column in columns:
        out = column.room(len(counted))
        OF_SLICES[column.kind](cut.bounds, mask, column.values, out)
        results.append(out)
    some = counted > 0
    if some.all():
        return OwnRows(cut.starts, None, counted, tuple(results))
    return OwnRows(cut.starts[some], None, counted[some], tuple(out[some] for out in results))
