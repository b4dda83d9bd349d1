"""Work side by side: the order stays, failures come through, and little waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.runtime.threads import WAITING, iterated_side_by_side


def counted(first: int, number: int) -> Iterator[int]:
    yield from range(first, first + number)


@given(st.lists(st.integers(0, 7), max_size=12), st.integers(1, 4))
def test_items_come_in_the_order_of_tasks(sizes: list[int], threads: int) -> None:
    tasks = [partial(counted, 100 * i, size) for i, size in enumerate(sizes)]
    expected = [100 * i + j for i, size in enumerate(sizes) for j in range(size)]
    assert list(iterated_side_by_side(tasks, threads)) == expected


def failing(number: int) -> Iterator[int]:
    yield from range(number)
    raise ValueError("at work")


@pytest.mark.parametrize("before", [0, 1, 9])
def test_a_failure_comes_when_it_is_its_turn(before: int) -> None:
    tasks: list[Callable[[], Iterator[int]]] = [partial(counted, 0, 3), partial(failing, before)]
    seen: list[int] = []
    with pytest.raises(ValueError, match="at work"):
        seen.extend(iterated_side_by_side([*tasks, partial(counted, 9, 9)], 2))
    assert seen == [0, 1, 2, *range(before)]


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
        assert len(made) - (number + 1) <= (threads + 1) * (WAITING + 1)


@given(st.lists(st.lists(st.integers(0, 9), max_size=7), max_size=6), st.integers(1, 4), st.integers(1, 12))
def test_what_waits_is_weighed(items: list[list[int]], threads: int, most: int) -> None:
    """Heavy items, of which one alone may weigh more than may wait, come in their order too."""
    tasks = [partial(iter, own) for own in items]
    found = iterated_side_by_side(tasks, threads, weight=lambda item: item, most=most)
    assert list(found) == [item for own in items for item in own]


def test_light_items_wait_in_greater_number() -> None:
    """While the first task is at work, the second goes on as long as what it made is light enough."""
    made, enough = [], threading.Event()

    def slow() -> Iterator[int]:
        assert enough.wait(60)
        yield 0

    def light() -> Iterator[int]:
        for i in range(5):
            made.append(i)
            yield 1
        enough.set()
        yield 1

    assert list(iterated_side_by_side([slow, light], 2, weight=lambda item: item, most=6)) == [0, *[1] * 6]
