"""Work on several sharing sets side by side: compiled loops and column operations let other threads go on."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, Queue
from threading import Event
from typing import TypeVar

T = TypeVar("T")

WAITING = 2
"""How much waits until it is taken: items, or what they weigh together."""


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(tasks: Sequence[Callable[[], T]]) -> Iterator[T]:
    """What each task returns, in their order. A few are worked on at a time, so that few results wait.

    >>> list(side_by_side([lambda: 1, lambda: 2, lambda: 3]))
    [1, 2, 3]
    """
    threads = min(cores(), len(tasks))
    if threads <= 1:
        for task in tasks:
            yield task()
        return
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="mullion-sets") as pool:
        try:
            for task in tasks:
                waiting.append(pool.submit(task))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def iterated_side_by_side(
    tasks: Sequence[Callable[[], Iterator[T]]],
    threads: int | None = None,
    *,
    weight: Callable[[T], int] = lambda _: 1,
    most: int = WAITING,
) -> Iterator[T]:
    """What each task yields, in the order of that task; what others yield comes in between as it is made. Nobody waits
    for a task that takes long. All stop while what waits to be taken weighs as much as may wait.

    >>> sorted(iterated_side_by_side([lambda: iter([1, 2, 3, 4]), lambda: iter([]), lambda: iter([5])], threads=2))
    [1, 2, 3, 4, 5]
    """
    threads = min(cores() if threads is None else threads, len(tasks))
    if threads <= 1:
        for task in tasks:
            yield from task()
        return
    stopped, rest = Event(), iter(tasks)
    out: Queue[_Item[T]] = _Weighed(most, weight)
    with ThreadPoolExecutor(threads, thread_name_prefix="mullion-sets") as pool:
        working = [pool.submit(_iterate, rest, out, stopped) for _ in range(threads)]
        try:
            left = threads
            while left:
                item = out.get()
                if item:
                    yield item[0]
                left -= not item
            for future in working:
                future.result()
        finally:
            stopped.set()
            while not all(future.done() for future in working):
                with suppress(Empty):
                    out.get(timeout=0.01)


_Item = tuple[()] | tuple[T]
"""One item, or the end."""


class _Weighed(Queue[_Item[T]]):
    """A queue that is full when what is in it weighs too much."""

    def __init__(self, most: int, weight: Callable[[T], int]) -> None:
        self._weight, self._held = weight, 0
        super().__init__(most)

    def _weigh(self, item: _Item[T]) -> int:
        return max(1, self._weight(item[0])) if item else 1

    def _put(self, item: _Item[T]) -> None:
        super()._put(item)
        self._held += self._weigh(item)

    def _get(self) -> _Item[T]:
        item: _Item[T] = super()._get()
        self._held -= self._weigh(item)
        return item

    def _qsize(self) -> int:
        return self._held


def _iterate(tasks: Iterator[Callable[[], Iterator[T]]], out: Queue[_Item[T]], stopped: Event) -> None:
    """Work on one task after the other, of those that nobody has begun."""
    try:
        for task in tasks:
            for item in task():
                out.put((item,))
                if stopped.is_set():
                    return
    except BaseException:
        stopped.set()
        raise
    finally:
        out.put(())
