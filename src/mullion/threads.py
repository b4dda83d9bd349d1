"""Work in parallel threads: compiled loops and column operations let other threads go on.

Nobody is woken for a single thing. Waking a thread takes as long as many of them do, and on a virtual machine longer;
and who wakes another one has the interpreter's lock, which all wait for.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from math import inf
from threading import Condition, Event, Lock
from typing import Any, Generic, Protocol, TypeVar

S = TypeVar("S")
T = TypeVar("T")

WAITING = 2
"""How much waits until it is taken: items, or what they weigh together."""

AT_ONCE = 4
"""Such a part of what may wait is taken at once."""


class Run(Protocol):
    def __call__(self, work: Callable[[S], T], items: Sequence[S]) -> list[T]:
        """What the work makes of each item."""


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def in_threads(threads: int) -> Iterator[Run]:
    """So many threads, one of which is the caller's. Each takes the next item that nobody has begun.

    >>> with in_threads(3) as run:
    ...     run(abs, [-1, 2, -3, -4]), run(len, [])
    ([1, 2, 3, 4], [])
    """
    if threads <= 1:
        yield lambda work, items: [work(item) for item in items]
        return
    with ThreadPoolExecutor(threads - 1, thread_name_prefix="mullion-work") as pool:
        yield partial(_shared_out, pool, threads - 1)


def _shared_out(pool: Executor, helpers: int, work: Callable[[S], T], items: Sequence[S]) -> list[T]:
    results: list[Any] = [None] * len(items)
    rest = iter(range(len(items)))

    def take() -> None:
        try:
            for at in rest:
                results[at] = work(items[at])
        except BaseException:
            deque(rest, 0)  # nobody begins anything more
            raise

    others = [pool.submit(take) for _ in range(min(helpers, len(items) - 1))]
    try:
        take()
    finally:
        wait(others)
    for other in others:
        other.result()
    return results


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
    yielded = _Yielded(threads, weight, most)
    with ThreadPoolExecutor(threads, thread_name_prefix="mullion-sets") as pool:
        working = [pool.submit(_iterate, rest, yielded, stopped) for _ in range(threads)]
        try:
            while items := yielded.take():
                yield from items
            for future in working:
                future.result()
        finally:
            stopped.set()
            yielded.close()


class _Yielded(Generic[T]):
    """Items of several makers that wait to be taken."""

    def __init__(self, makers: int, weight: Callable[[T], int], most: float) -> None:
        self._makers, self._weight, self._most = makers, weight, most
        self._enough = most // AT_ONCE
        self._items: list[T] = []
        self._held = 0
        lock = Lock()
        self._some, self._room = Condition(lock), Condition(lock)

    def put(self, item: T) -> None:
        """Waits while what is there weighs as much as may wait."""
        with self._room:
            while self._held >= self._most:
                self._room.wait()
            self._items.append(item)
            self._held += max(1, self._weight(item))
            if self._held > self._enough:
                self._some.notify()

    def take(self) -> list[T]:
        """All that is there, once it is enough or no more will come; nothing in the end."""
        with self._some:
            while self._makers and self._held <= self._enough:
                self._some.wait()
            items, self._items, self._held = self._items, [], 0
            self._room.notify_all()
            return items

    def end(self) -> None:
        """A maker has made all of its items."""
        with self._some:
            self._makers -= 1
            self._some.notify()

    def close(self) -> None:
        """Nobody takes anything more, and nobody has to wait for that."""
        with self._room:
            self._most = inf
            self._room.notify_all()


def _iterate(tasks: Iterator[Callable[[], Iterator[T]]], yielded: _Yielded[T], stopped: Event) -> None:
    """Work on one task after the other, of those that nobody has begun."""
    try:
        for task in tasks:
            for item in task():
                yielded.put(item)
                if stopped.is_set():
                    return
    except BaseException:
        stopped.set()
        raise
    finally:
        yielded.end()
