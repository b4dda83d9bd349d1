"""Which sub-indices an update of the index goes to (golab 4): the figures and the algorithm of the paper."""

from __future__ import annotations

import numpy as np
import pytest

from mullion.storage.lifetime_index import DoublyPartitioned, wave_by_expiry, wave_by_insertion
from mullion.storage.lifetime_index.partitioning import Calendar


def test_an_update_at_18_of_the_chronological_index_of_figure_4_1() -> None:
    calendar = Calendar(DoublyPartitioned(2, 2, round_robin=False), lifetime=16, interval=2)
    assert _paper(calendar, 18) == ([1, 2], [1, 3])
    for now in (20, 22, 24):
        assert _paper(calendar, now) == ([1, 2], [1, 3])
    for now in (26, 28, 30, 32):
        assert _paper(calendar, now) == ([3, 4], [2, 4])
    assert _paper(calendar, 34) == ([1, 2], [1, 3])


def test_an_update_at_18_of_the_round_robin_index_of_figure_4_2() -> None:
    calendar = Calendar(DoublyPartitioned(2, 2), lifetime=16, interval=2)
    assert _paper(calendar, 18) == ([1, 2], [1, 3])
    assert _paper(calendar, 20) == ([3, 4], [2, 4])
    assert _paper(calendar, 22) == ([1, 2], [1, 3])


def test_the_wave_indices_of_figure_2_6() -> None:
    by_insertion = Calendar(wave_by_insertion(4), lifetime=16, interval=2)
    assert [_paper(by_insertion, now)[0] for now in (18, 20, 22, 24)] == [[1], [1], [2], [2]]
    assert _paper(by_insertion, 18)[1] == [1, 2, 3, 4]
    by_expiry = Calendar(wave_by_expiry(4), lifetime=16, interval=2)
    assert [_paper(by_expiry, now)[1] for now in (18, 20, 22, 24)] == [[1], [1], [2], [2]]
    assert _paper(by_expiry, 18)[0] == [1, 2, 3, 4]


def _paper(calendar: Calendar, now: int) -> tuple[list[int], list[int]]:
    """Sub-indices of an update as the paper numbers them, from 1."""
    touched = calendar.touched(now - calendar.interval, now)
    return [i + 1 for i in touched.inserts], [i + 1 for i in touched.deletes]


@pytest.mark.parametrize(("g", "e"), [(2, 2), (4, 2), (2, 4), (1, 4), (8, 1)])
def test_round_robin_is_algorithm_1(g: int, e: int) -> None:
    """The lists of ranges that Algorithm 1 keeps, and replaces, against the arithmetic that needs none."""
    tau, s, delta = 16, 16, 2
    insertion: list[set[int]] = [set() for _ in range(g * e)]
    expiry: list[set[int]] = [set() for _ in range(g * e)]
    for i in range(s // (delta * g)):
        for j in range(g):
            for sub in range(j * e, (j + 1) * e):
                insertion[sub].add(tau - s + (i * g + j) * delta + 1)
    for i in range(s // (delta * e)):
        for j in range(e):
            for sub in range(j, g * e, e):
                expiry[sub].add(tau + (i * e + j) * delta + 1)
    calendar = Calendar(DoublyPartitioned(g, e), lifetime=s, interval=delta)
    for now in range(tau + delta, tau + 5 * s, delta):
        first = now - delta + 1
        deletes = [sub for sub in range(g * e) if first in expiry[sub]]
        inserts = [sub for sub in range(g * e) if first - s in insertion[sub]]
        assert calendar.touched(now - delta, now) == (tuple(inserts), tuple(deletes))
        for sub in deletes:
            expiry[sub] = expiry[sub] - {first} | {first + s}
        for sub in inserts:
            insertion[sub] = insertion[sub] - {first - s} | {first}
        ends = np.array([first + s, first + s + 1])
        for sub in calendar.sub_indices(np.array([first, now]), ends).tolist():
            assert first in insertion[sub]
            assert first + s in expiry[sub]


def test_round_robin_makes_sizes_more_even_as_theorem_4_1_says() -> None:
    random = np.random.default_rng(4)
    start = np.repeat(np.arange(1, 800), 20)
    end = start + random.integers(1, 65, len(start))
    variances = []
    for round_robin in (False, True):
        calendar = Calendar(DoublyPartitioned(4, 4, round_robin=round_robin), lifetime=64, interval=2)
        sub = calendar.sub_indices(start, end)
        sizes = [np.bincount(sub[(start <= t) & (t < end)], minlength=16) for t in range(100, 700, 2)]
        variances.append(np.mean([np.var(size) for size in sizes]))
    assert variances[1] < variances[0] / 4


def test_a_calendar_of_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one sub-index"):
        DoublyPartitioned(0, 2)
    with pytest.raises(ValueError, match="no interval"):
        Calendar(DoublyPartitioned(2, 2), lifetime=2, interval=3)
