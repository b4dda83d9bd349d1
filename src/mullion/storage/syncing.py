"""Files on their way to the disk while work goes on.

    write intake ----.                          .---- write shelf ...
         fsync       '-----> in other threads   |
    compute          ...     ...                |
    settle  <---------------- all there         |
    write the commit, which names them ---------'

What a commit names must be on the disk before the commit is, and no sooner: a file that no commit names means nothing.
So the batch goes on after writing one, and waits for all of them together before it writes the commit.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

AT_ONCE = 8
"""Threads that wait for the disk, for all journals of a process."""


def sync_directory(path: Path) -> None:
    """Let what was made, renamed or removed in a directory survive a power cut."""
    _sync(os.open(path, os.O_RDONLY))


MOST_OPEN = 64
"""Files of a journal that are open at a time."""


class Syncing:
    """What one journal waits for."""

    def __init__(self) -> None:
        self._begun: deque[Future[None]] = deque()

    def begin(self, path: Path) -> None:
        """A file that has its name: its content and its name go to the disk."""
        while len(self._begun) >= MOST_OPEN:
            self._wait()
        for each in (path, path.parent):
            self._begun.append(_threads().submit(_sync, os.open(each, os.O_RDONLY)))

    def settle(self) -> None:
        """Until all that was begun is on the disk. Raises what went wrong with any of it."""
        while self._begun:
            self._wait()

    def _wait(self) -> None:
        """For one of them; several threads may wait."""
        with suppress(IndexError):
            self._begun.popleft().result()


def _sync(handle: int) -> None:
    """What was opened before: a file may be removed meanwhile."""
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="mullion-sync")
