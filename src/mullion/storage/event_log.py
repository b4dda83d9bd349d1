"""The events of batches, each in an immutable file that commits name as long as the events are needed.

    batch k --add--> <folder>/k --named by commit k, k + 1, ...--> read
                                --forgotten, so that no later commit names it--> swept

After a restart the log has exactly the batches that the commit names. Without files it is gone with the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mullion.storage.files import CommittedFiles, label_of, serialised
from mullion.storage.marks import Mark


@dataclass(frozen=True)
class LoggedBatch:
    """The events of a batch in the order of arrival, and their times' extremes."""

    name: str
    """The file's, or what it would be."""
    rows: int
    oldest: int
    newest: int
    files: CommittedFiles | None = field(repr=False, compare=False)
    table: pa.Table | None = field(default=None, repr=False, compare=False)
    """Without files the events, with files what is open of them."""

    @property
    def mark(self) -> Mark:
        name = self.name.rpartition("/")[2]
        return Mark.parse(label_of(name) or name)

    @property
    def events(self) -> pa.Table:
        if self.table is not None:
            return self.table
        assert self.files is not None
        return self.files.map(self.name)

    def saved(self) -> tuple[str, int, int, int]:
        return self.name, self.rows, self.oldest, self.newest


class EventLog:
    """`time` is the column of events that holds their times.

    `stays_open`: whether files are mapped once and for all, so that whoever has a batch can read it even after the file
    was swept. Otherwise they are opened when they are read.
    """

    def __init__(self, files: CommittedFiles | None, folder: str, time: str, *, stays_open: bool = False) -> None:
        self.files, self.folder, self.time, self._stays_open = files, folder, time, stays_open
        self.batches: tuple[LoggedBatch, ...] = ()
        """Oldest first."""

    def add(self, mark: Mark, events: pa.Table) -> None:
        """The events of a batch. One that is played again takes the place of itself."""
        self.forget(lambda batch: batch.mark == mark)
        if not len(events):
            return
        if self.files is None:
            batch = self._measured(f"{self.folder}/{mark.text}", events, None, events)
        else:
            name = self.files.write(self.folder, mark.text, serialised(events))
            batch = self._measured(name, events, self.files, self._opened(name))
        self.batches = (*self.batches, batch)

    def forget(self, is_over: Callable[[LoggedBatch], bool]) -> None:
        """Let batches go. Their files stay until the next commit, which does not name them."""
        self.batches = tuple(batch for batch in self.batches if not is_over(batch))

    def forget_all(self) -> None:
        self.batches = ()

    def forget_before(self, time: int) -> None:
        """Let the batches go of which every event is before a time."""
        self.forget(lambda batch: batch.newest < time)

    @property
    def names(self) -> list[str]:
        """The files that a commit has to name."""
        return [batch.name for batch in self.batches if batch.files is not None]

    def restore(self, saved: Sequence[Any]) -> None:
        """Go on with the files that a commit names, given by their names or as `saved` returned them."""
        assert self.files is not None
        for entry in saved:
            if isinstance(entry, str):
                batch = self._measured(entry, self.files.map(entry), self.files, self._opened(entry))
            else:
                name, rows, oldest, newest = entry
                batch = LoggedBatch(name, rows, oldest, newest, self.files, self._opened(name))
            self.batches = (*self.batches, batch)

    def _measured(
        self, name: str, events: pa.Table, files: CommittedFiles | None, table: pa.Table | None
    ) -> LoggedBatch:
        extremes = pc.min_max(events.column(self.time)).as_py()
        return LoggedBatch(name, len(events), extremes["min"], extremes["max"], files, table)

    def _opened(self, name: str) -> pa.Table | None:
        return self.files.map(name) if self._stays_open and self.files is not None else None
