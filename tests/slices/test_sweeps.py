"""Windows swept over rows in the order of time, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from mullion.expressions.arrays import Array, Index
from mullion.slices.kernels import sweeps
from mullion.slices.kernels.ranges import ADD, LEAST, MOST
from mullion.slices.kernels.sweeps import Course, Swept, Wanted

FEWEST, LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def lines_of(course: Course, asked: Swept, size: int, *, few: bool = False) -> Wanted:
    count, held = np.zeros(len(asked.start), np.intp), np.zeros(size, np.int32)
    sweeps.count_lines(course, asked, held, count)
    assert not held.any(), "a call leaves nothing behind for the next"
    found = np.empty(int(count.sum()) + 1, np.int32)
    if few:
        sweeps.find_few_lines(course, asked, held, np.empty(size, np.int32), found)
    else:
        sweeps.find_lines(course, asked, held, found)
    assert not held.any()
    return Wanted(np.concatenate([[0], np.cumsum(count)]), found[:-1])


def sums_of(course: Course, asked: Swept, wanted: Wanted, values: Array, size: int) -> list[int]:
    held, out = np.zeros(size, np.int64), np.empty(len(wanted.lines), np.int64)
    sweeps.sums(course, asked, wanted, values, held, out)
    assert not held.any()
    return out.tolist()


def combined(
    course: Course, asked: Swept, wanted: Wanted, values: Array, size: int, operation: int, nothing: float
) -> list[float]:
    front, back = np.full(size, nothing, values.dtype), np.full(size, nothing, values.dtype)
    out = np.empty(len(wanted.lines), values.dtype)
    sweeps.combinations(course, asked, wanted, values, operation, front, back, out)
    assert (front == nothing).all() and (back == nothing).all()
    return out.tolist()


def test_by_hand() -> None:
    """Windows of 10 every 5. Line 0 has slices 0, 5 and 40 with 1, 2 and 4; line 1 has slice 7 alone, with 8."""
    course = Course(np.array([0, 5, 7, 40]), np.array([0, 0, 1, 0], np.int32))
    end = np.arange(5, 55, 5)
    asked = Swept(np.array([0, len(end)]), np.array([[0], [4]]), np.array([[0], [2]]), end - 10, end)
    wanted = lines_of(course, asked, 2)
    assert wanted.first.tolist() == [0, 1, 3, 5, 5, 5, 5, 5, 5, 6, 7]
    assert wanted.lines.tolist() == [0, 0, 1, 0, 1, 0, 0]
    values = np.array([1, 2, 8, 4])
    assert sums_of(course, asked, wanted, values, 2) == [1, 3, 8, 2, 8, 4, 4]
    assert combined(course, asked, wanted, values, 2, LEAST, LARGEST) == [1, 1, 8, 2, 8, 4, 4]
    assert combined(course, asked, wanted, values, 2, MOST, FEWEST) == [1, 2, 8, 2, 8, 4, 4]


def random_rows(dice: np.random.Generator) -> tuple[Course, Index, int]:
    """The rows of some slots, where those of each begin, and how many lines a slot has."""
    slots, groups = dice.integers(1, 4), int(dice.integers(1, 9))
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
    held = [(window, line, rows) for window, line, rows in held if rows]
    for few in (False, True):
        wanted = lines_of(course, asked, size, few=few)
        pairs = np.repeat(np.arange(len(start)), np.diff(wanted.first)).tolist()
        assert list(zip(pairs, wanted.lines.tolist(), strict=True)) == [pair[:2] for pair in held]
    some = dice.random(len(held)) < 0.7  # as HAVING leaves them
    kept = [rows for (_, _, rows), stays in zip(held, some, strict=True) if stays]
    which = np.array(pairs, np.intp)[some]
    wanted = Wanted(np.searchsorted(which, np.arange(len(start) + 1)), wanted.lines[some])
    assert sums_of(course, asked, wanted, whole, size) == [whole[rows].sum() for rows in kept]
    for operation, nothing, of in ((LEAST, LARGEST, np.min), (MOST, FEWEST, np.max)):
        assert combined(course, asked, wanted, whole, size, operation, nothing) == [of(whole[rows]) for rows in kept]
    assert combined(course, asked, wanted, real, size, ADD, 0.0) == [real[rows].sum() for rows in kept]
