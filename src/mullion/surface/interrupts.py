"""Ctrl-C and SIGTERM."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from mullion.surface.exit_code import SIGNALLED

if TYPE_CHECKING:
    from mullion.engine import Engine
    from mullion.surface.progress import Progress


class Interrupts:
    """Ctrl-C and SIGTERM while a script runs.

    Until events are read a signal ends the process at once: nothing has been written. From then on the first one stops
    after the current batch, and the next one ends the process. The Java side ends with us, whatever it is doing.
    """

    def __init__(self, progress: Progress, out: Path, checkpoint: Path | None) -> None:
        self._progress, self._out, self._checkpoint = progress, out, checkpoint
        self._engine: Engine | None = None
        self._count = 0
        self.code = 0
        """What the process ends with after a signal."""
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._heard) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def now_stop(self, engine: Engine) -> None:
        """Batches are about to run: a signal asks this engine to stop."""
        self._engine = engine

    def repeat(self) -> None:
        """Ask again: an engine that starts forgets what was asked of it before."""
        if self._count and self._engine is not None:
            self._engine.request_stop()

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self._count, self.code = self._count + 1, SIGNALLED + number
        if self._engine is None:
            _leave("stopped before any event was read", self.code)
        if self._count > 1:
            _leave(f"stopped within a batch; {how_to_go_on(self._out, self._checkpoint)}", self.code)
        self._engine.request_stop()
        self._progress.show("stopping after this batch (Ctrl-C again: at once)")


def _leave(message: str, code: int) -> NoReturn:
    """End the process from a signal handler: no exit hooks, which would wait for Java, and no buffered writing."""
    clear = "\x1b[?25h\r\x1b[K" if os.isatty(2) else ""
    with suppress(OSError):
        os.write(2, f"{clear}{message}\n".encode())
    os._exit(code)


def how_to_go_on(out: Path, checkpoint: Path | None) -> str:
    if checkpoint is not None:
        return "run the same command again to continue"
    return f"answers so far are in {out}; use --checkpoint to be able to continue"
