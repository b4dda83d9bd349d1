"""The rows of many predicates without groups, as work for several threads: sums over boxes where predicates share
cells, dense rows in blocks of predicates for all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from mullion.expressions.arrays import Index, Times
from mullion.planner.fragments import PredicateIndex
from mullion.planner.slices import Progressions
from mullion.slices.kernels.boxes import box_classes
from mullion.slices.kernels.compiled import DenseRows
from mullion.slices.kernels.regions import RegionCodes
from mullion.slices.kernels.rows import Fields, dense_rows
from mullion.slices.kernels.signature import masks


def rows_in_parts(
    index: PredicateIndex, regions: RegionCodes, times: Times, fields: Fields, progressions: Progressions, slots: int
) -> list[Callable[[], DenseRows]]:
    """What makes all rows of a batch, whose events come in the order of time. Slots beyond the predicates belong to
    queries without one."""
    work: list[Callable[[], DenseRows]] = []
    rest = np.arange(slots)
    numbers = fields.as_whole() if len(times) and not fields.least else None
    if numbers is not None:
        classes, rest = box_classes(index, regions, times, progressions, slots, len(numbers) + 1)
        work += [partial(made.rows, fields, numbers) for made in classes]
    first = 0
    for block in index.blocks if len(times) and len(rest) else ():
        end = first + len(block) if first + len(block) < len(index) else slots
        own = rest[(rest >= first) & (rest < end)]
        if len(own):
            work.append(partial(_block, block, regions, times, fields, progressions, (own, first, end)))
        first = end
    return work


def _block(
    index: PredicateIndex,
    regions: RegionCodes,
    times: Times,
    fields: Fields,
    progressions: Progressions,
    slots: tuple[Index, int, int],
) -> DenseRows:
    own, first, end = slots
    satisfied = masks(index, regions, len(times), end - first)
    if len(own) < end - first:
        satisfied = replace(satisfied, table=np.ascontiguousarray(satisfied.table[:, own - first]))
    rows = dense_rows(times, satisfied, fields, progressions.of_slots(own))
    return rows._replace(slot=own[rows.slot].astype(np.int32))
