"""A question that reads a window sub-window by sub-window while the window slides: which it reads next, and what of
that which it has read still counts. A pure state machine; `published` is where windows slide, `isolation` drives it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

U = TypeVar("U", bound=Hashable)

ReadingOrder = Callable[[Sequence[Any]], Iterable[Any]]
"""In which order to read sub-windows that are given from the oldest to the youngest."""


def oldest_first(window: Sequence[U]) -> Iterable[U]:
    return window


def by_time_to_update(window: Sequence[U]) -> Iterable[U]:
    """That one first which leaves the window last: a window slides by dropping its oldest (golab 7.4.2)."""
    return reversed(window)


@dataclass
class Reading(Generic[U]):
    """The reads of one question, latest-window-serializable: what was read when nothing is left to be read is the
    window as it is then (golab Definition 7.2).

    What was read and has left the window is a conflict. With `restarts` everything is read again (golab Algorithm 7;
    by time to update, Algorithm 8, which conflicts least: Theorem 7.4). Without it what has left is put aside and the
    rest stays, since what was read of each sub-window is kept apart until the end (golab 7.4.2, the variant without
    aborts): reading by time to update then reads least in vain.

    Requires: sub-windows that never change, each told apart by a key.
    Time: O(1) a read, O(n) a slide for a window of n sub-windows. Space: O(n).

    >>> reading = Reading(by_time_to_update)
    >>> reading.slid([0, 1, 2])
    []
    >>> reading.next(), reading.record(2, "c"), reading.next()
    (2, None, 1)
    >>> reading.slid([1, 2, 3])
    []
    >>> reading.next(), reading.record(3, "d"), reading.next(), reading.record(1, "b"), reading.next()
    (3, None, 1, None, None)
    >>> reading.parts, reading.restarted
    (['b', 'c', 'd'], 0)
    """

    order: ReadingOrder = by_time_to_update
    restarts: bool = False
    window: tuple[U, ...] = ()
    restarted: int = 0
    in_vain: int = 0
    """Sub-windows that were read and then did not count."""
    _read: dict[U, Any] = field(default_factory=dict)
    _unread: deque[U] = field(default_factory=deque)

    def slid(self, window: Iterable[U]) -> list[U]:
        """The window is another one now: its sub-windows, the oldest first. Returns what was read in vain."""
        self.window = tuple(window)
        inside = set(self.window)
        left = [unit for unit in self._read if unit not in inside]
        if left and self.restarts:
            self.restarted += 1
            left = list(self._read)
        for unit in left:
            del self._read[unit]
        self.in_vain += len(left)
        self._unread = deque(unit for unit in self.order(self.window) if unit not in self._read)
        return left

    def next(self) -> U | None:
        """The sub-window to be read next; None once all are."""
        return self._unread[0] if self._unread else None

    def record(self, unit: U, part: Any) -> None:
        """What was read of the sub-window that was next."""
        if self._unread and self._unread[0] == unit:
            self._unread.popleft()
            self._read[unit] = part
        else:
            self.in_vain += 1

    @property
    def parts(self) -> list[Any]:
        """What was read of each sub-window of the window, the oldest first."""
        return [self._read[unit] for unit in self.window]
