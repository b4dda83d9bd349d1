"""Sums over boxes, of any number of numbers, are those of a look at every event."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mullion.planner.slices import Progressions
from mullion.slices.kernels.box_loops import BoxRows, BoxRuns, EventCells, Stretches, sums_of_boxes
from mullion.slices.kernels.boxes import _in_arrays
from mullion.slices.kernels.rows import edges_of_predicates

HEIGHT, WIDTH, EVENTS, SLOTS = 4, 9, 700, 23


def runs_of(random: np.random.Generator, size: int) -> tuple[Any, Any, Any]:
    """For each predicate where it holds, and that as runs."""
    holds = random.random((SLOTS, size)) < 0.6
    first, runs = [0], []
    for own in holds:
        steps = np.flatnonzero(np.diff(np.concatenate([[0], own.astype(np.int8), [0]])))
        runs += steps.reshape(-1, 2).tolist()
        first.append(len(runs))
    return holds, np.array(first), np.array(runs, np.int64).reshape(-1, 2)


@pytest.mark.parametrize("numbers", [0, 1, 2, 3, 4, 6])
@pytest.mark.parametrize("most", [50, 1 << 21])
@pytest.mark.parametrize("dear", [0, 4, 10**9])
def test_sums_of_boxes(numbers: int, most: int, dear: int) -> None:
    random = np.random.default_rng(numbers)
    times = np.sort(random.integers(100, 1000, EVENTS))
    rows = np.stack([random.integers(0, 50, 2 * SLOTS), random.integers(40, 300, 2 * SLOTS)], axis=1)
    slot = np.repeat(np.arange(SLOTS), 2)
    cut = edges_of_predicates(Progressions(slot, rows), int(times[0]), int(times[-1]))
    outer, inner = random.integers(0, HEIGHT, EVENTS), random.integers(0, WIDTH, EVENTS)
    values = [random.integers(-(2**40), 2**40, EVENTS) for _ in range(numbers)]
    by_outer, outer_first, outer_runs = runs_of(random, HEIGHT)
    by_inner, inner_first, inner_runs = runs_of(random, WIDTH)
    small = outer.astype(np.int32), inner.astype(np.int32)
    events = EventCells(*small, HEIGHT, WIDTH, numbers + 1, *_in_arrays(values, EVENTS))
    area = by_outer.sum(axis=1) * by_inner.sum(axis=1)
    runs = BoxRuns(outer_first, outer_runs, inner_first, inner_runs, area)
    room = len(cut.slots) + SLOTS * (1 + EVENTS // most)
    out = BoxRows(np.empty(room, np.int32), np.empty(room, np.int64), np.empty((room, numbers + 1), np.int64))
    bounds = np.append(np.searchsorted(times, cut.edges), EVENTS)
    stretches = Stretches(cut.edges, bounds, cut.slots, cut.starts)
    written = sums_of_boxes(stretches, events, runs, np.full(SLOTS, cut.edges[0]), most, dear, out)
    found: dict[tuple[int, int], Any] = {}
    for at in range(written):
        key = int(out.slot[at]), int(out.slices[at])
        found[key] = found.get(key, 0) + out.sums[at]
    wanted: dict[tuple[int, int], Any] = {}
    for q in range(SLOTS):
        edges = np.unique(np.concatenate([step * np.arange(-1, 40) + first for first, step in rows[slot == q]]))
        start = edges[np.searchsorted(edges, times, "right") - 1]
        for i in np.flatnonzero(by_outer[q, outer] & by_inner[q, inner]):
            key = q, int(start[i])
            wanted[key] = wanted.get(key, 0) + np.array([1, *(own[i] for own in values)])
    assert {key: own.tolist() for key, own in found.items()} == {key: own.tolist() for key, own in wanted.items()}


def test_edges_of_predicates_in_their_order() -> None:
    random = np.random.default_rng(1)
    for slots in (0, 1, 5, 40):
        rows = np.stack([random.integers(0, 20, slots), random.integers(1, 30, slots)], axis=1)
        progressions = Progressions(np.arange(slots), rows)
        edges, slot, starts = edges_of_predicates(progressions, 13, 200)
        pairs = sorted((int(edge), int(own)) for own, edge in zip(*progressions.edges(13, 200), strict=True))
        assert edges.tolist() == sorted({edge for edge, _ in pairs})
        assert np.repeat(edges, np.diff(starts)).tolist() == [edge for edge, _ in pairs]
        assert slot.tolist() == [own for _, own in pairs]
