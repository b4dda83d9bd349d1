"""Sums of many predicates from cumulated cells, at a price that does not grow with events times predicates.

Regions of what predicates compare are axes. Over two axes a predicate is a few boxes, products of runs of regions:

    distance    .  .  .  .  .          delay > 30 AND distance <= 800      one box of 2 x 3 cells
          800   #  #  .  .  .
                #  #  .  .  .          sum of the box = P[b, r] - P[a, r] - P[b, l] + P[a, l]
                #  #  .  .  .          where P sums all cells before a row and a column
                delay > 30

An event is added to one cell, whatever the number of predicates that read these two axes. Where windows of predicates
end, prefixes of the cells are summed up, and each of the predicates takes the corners of its boxes: what came since its
last row is the difference. Only regions that events of the batch fall into are there, so a predicate which none of them
satisfies has no box, and costs nothing.

Requires: numbers that are added, whole or as whole numbers of small units; predicates that read at most two axes. Time:
O(n + e c + r b) for n events, e instants at which windows end, c cells, and r rows of b boxes each. Space: O(c).
Paper: Ho, Agrawal, Megiddo, Srikant 1997 (Range Queries in OLAP Data Cubes), section 3: prefix sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Index, Mask, Times, Whole
from mullion.expressions.readonly import frozen
from mullion.planner.fragments import TRUE, PredicateIndex
from mullion.planner.kernel_cost import BOX, BOXED_CELL, BOXED_EVENT, MEMBER, boxed
from mullion.planner.runs import RegionRuns
from mullion.planner.slices import Progressions
from mullion.slices.kernels.box_loops import BoxRows, BoxRuns, EventCells, Stretches, sums_of_boxes
from mullion.slices.kernels.compiled import DenseRows, Edges
from mullion.slices.kernels.fields import stacked
from mullion.slices.kernels.regions import RegionCodes, SmallCodes
from mullion.slices.kernels.rows import MOST_EVENTS, Fields, edges_of_predicates
from mullion.slices.kernels.signature import distinct_codes

MOST_CELLS = 1 << 22
MOST_TRUTHS = 1 << 24
"""Bytes that say where conditions over several attributes hold."""
DEAR = 4
"""Summing up prefixes costs as much as going through so many times as many cells."""


class BatchAxis(NamedTuple):
    """The regions of events that occur, numbered, and where predicates hold among them."""

    codes: SmallCodes
    regions: int
    runs: RegionRuns


class BoxClass(NamedTuple):
    """Predicates that read the same axes, and the edges of their windows."""

    slots: Index
    outer: BatchAxis
    inner: BatchAxis
    times: Times
    cut: Edges

    @property
    def cells(self) -> int:
        return self.outer.regions * self.inner.regions

    def cost(self, numbers: int) -> float:
        """Microseconds, about."""
        outer, inner = (np.diff(axis.runs.first)[self.slots] for axis in (self.outer, self.inner))
        rows = len(self.cut.slots) + len(self.slots)
        boxes = float((outer * inner).mean())
        cells = min(len(self.cut.edges), rows) * self.cells
        return numbers * (len(self.outer.codes) * BOXED_EVENT + cells * BOXED_CELL + rows * boxes * BOX)

    def rows(self, fields: Fields, numbers: Sequence[Whole]) -> DenseRows:
        """The rows of all its predicates, given the numbers of events."""
        slots, length = len(self.slots), len(self.outer.codes)
        runs = BoxRuns(*_of(self.outer.runs, self.slots), *_of(self.inner.runs, self.slots), np.empty(0, np.int64))
        heights, widths = (
            np.add.reduceat(np.append(own[:, 1] - own[:, 0], 0), first[:-1])
            for first, own in ((runs.outer_first, runs.outer), (runs.inner_first, runs.inner))
        )
        room = len(self.cut.slots) + slots * (1 + length // MOST_EVENTS)
        count = len(numbers) + 1
        out = BoxRows(np.empty(room, np.int32), np.empty(room, np.int64), np.empty((room, count), np.int64))
        (outer, outer_regions, _), (inner, inner_regions, _) = self.outer, self.inner
        events = EventCells(outer, inner, outer_regions, inner_regions, count, *_in_arrays(numbers, length))
        start = np.full(slots, self.cut.edges[0], np.int64)
        stretches, runs = _stretches(self.times, self.cut), runs._replace(area=heights * widths)
        written = sums_of_boxes(stretches, events, runs, start, MOST_EVENTS, DEAR, out)
        sums = np.ascontiguousarray(out.sums[:written].T)
        whole, real = fields.back_from_whole(sums[1:])
        slot = self.slots[out.slot[:written]].astype(np.int32)
        return DenseRows(slot, out.slices[:written], sums[0], whole, real, np.empty((0, written), np.int64))


def _in_arrays(numbers: Sequence[Whole], length: int) -> tuple[Whole, Whole, Whole, Whole]:
    """The first three by themselves, the others together."""
    nothing = np.empty(0, np.int64)
    first, second, third = frozen(*[*numbers, nothing, nothing, nothing][:3])
    return first, second, third, stacked(numbers[3:], np.int64, length)


def _of(runs: RegionRuns, slots: Index) -> tuple[Index, Index]:
    """The runs of some predicates, one after the other."""
    first, low, high = runs.take(slots)
    return first, np.stack([low, high], axis=1)


def box_classes(
    index: PredicateIndex,
    regions: RegionCodes,
    times: Times,
    progressions: Progressions,
    slots: int,
    numbers: int,
) -> tuple[list[BoxClass], Index]:
    """The classes that are worth it, and the slots that are in none of them. Slots beyond the predicates belong to
    queries without one. Those that no event satisfies are in neither."""
    axes, known = _axes(index, regions, len(times), slots)
    some = np.logical_and.reduce([np.diff(axis.runs.first) > 0 for axis in axes])
    reads = np.array([~axis.runs.are_whole(axis.regions) for axis in axes[1:]], np.bool_).reshape(-1, slots)
    possible = some & known & (reads.sum(axis=0) <= 2)
    classes, (low, high) = [], (int(times[0]), int(times[-1]))
    for own in _alike(reads, np.flatnonzero(possible)):
        pair = sorted((axes[at + 1] for at in np.flatnonzero(reads[:, own[0]])), key=lambda axis: axis.regions)
        outer, inner = [axes[0], axes[0], *pair][-2:]
        made = BoxClass(own, outer, inner, times, edges_of_predicates(progressions.of_slots(own), low, high))
        if made.cells <= MOST_CELLS:
            classes.append(made)
    rest = some.copy()
    for made in classes:
        rest[made.slots] = False
    costs = [made.cost(numbers) for made in classes]
    members = [len(times) * len(made.slots) * numbers * MEMBER for made in classes]
    by_boxes = boxed(costs, members, len(times), others=bool(rest.any()))
    chosen = []
    for made, cost, is_boxed in zip(classes, costs, by_boxes, strict=True):
        rest[made.slots] = not is_boxed
        if is_boxed:
            chosen.append((cost, made))
    # What takes longest begins first, so that no thread is at work alone in the end.
    chosen.sort(key=lambda own: -own[0])
    return [made for _, made in chosen], np.flatnonzero(rest)


def _alike(reads: Mask, slots: Index) -> list[Index]:
    """The slots, those together that read the same axes. numpy's `unique` compares columns byte by byte, which takes
    many times as long.

    >>> [own.tolist() for own in _alike(np.array([[True, False, True], [False, True, False]]), np.arange(3))]
    [[1], [0, 2]]
    """
    if not len(slots) or not len(reads):
        return [slots] if len(slots) else []
    slots = slots[np.lexsort(reads[::-1, slots])]
    own = reads[:, slots]
    return np.split(slots, np.flatnonzero((own[:, 1:] != own[:, :-1]).any(axis=0)) + 1)


def _stretches(times: Times, cut: Edges) -> Stretches:
    bounds = np.append(np.searchsorted(times, cut.edges), len(times))
    return Stretches(cut.edges, bounds, cut.slots, cut.starts)


def _axes(index: PredicateIndex, regions: RegionCodes, length: int, slots: int) -> tuple[list[BatchAxis], Mask]:
    """The axes of a batch, the first of which has one region only, and which slots they tell all of."""
    known = np.ones(slots, np.bool_)
    nothing = RegionRuns(np.zeros(1, np.intp), *np.zeros((2, 0), np.intp))
    axes = [BatchAxis(np.zeros(length, np.int32), 1, nothing.of_all(np.arange(0), slots, 1))]
    found = (regions.numbered([index.attributes[at] for at in axis.attributes]) for axis in index.axes)
    axes += [_batch_axis(*own, axis.runs, slots) for own, axis in zip(found, index.axes, strict=True)]
    for read, factors in index.wide_factors.items():
        coded = [(regions.codes(index.attributes[at]), index.attributes[at].regions) for at in read]
        number, some = distinct_codes(coded, length)
        own = np.array([predicate for predicate, _ in factors])
        if len(some) * len(own) > MOST_TRUTHS:
            known[own] = False
            continue
        combinations = {at: codes[some] for at, (codes, _) in zip(read, coded, strict=True)}
        truths = np.stack([index.truth(tree, combinations) == TRUE for _, tree in factors])
        runs = RegionRuns.of(truths.view(np.uint8)).of_all(own, len(index), len(some))
        every = np.ones(len(some), np.bool_)
        axes.append(_batch_axis(number.astype(np.int32), every, runs, slots))
    return axes, known


def _batch_axis(numbers: SmallCodes, present: Mask, runs: RegionRuns, slots: int) -> BatchAxis:
    """The axis of the regions that are present, as events have them."""
    size = int(present.sum())
    return BatchAxis(numbers, size, runs.among(present).of_all(np.arange(len(runs.first) - 1), slots, size))
