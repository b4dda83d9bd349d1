"""A directory for what need not survive the process."""

from __future__ import annotations

import tempfile
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from mullion.storage.files import mapped


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

    def mapped(self, table: pa.Table) -> pa.Table:
        """The same rows in a file, read as they are needed. The file has no name any more, and is gone with the
        table."""
        path = self.path / f"{uuid4().hex}.arrow"
        try:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            return mapped(path)
        finally:
            path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove it with all that is in it. If asked for again, a new one is made."""
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None
