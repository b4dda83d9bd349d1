"""The events that a stream keeps for questions nobody foresaw: KEEP '1 hour', KEEP 1000000 ROWS.

Each batch's events are one immutable file, read only when a question needs it. A file leaves when all its events are
too old, after the commit that no longer names it, so that a restart finds every file that its commit names.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mullion.algebra.streams import Stream
from mullion.slices.kernels.partial import TIME
from mullion.slices.once import Past
from mullion.slices.order import times_of
from mullion.storage.files import CommittedFiles, serialised
from mullion.storage.marks import Mark


class KeptFile(NamedTuple):
    name: str
    rows: int
    oldest: int
    newest: int


@dataclass(frozen=True)
class KeptEvents:
    """Events at one moment: a reader keeps it while the stream goes on."""

    files: CommittedFiles
    kept: tuple[KeptFile, ...] = ()
    past: Past = field(default_factory=Past)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.kept)

    def read(self, since: int | None) -> pa.Table:
        """The events from a time on, or all, in their order."""
        wanted = [file for file in self.kept if since is None or file.newest >= since]
        if not wanted:
            return self.files.map(self.kept[-1].name).slice(0, 0)
        whole = pa.concat_tables([self.files.map(file.name) for file in wanted])
        times = times_of(whole)
        order = np.argsort(times, kind="stable")
        return whole.take(pa.array(order if since is None else order[times[order] >= since]))


class Keeper:
    """Writes the events of batches, and lets the old ones go, their files once no reader names them."""

    def __init__(self, stream: Stream, files: CommittedFiles) -> None:
        self.stream = stream
        self.kept = KeptEvents(files)
        self._shown: list[weakref.ref[KeptEvents]] = []

    def shown(self) -> KeptEvents:
        """The events of now, for readers: their files stay as long as it is held."""
        shown = replace(self.kept)
        self._shown = [ref for ref in self._shown if ref() is not None] + [weakref.ref(shown)]
        return shown

    def add(self, mark: Mark, events: pa.Table) -> None:
        """The events of a batch in the order of arrival, with their time as `t`."""
        if not len(events):
            return
        extremes = pc.min_max(events.column(TIME)).as_py()
        name = self.kept.files.write("kept", mark.text, serialised(events))
        file = KeptFile(name, len(events), extremes["min"], extremes["max"])
        self.kept = replace(self.kept, kept=(*self.kept.kept, file))

    def forget(self, now: int) -> None:
        """Let go what is older than asked for."""
        files, past = list(self.kept.kept), self.kept.past
        for file in self.kept.kept:
            later = sum(f.rows for f in files if f.oldest >= file.newest and f is not file)
            old = self.stream.keep is None or file.newest < now - self.stream.keep
            many = self.stream.keep_rows is None or later >= self.stream.keep_rows
            if old and many:
                files.remove(file)
                since = file.newest + 1 if past.since is None else max(past.since, file.newest + 1)
                past = Past(past.events + file.rows, since)
        self.kept = replace(self.kept, kept=tuple(files), past=past)

    @property
    def names(self) -> list[str]:
        """The files that a commit has to name."""
        return [file.name for file in self.kept.kept]

    @property
    def held(self) -> set[str]:
        """The files that readers hold."""
        return {file.name for ref in self._shown if (kept := ref()) is not None for file in kept.kept}

    def snapshot(self) -> dict[str, Any]:
        return {"files": self.kept.kept, "events": self.kept.past.events, "since": self.kept.past.since}

    def restore(self, state: dict[str, Any]) -> None:
        files = tuple(KeptFile(*file) for file in state["files"])
        self.kept = replace(self.kept, kept=files, past=Past(state["events"], state["since"]))


__all__ = ["Keeper", "KeptEvents"]
