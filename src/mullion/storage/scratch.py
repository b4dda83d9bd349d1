"""A directory for what need not survive the process."""

from __future__ import annotations

import tempfile
from pathlib import Path


class Scratch:
    """It is made when it is first asked for."""

    def __init__(self) -> None:
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def __bool__(self) -> bool:
        """Whether it exists."""
        return self._directory is not None

    @property
    def path(self) -> Path:
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="mullion-", ignore_cleanup_errors=True)
        return Path(self._directory.name)

    def discard(self) -> None:
        """Remove it with all that is in it. If asked for again, a new one is made."""
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None


__all__ = ["Scratch"]
