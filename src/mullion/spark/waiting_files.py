"""How much lies at a stream's path that was not read yet: what the monitor of its run wants to know."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from contextlib import suppress

from mullion.algebra.streams import Stream
from mullion.runtime.monitor import SourceLag
from mullion.spark.backlog import files_in_order
from mullion.spark.files import local
from mullion.spark.source_log import SourceLog

SELDOM = 50
"""A look takes place at most once in so many times what the last one took: large directories take long."""


class WaitingFiles:
    def __init__(self, stream: Stream, log: SourceLog) -> None:
        self._stream, self._log = stream, log
        self._read: set[str | None] = set()
        self._looked: int | None = None
        self._took = self._ended = 0.0
        self._lying: Collection[tuple[str, int]] = ()

    def held_by(self, batch: int) -> float:
        """The bytes of a batch; of files that are gone none."""
        total = 0
        for uri in self._log.files_of(batch):
            path = local(uri)
            with suppress(OSError):
                total += 0 if path is None else os.path.getsize(path)
        return float(total)

    def after(self, batch: int) -> SourceLag | None:
        """What waits after a batch, in bytes, and what batches took since this was asked last."""
        since = batch if self._looked is None else self._looked + 1
        if self._looked is None:
            self._read = set(map(local, self._log.all_files()))
        taken = {local(uri) for number in range(since, batch + 1) for uri in self._log.files_of(number)}
        self._read |= taken
        self._looked = batch
        sizes = dict(self._lying)
        missing = any(path not in sizes for path in taken)
        if missing or time.perf_counter() - self._ended >= SELDOM * self._took:
            began = time.perf_counter()
            files = files_in_order(self._stream)
            if files is None:
                return None
            self._lying = [(file.path, file.size) for file in files]
            self._ended = time.perf_counter()
            self._took = self._ended - began
            sizes = dict(self._lying)
        waiting = sum(size for path, size in self._lying if path not in self._read)
        return SourceLag(waiting, sum(sizes.get(path or "", 0) for path in taken))
