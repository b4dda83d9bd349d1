"""Loops are compiled when a machine first runs them: seconds in which nothing is read, so they are told.

What is compiled is kept on the disk, so that the next run does not wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mullion.surface.progress import Progress

DOING = "compiling loops, once on this machine"


@contextmanager
def telling_of_compiling(progress: Progress, tell: Callable[[str], None] | None) -> Iterator[None]:
    """While the line of progress says so; `tell` is told once, where there is no such line."""
    from numba.core import event

    depth, before, is_told = 0, "", tell is None
    changing = threading.Lock()

    class Compiling(event.Listener):
        """A loop may call others, which are compiled within it."""

        def on_start(self, _: event.Event) -> None:
            nonlocal depth, before, is_told
            with changing:
                depth += 1
                if depth == 1:
                    before = progress.doing
                    progress.doing = DOING
                if not is_told and tell is not None:
                    is_told = True
                    tell(DOING)

        def on_end(self, _: event.Event) -> None:
            nonlocal depth
            with changing:
                depth -= 1
                if not depth and progress.doing == DOING:
                    progress.doing = before

    listener = Compiling()
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
