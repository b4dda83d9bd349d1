"""How far past the clock the events of a batch may be: AHEAD '1 day'.

A limit that set events aside is written down before anything is made of the batch, so that the batch sets aside the
same events when it is played again, and when its files are read again for a query that enters later. A batch without
such events needs no note: played again, when the clock is further, it has none either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mullion.algebra.streams import Stream
from mullion.storage.batch_notes import BatchNotes
from mullion.storage.files import CommittedFiles

SECOND = 1_000_000
FOLDER = "ahead"


class Limit(NamedTuple):
    """From `time` on, events of the batch were too far ahead. `offsets` are those of the files that it took."""

    time: int
    offsets: Sequence[int]

    def noted(self) -> dict[str, Any]:
        return self._asdict()


class Ahead:
    """The limits of a stream's batches."""

    def __init__(self, stream: Stream, clock: Callable[[], float], files: CommittedFiles | None) -> None:
        self._stream, self._clock = stream, clock
        self.notes = BatchNotes(files, FOLDER, Limit)

    def limit(self, batch: int, newest: int | None) -> int | None:
        """The first time that is too far ahead for the batch; None when none is. Event time has reached `newest`: what
        lies before it is not ahead, whatever the clock says now."""
        noted = self.notes.of(batch)
        if noted is not None:
            return noted.time
        if self._stream.ahead is None:
            return None
        limit = self.now() + self._stream.ahead + 1
        return limit if newest is None else max(limit, newest + 1)

    def now(self) -> int:
        """What the clock says (microseconds)."""
        return int(self._clock() * SECOND)

    def note(self, batch: int, time: int, offsets: Sequence[int]) -> None:
        """Some events of the batch lie beyond its limit."""
        self.notes.note(batch, Limit(time, list(offsets)))

    def by_offset(self) -> dict[int, int]:
        """The limits at the offsets of the source whose files had events beyond them."""
        return {offset: limit.time for limit in self.notes.by_batch.values() for offset in limit.offsets}
