"""The files that lie there when a stream begins to be read, of which a batch takes some.

How many it takes follows from the memory limit (`batch_size`), and answers must not. So while files of the backlog are
still to come, event time does not go past the oldest event in them, which Parquet tells in its footers: no event of a
backlog is late because the backlog came in several batches.

    files by time of change   |== a: 0-9 ==|== b: 10-19 ==|== c: 5-14 ==|
    batches                   |----- 0 ----|------ 1 -----|----- 2 -----|
    watermark, no lateness          5              5            19

Where files tell no times, event time waits for the end of the backlog. A user who chooses the size of batches has the
watermark of the stream alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from dataclasses import dataclass, field

from mullion.algebra.streams import Stream
from mullion.language.limits import FIRST_TIME, LAST_TIME
from mullion.memory import Memory
from mullion.spark.batch_size import batch_size_options
from mullion.spark.files import can_tell_time, local
from mullion.spark.footers import extent_of_files
from mullion.spark.listed_files import is_certain, listed_files
from mullion.spark.source_log import SourceLog


@dataclass(frozen=True)
class WaitingFile:
    """A file that was not read yet."""

    path: str
    size: int
    changed: int
    """In milliseconds, as Spark compares them."""


@dataclass
class Backlog:
    stream: Stream
    options: dict[str, str]
    """What Spark is told, so that a batch fits into memory."""
    waiting: list[WaitingFile] = field(default_factory=list)
    """In the order in which Spark takes them; it may take those of one time of change in any order."""
    noted: frozenset[str | None] = frozenset()
    """Files that Spark had noted before."""
    _oldest: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(stream: Stream, memory: Memory, log: SourceLog | None = None, partials: float = 0.0) -> Backlog:
        """What lies there, without what the stream has read before. An event leaves about so many partials."""
        files = files_in_order(stream)
        if files is None or log is None:
            return Backlog(stream, batch_size_options(stream, (), memory) if stream.format == "kafka" else {})
        options = batch_size_options(stream, [(file.path, file.size) for file in files], memory, partials)
        noted = frozenset(map(local, log.all_files()))
        waiting = [file for file in files if file.path not in noted] if options else []
        return Backlog(stream, options, waiting, noted)

    def oldest_after(self, taken: Collection[str]) -> int | None:
        """When the oldest event lies that is still to come after a batch took these files; None when none is."""
        if not self.waiting:
            return None
        paths = {path for uri in taken if (path := local(uri)) is not None}
        self.waiting = [file for file in self.waiting if file.path not in paths]
        if not paths <= self.noted:
            self._drop_strangers(sum(_size(path) for path in paths))
        return min(map(self._oldest_of, self.waiting), default=None)

    def _drop_strangers(self, taken: int) -> None:
        """Spark takes files as long as they fit. What would have fitted after so many bytes is none of the stream's,
        whatever the reason. This cannot be told of a batch that an earlier run has cut."""
        most = int(self.options["maxbytespertrigger"])
        while self.waiting:
            first = [file for file in self.waiting if file.changed == self.waiting[0].changed]
            if taken + max(file.size for file in first) > most:
                return
            del self.waiting[: len(first)]

    def _oldest_of(self, file: WaitingFile) -> int:
        if file.path not in self._oldest:
            self._oldest[file.path] = oldest_event(file.path, self.stream)
        return self._oldest[file.path]


def files_in_order(stream: Stream) -> list[WaitingFile] | None:
    """The files of a stream in the order in which Spark takes them; None where that cannot be told from here."""
    options = dict(stream.options)
    paths = listed_files(options) if is_certain(options) else None
    if paths is None:
        return None
    found = (_seen(os.path.abspath(path)) for path in paths)
    return sorted((file for file in found if file is not None), key=lambda file: file.changed)


def _size(path: str) -> int:
    """What a file has on the disk; more than fits, where it is gone."""
    try:
        return os.path.getsize(path)
    except OSError:
        return sys.maxsize


def _seen(path: str) -> WaitingFile | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return WaitingFile(path, status.st_size, status.st_mtime_ns // 1_000_000)


def oldest_event(path: str, stream: Stream) -> int:
    """The time of the oldest event of a file, or one before all events where the file does not tell."""
    extent = (
        extent_of_files([path], stream.time_column) if stream.format == "parquet" and can_tell_time(stream) else None
    )
    if extent is None or extent.events is None:
        return FIRST_TIME
    return LAST_TIME if extent.oldest is None else extent.oldest
