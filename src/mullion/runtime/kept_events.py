"""The events that a stream keeps for questions that no standing query foresees: KEEP '1 hour', KEEP 1000000 ROWS.

Each batch's events are one immutable file, read only when a question needs it. A file leaves when all its events are
too old, after the commit that no longer names it, so that a restart finds every file that its commit names.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from mullion.algebra.streams import Stream
from mullion.slices.kernels.events import TIME
from mullion.slices.once import EventsBefore
from mullion.slices.order import times_of
from mullion.storage.event_log import EventLog, LoggedBatch
from mullion.storage.files import CommittedFiles
from mullion.storage.marks import Mark


@dataclass(frozen=True)
class KeptEvents:
    """Events at one moment: a reader keeps it while the stream goes on. A batch that spans a long time may stay while
    one that came later has gone, so only events are shown from when on all are there."""

    batches: tuple[LoggedBatch, ...] = ()
    past: EventsBefore = field(default_factory=EventsBefore)

    @cached_property
    def rows(self) -> int:
        return sum(self._rows_of(batch) for batch in self.batches)

    def _rows_of(self, batch: LoggedBatch) -> int:
        since = self.past.since
        if since is None or batch.oldest >= since:
            return batch.rows
        return int(np.count_nonzero(times_of(batch.events) >= since))

    def read(self, since: int | None, up_to: int | None = None) -> pa.Table:
        """The events from a time on, or all, in their order; of batches up to one, if it is given."""
        if self.past.since is not None:
            since = self.past.since if since is None else max(since, self.past.since)
        wanted = [batch for batch in self.batches if since is None or batch.newest >= since]
        wanted = [batch for batch in wanted if up_to is None or batch.mark.batch <= up_to]
        if not wanted:
            return self.batches[-1].events.slice(0, 0)
        whole = pa.concat_tables([batch.events for batch in wanted])
        times = times_of(whole)
        order = np.argsort(times, kind="stable")
        return whole.take(pa.array(order if since is None else order[times[order] >= since]))


class Keeper:
    """Writes the events of batches, and lets the old ones go, their files once no reader names them."""

    def __init__(self, stream: Stream, files: CommittedFiles, before: EventsBefore | None = None) -> None:
        """`before`: what came before events were kept."""
        self.stream = stream
        self._log, self._past = EventLog(files, "kept", TIME), before or EventsBefore()
        self._shown: list[weakref.ref[KeptEvents]] = []

    def reach_back_to(self, time: int | None) -> bool:
        """Whether all events from a time on are kept, or all that ever came."""
        return self._past.since is None or (time is not None and time >= self._past.since)

    def shown(self) -> KeptEvents:
        """The events of now, for readers: their files stay as long as it is held."""
        shown = KeptEvents(self._log.batches, self._past)
        self._shown = [ref for ref in self._shown if ref() is not None] + [weakref.ref(shown)]
        return shown

    def add(self, mark: Mark, events: pa.Table) -> None:
        """The events of a batch in the order of arrival, with their time as `t`."""
        self._log.add(mark, events)

    def forget(self, now: int) -> None:
        """Let go what is older than asked for."""
        over: list[LoggedBatch] = []
        for batch in self._log.batches:
            others = (other for other in self._log.batches if other is not batch and other not in over)
            later = sum(other.rows for other in others if other.oldest >= batch.newest)
            old = self.stream.keep is None or batch.newest < now - self.stream.keep
            many = self.stream.keep_rows is None or later >= self.stream.keep_rows
            if old and many:
                over.append(batch)
                since = batch.newest + 1 if self._past.since is None else max(self._past.since, batch.newest + 1)
                self._past = EventsBefore(self._past.events + batch.rows, since)
        self._log.forget(lambda batch: batch in over)

    @property
    def names(self) -> list[str]:
        """The files that a commit has to name."""
        return self._log.names

    @property
    def held_files(self) -> set[str]:
        """The files that readers hold."""
        return {batch.name for ref in self._shown if (shown := ref()) is not None for batch in shown.batches}

    def snapshot(self) -> dict[str, Any]:
        files = [batch.saved() for batch in self._log.batches]
        return {"files": files, "events": self._past.events, "since": self._past.since}

    def restore(self, state: dict[str, Any]) -> None:
        self._log.restore(state["files"])
        self._past = EventsBefore(state["events"], state["since"])
