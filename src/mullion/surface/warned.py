"""Warnings on stderr while a command is at work, each sentence once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Warned(logging.Handler):
    """Says what Mullion warns of. What was said at once is not repeated at the end."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell
        self._told: set[str] = set()

    def warn(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._tell(sentence)

    def emit(self, record: logging.LogRecord) -> None:
        self.warn(record.getMessage())


@contextmanager
def listening(warned: Warned) -> Iterator[None]:
    """While it hears of every warning."""
    logger = logging.getLogger("mullion")
    logger.addHandler(warned)
    try:
        yield
    finally:
        logger.removeHandler(warned)
