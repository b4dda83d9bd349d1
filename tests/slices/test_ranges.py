"""The compiled loops over windows and lines against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from mullion.slices.arrange import order_within
from mullion.slices.kernels import ranges
from mullion.slices.kernels.ranges import Lines, Segments


def pairs(rows: Lines, asked: Segments) -> list[tuple[int, int, int, int]]:
    count = np.zeros(len(asked.start), np.intp)
    ranges.count_pairs(rows, asked, count)
    line, low, high = (np.empty(int(count.sum()), np.intp) for _ in range(3))
    ranges.find_pairs(rows, asked, np.cumsum(count) - count, line, low, high)
    which = np.repeat(np.arange(len(count)), count)
    return list(zip(which.tolist(), line.tolist(), low.tolist(), high.tolist(), strict=True))


def test_pairs_by_hand() -> None:
    """Two lines, windows of 10 every 5: line 0 has slices 0, 5 and 40, line 1 has slice 7 alone."""
    rows = Lines(np.array([0, 5, 40, 7]), np.array([0, 3, 4]))
    end = np.arange(5, 55, 5)
    asked = Segments(np.array([0, len(end)]), np.array([0]), np.array([2]), end - 10, end)
    assert pairs(rows, asked) == [
        (0, 0, 0, 1),
        (1, 0, 0, 2),
        (1, 1, 3, 4),
        (2, 0, 1, 2),
        (2, 1, 3, 4),
        (8, 0, 2, 3),
        (9, 0, 2, 3),
    ]


@pytest.mark.parametrize("seed", range(30))
def test_pairs_of_random_lines_and_windows(seed: int) -> None:
    dice = np.random.default_rng(seed)
    lines = [np.sort(dice.integers(-50, 200, dice.integers(1, 30))) for _ in range(dice.integers(1, 6))]
    rows = Lines(np.concatenate(lines), np.concatenate([[0], np.cumsum([len(line) for line in lines])]))
    start, end, bounds, begin, number = [], [], [0], [], []
    for _ in range(dice.integers(1, 4)):
        reach, step = dice.integers(1, 60), dice.integers(1, 40)
        ends = dice.integers(-80, 40) + step * np.arange(dice.integers(1, 20))
        start += (ends - reach).tolist()
        end += ends.tolist()
        bounds.append(len(end))
        begin.append(dice.integers(0, len(lines)))
        number.append(dice.integers(0, len(lines) - begin[-1] + 1))
    asked = Segments(*(np.array(column, np.int64) for column in (bounds, begin, number, start, end)))
    expected = []
    for s, (first, many) in enumerate(zip(begin, number, strict=True)):
        for window in range(bounds[s], bounds[s + 1]):
            for line in range(first, first + many):
                before = int(rows.starts[line])
                low, high = (before + int(np.searchsorted(lines[line], at)) for at in (start[window], end[window]))
                expected += [(window, line, low, high)] if low < high else []
    assert pairs(rows, asked) == expected
    line = np.array([pair[1] for pair in expected], np.intp)
    low, high = np.empty(len(line), np.intp), np.empty(len(line), np.intp)
    at = np.array([pair[0] for pair in expected], np.intp)
    ranges.search_ranges(rows, line, asked.start[at], asked.end[at], low, high)
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [pair[2:] for pair in expected]


@pytest.mark.parametrize("limit", [0, 1, 3, 200, None])
def test_the_first_rows_of_each_answer(limit: int | None) -> None:
    dice = np.random.default_rng(5)
    bounds = np.array([0, 0, 7, 8, 300])
    ranks = [dice.integers(0, 9, 300), dice.integers(0, 3, 300)]
    expected = []
    for low, high in zip(bounds.tolist(), bounds[1:].tolist(), strict=False):
        expected += sorted(range(low, high), key=lambda row: (ranks[0][row], ranks[1][row]))[:limit]
    assert order_within(ranks, bounds, limit).tolist() == expected


@pytest.mark.parametrize("seed", range(10))
def test_times_that_ascend_are_sought_one_after_the_other(seed: int) -> None:
    dice = np.random.default_rng(seed)
    times, wanted = (np.sort(dice.integers(-30, 300, dice.integers(0, 80))) for _ in range(2))
    at = np.empty(len(wanted), np.int64)
    ranges.seek_each(times, wanted, at)
    assert at.tolist() == np.searchsorted(times, wanted).tolist()
