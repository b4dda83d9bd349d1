"""Work side by side: the order of each task stays, failures come through, and little waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.threads import WAITING, iterated_side_by_side


def counted(first: int, number: int) -> Iterator[int]:
    yield from range(first, first + number)


@given(st.lists(st.integers(0, 7), max_size=12), st.integers(1, 4))
def test_the_items_of_a_task_come_in_their_order(sizes: list[int], threads: int) -> None:
    tasks = [partial(counted, 100 * i, size) for i, size in enumerate(sizes)]
    found = list(iterated_side_by_side(tasks, threads))
    assert by_task(found) == {i: list(range(100 * i, 100 * i + size)) for i, size in enumerate(sizes) if size}


def by_task(items: list[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for item in items:
        found.setdefault(item // 100, []).append(item)
    return found


def failing(number: int) -> Iterator[int]:
    yield from range(number)
    raise ValueError("at work")


@pytest.mark.parametrize("before", [0, 1, 9])
def test_a_failure_comes_through_and_ends_the_others(before: int) -> None:
    tasks: list[Callable[[], Iterator[int]]] = [partial(failing, before)]
    seen: list[int] = []
    with pytest.raises(ValueError, match="at work"):
        seen.extend(iterated_side_by_side([*tasks, *(partial(counted, 100, 1 << 40) for _ in range(3))], 2))
    assert [item for item in seen if item < 100] == list(range(before))


def test_who_stops_early_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    items = iterated_side_by_side([partial(counted, 0, 1000) for _ in range(6)], 3)
    assert next(items) == 0
    items.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_no_more_is_made_than_may_wait() -> None:
    made: list[int] = []

    def noting(first: int) -> Iterator[int]:
        for i in range(first, first + 100):
            made.append(i)
            yield i

    threads = 2
    for number, _ in enumerate(iterated_side_by_side([partial(noting, 100 * i) for i in range(8)], threads)):
        assert len(made) - (number + 1) <= WAITING + 2 * threads


@given(st.lists(st.lists(st.integers(0, 9), max_size=7), max_size=6), st.integers(1, 4), st.integers(1, 12))
def test_what_waits_is_weighed(items: list[list[int]], threads: int, most: int) -> None:
    """Heavy items, of which one alone may weigh more than may wait, come too."""
    tasks = [partial(iter, own) for own in items]
    found = iterated_side_by_side(tasks, threads, weight=lambda item: item, most=most)
    assert sorted(found) == sorted(item for own in items for item in own)


def test_nobody_waits_for_a_task_that_takes_long() -> None:
    """The first task ends only when all others are through."""
    over = threading.Semaphore(0)

    def slow() -> Iterator[int]:
        for _ in range(20):
            assert over.acquire(timeout=60)
        yield 0

    def short() -> Iterator[int]:
        yield 1
        over.release()

    assert list(iterated_side_by_side([slow, *[short] * 20], 2)) == [*[1] * 20, 0]
