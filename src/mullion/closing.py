"""Closes the engines that a program left open, when the interpreter ends.

Batches run in threads that Java calls. Were they at work while the interpreter falls apart, it would end in a fatal
error; so whoever is still open is closed before that, also after an exception that nobody caught.
"""

from __future__ import annotations

import atexit
import logging
from typing import Protocol
from weakref import WeakSet

log = logging.getLogger("mullion")


class Closes(Protocol):
    def close(self) -> None: ...


_open: WeakSet[Closes] = WeakSet()


def close_at_exit(engine: Closes) -> None:
    """Close it when the interpreter ends, unless it is gone by then.

    Registered anew each time: who registers last is called first, and must be before the bridge to Java is down.
    """
    _open.add(engine)
    atexit.unregister(_close_all)
    atexit.register(_close_all)


def _close_all() -> None:
    for engine in list(_open):
        try:
            engine.close()
        except Exception as problem:
            # A batch at work finds no threads any more. It is cut off as by a kill: the next run plays it again.
            if "cannot schedule new futures" in str(problem):
                continue
            log.warning("an engine that was left open failed: %s", problem)
