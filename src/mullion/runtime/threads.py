"""Work on several sharing sets side by side: compiled loops and column operations let other threads go on."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(tasks: Sequence[Callable[[], T]], threads: int | None = None) -> Iterator[T]:
    """What each task returns, in their order. A few are worked on at a time, so that few results wait.

    >>> list(side_by_side([lambda: 1, lambda: 2, lambda: 3], threads=2))
    [1, 2, 3]
    """
    threads = min(cores() if threads is None else threads, len(tasks))
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


__all__ = ["cores", "side_by_side"]
