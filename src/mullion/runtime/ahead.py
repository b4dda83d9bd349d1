"""How far past the clock the events of a batch may be: AHEAD '1 day'.

A limit that set events aside is written down before anything is made of the batch, so that the batch sets aside the
same events when it is played again, and when its files are read again for a query that enters later. A batch without
such events needs no note: played again, when the clock is further, it has none either.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mullion.algebra.streams import Stream
from mullion.storage.files import CommittedFiles, label_of, read_checked

SECOND = 1_000_000
FOLDER = "ahead"


class Limit(NamedTuple):
    """From `time` on, events of the batch were too far ahead. `offsets` are those of the files that it took."""

    time: int
    offsets: Sequence[int]


class Ahead:
    """The limits of a stream's batches. Without files the notes are gone with the process."""

    def __init__(self, stream: Stream, clock: Callable[[], float], files: CommittedFiles | None) -> None:
        self._stream, self._clock, self._files = stream, clock, files
        self._noted: dict[int, Limit] = {}
        self.names: list[str] = []
        """The files that a commit has to name."""
        for name in () if files is None else files.names(FOLDER):
            label = (label_of(name) or "").removeprefix(f"{FOLDER}/")
            if files is not None and label.isdigit():
                self._noted[int(label)] = Limit(**json.loads(read_checked(files.path(name))))
                self.names.append(name)

    def limit(self, batch: int, newest: int | None) -> int | None:
        """The first time that is too far ahead for the batch; None when none is. Event time has reached `newest`: what
        lies before it is not ahead, whatever the clock says now."""
        if batch in self._noted:
            return self._noted[batch].time
        if self._stream.ahead is None:
            return None
        limit = self.now() + self._stream.ahead + 1
        return limit if newest is None else max(limit, newest + 1)

    def now(self) -> int:
        """What the clock says (microseconds)."""
        return int(self._clock() * SECOND)

    def note(self, batch: int, time: int, offsets: Sequence[int]) -> None:
        """Some events of the batch lie beyond its limit."""
        limit = self._noted[batch] = Limit(time, list(offsets))
        if self._files is not None:
            content = json.dumps(limit._asdict()).encode()
            self.names.append(self._files.write(FOLDER, f"{batch:012d}", content, ".json"))

    def by_offset(self) -> dict[int, int]:
        """The limits at the offsets of the source whose files had events beyond them."""
        return {offset: limit.time for limit in self._noted.values() for offset in limit.offsets}
