"""Windows swept over rows in the order of time, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from mullion.expressions.arrays import Array, Index
from mullion.slices.kernels import sweeps
from mullion.slices.kernels.ranges import ADD, LEAST, MOST
from mullion.slices.kernels.sweeps import AskedLines, Course, Held, LineSums, Stacks, Swept

FEWEST, LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
BOUNDS = np.array([0, 3, -5]), np.array([10, 12, 3])


class Turns:
    """Windows swept with room for so many answers at a time: their pairs, the sums of `whole`, and how often it went
    on."""

    def __init__(self, course: Course, asked: Swept, size: int, whole: Array, room: int = 1000, least: int = 1) -> None:
        self.held = Held.nothing(asked, size, 2)
        values, added = np.stack([whole, whole + 7, np.ones(len(whole), np.int64)]), np.array([2, 0])
        out, count = LineSums.room(room, 2, np.int32), np.zeros(len(asked.start), np.intp)
        skipped = np.zeros(len(asked.start), np.uint8)
        self.pairs: list[tuple[int, int]] = []
        self.sums: list[int] = []
        self.turns: list[tuple[int, int]] = []
        while self.held.place[0] < len(asked.start):
            first = int(self.held.place[0])
            pairs = sweeps.sweep_up(course, asked, skipped, values, added, least, self.held, count, out)
            self.turns.append((first, int(self.held.place[0])))
            assert first < self.held.place[0], "a turn answers a window at least"
            windows = out.windows[:pairs] + first
            self.pairs += zip(windows.tolist(), out.lines[:pairs].tolist(), strict=True)
            self.sums += out.sums[1, :pairs].tolist()
        assert (
            count.tolist() == np.bincount(np.array([w for w, _ in self.pairs], np.intp), minlength=len(count)).tolist()
        )


def combined(
    course: Course,
    asked: Swept,
    pairs: list[tuple[int, int]],
    turns: list[tuple[int, int]],
    values: Array,
    size: int,
    operation: int,
    nothing: float,
) -> list[float]:
    stacks = Stacks.nothing(np.array([nothing], values.dtype), size, len(values))
    found: list[float] = []
    for first, stop in turns:
        own = [(window, line) for window, line in pairs if first <= window < stop]
        begin = np.searchsorted([window - first for window, _ in own], np.arange(stop - first + 1))
        out = np.full(len(own), nothing, values.dtype)
        wanted = AskedLines(begin, np.array([line for _, line in own], np.int32))
        sweeps.combinations(course, asked, first, wanted, values, operation, stacks, out)
        found += out.tolist()
    return found


def test_by_hand() -> None:
    """Windows of 10 every 5. Line 0 has slices 0, 5 and 40 with 1, 2 and 4; line 1 has slice 7 alone, with 8."""
    course = Course(np.array([0, 5, 7, 40]), np.array([0, 0, 1, 0], np.int32))
    end = np.arange(5, 55, 5)
    asked = Swept(np.array([0, len(end)]), np.array([[0], [4]]), np.array([[0], [2]]), end - 10, end)
    values = np.array([1, 2, 8, 4])
    for room in (2, 3, 100):
        swept = Turns(course, asked, 2, values, room)
        assert swept.pairs == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (8, 0), (9, 0)]
        assert swept.sums == [1, 3, 8, 2, 8, 4, 4]
        pairs, turns = swept.pairs, swept.turns
        assert combined(course, asked, pairs, turns, values, 2, LEAST, LARGEST) == [1, 1, 8, 2, 8, 4, 4]
        assert combined(course, asked, pairs, turns, values, 2, MOST, FEWEST) == [1, 2, 8, 2, 8, 4, 4]


def test_windows_that_are_skipped() -> None:
    """The second of three windows, of which the last is of another segment, is left out; the others are as they are."""
    course = Course(np.array([0, 5, 7]), np.array([0, 0, 1], np.int32))
    asked = Swept(np.array([0, 2, 3]), np.array([[0, 0], [3, 3]]), np.array([[0, 0], [2, 2]]), *BOUNDS)
    count, out = np.zeros(3, np.intp), LineSums.room(9, 1, np.int32)
    skipped = np.array([0, 1, 0], np.uint8)
    held = Held.nothing(asked, 2, 1)
    values, added = np.ones((1, 3), np.int64), np.zeros(1, np.intp)
    assert sweeps.sweep_up(course, asked, skipped, values, added, 1, held, count, out) == 3
    assert count.tolist() == [2, 0, 1] and out.lines[:3].tolist() == [0, 1, 0] and out.sums[0, :3].tolist() == [2, 1, 1]


def random_rows(dice: np.random.Generator) -> tuple[Course, Index, int]:
    """The rows of some slots, where those of each begin, and how many lines a slot has."""
    slots, groups = dice.integers(1, 4), int(dice.choice([1, 2, 5, 9, 100]))
    sizes = dice.integers(0, 60, slots)
    times = [np.sort(dice.integers(-50, 200, size)) for size in sizes]
    lines = [slot * groups + dice.integers(0, groups, size) for slot, size in enumerate(sizes)]
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    return Course(np.concatenate(times), np.concatenate(lines).astype(np.int32)), bounds, groups


@pytest.mark.parametrize("seed", range(60))
def test_random_rows_and_windows(seed: int) -> None:
    """Overlapping, tumbling and hopping windows, some before all rows and some after them; ties of all kinds."""
    dice = np.random.default_rng(seed)
    course, first, groups = random_rows(dice)
    start, end, bounds, slots = [], [], [0], []
    for _ in range(dice.integers(1, 5)):
        reach, step = dice.integers(1, 80), dice.integers(1, 40)
        ends = dice.integers(-80, 40) + np.cumsum(step * dice.integers(0, 3, dice.integers(1, 20)))
        start += (ends - reach).tolist()
        end += ends.tolist()
        bounds.append(len(end))
        slots.append(dice.integers(0, len(first) - 1))
    slot = np.array([slots, slots]) + np.array([[0], [1]])
    asked = Swept(np.array(bounds), first[slot], slot * groups, np.array(start), np.array(end))
    size = (len(first) - 1) * groups
    whole, real = dice.integers(-5, 6, len(course.times)), dice.integers(-5, 6, len(course.times)) / 4
    held = [
        (window, line, [row for row in range(first[own], first[own + 1]) if course.lines[row] == line and low(row)])
        for s, own in enumerate(slots)
        for window in range(bounds[s], bounds[s + 1])
        for low in [lambda row, w=window: start[w] <= course.times[row] < end[w]]
        for line in range(own * groups, (own + 1) * groups)
    ]
    least = int(dice.choice([1, 1, 2]))
    held = [(window, line, rows) for window, line, rows in held if len(rows) >= least]
    swept = Turns(course, asked, size, whole, int(dice.choice([size, size + 3, 1000])), least)
    assert swept.pairs == [pair[:2] for pair in held]
    assert swept.sums == [whole[rows].sum() for _, _, rows in held]
    some = dice.random(len(held)) < 0.7  # as HAVING leaves them
    kept = [(pair, rows) for (*pair, rows), stays in zip(held, some, strict=True) if stays]
    asked_of = course, asked, [tuple(pair) for pair, _ in kept], swept.turns
    for operation, nothing, of in ((LEAST, LARGEST, np.min), (MOST, FEWEST, np.max)):
        assert combined(*asked_of, whole, size, operation, nothing) == [of(whole[rows]) for _, rows in kept]
    assert combined(*asked_of, real, size, ADD, 0.0) == [real[rows].sum() for _, rows in kept]
