"""What commits have left for questions, and who may look at it when.

    commit --publish--> what is there now <--newest-- a question begins
                              |          <--stands-- and ends: has anything been published meanwhile?
                              '--- held: a question that lets nothing be published while it reads

A commit puts all that it leaves in the place of what was there at once, so whoever takes several things in one
`newest` has them from one moment. A commit is never kept waiting but by those that hold, and goes before the next of
these.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

Recorder = Callable[..., None]
"""Hears what happens to windows, in its order: ("slide", number), ("read", reader, sub-window), ("in vain", reader,
sub-window), ("commit", reader, number of slides)."""


def nobody(*event: Any) -> None:
    pass


class Published:
    """For all streams of an engine together, since a question may be about several."""

    def __init__(self, record: Recorder = nobody) -> None:
        self.slides = 0
        """How often something was published, so that a reader sees that there is news."""
        self.record = record
        self._changed = threading.Condition(threading.Lock())
        self._holding_back = 0
        self._commits_waiting = 0

    def publish(self, put: Callable[[], None]) -> None:
        """Put what a commit leaves in its place."""
        with self._changed:
            self._commits_waiting += 1
            try:
                self._changed.wait_for(lambda: not self._holding_back)
            finally:
                self._commits_waiting -= 1
            put()
            self.slides += 1
            self.record("slide", self.slides)
            self._changed.notify_all()

    def newest(self, take: Callable[[], T]) -> tuple[int, T]:
        """What is there, all from one moment, and how many slides there were until then."""
        with self._changed:
            return self.slides, take()

    def stands(self, slides: int, reader: object = None) -> bool:
        """Whether what was there after so many slides still is: if so, the reader commits now."""
        with self._changed:
            if self.slides == slides:
                self.record("commit", reader, slides)
            return self.slides == slides

    @contextmanager
    def commits_held_back(self) -> Iterator[None]:
        """Nothing is published meanwhile. Several may hold together."""
        with self._changed:
            self._changed.wait_for(lambda: not self._commits_waiting)
            self._holding_back += 1
        try:
            yield
        finally:
            with self._changed:
                self._holding_back -= 1
                self._changed.notify_all()
