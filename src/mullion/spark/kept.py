"""The events that a stream keeps for questions nobody foresaw: KEEP '1 hour', KEEP 1000000 ROWS.

Each batch's events are one immutable file, read only when a question needs it. A file leaves when all its events are
too old, after the commit that no longer names it, so that a restart finds every file that its commit names.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mullion.catalog.journal import Mark, serialised, write_whole
from mullion.catalog.streams import Stream
from mullion.kernels.partial import TIME
from mullion.windows.once import Past
from mullion.windows.order import times_of


class KeptFile(NamedTuple):
    name: str
    rows: int
    oldest: int
    newest: int


@dataclass(frozen=True)
class KeptEvents:
    """Events at one moment: a reader keeps it while the stream goes on."""

    directory: Path
    files: tuple[KeptFile, ...] = ()
    past: Past = field(default_factory=Past)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def read(self, since: int | None) -> pa.Table:
        """The events from a time on, or all, in their order."""
        wanted = [file for file in self.files if since is None or file.newest >= since]
        tables = [pa.ipc.open_stream(pa.memory_map(str(self.directory / file.name))).read_all() for file in wanted]
        whole = pa.concat_tables(tables)
        times = times_of(whole)
        order = np.argsort(times, kind="stable")
        return whole.take(pa.array(order if since is None else order[times[order] >= since]))


class Keeper:
    """Writes the events of batches, and lets the old ones go, their files once no reader names them."""

    def __init__(self, stream: Stream, directory: Path) -> None:
        self.stream = stream
        self.kept = KeptEvents(directory)
        self._expired: list[str] = []
        self._shown: list[weakref.ref[KeptEvents]] = []

    def shown(self) -> KeptEvents:
        """The events of now, for readers: their files stay as long as it is held."""
        shown = replace(self.kept)
        self._shown = [ref for ref in self._shown if ref() is not None] + [weakref.ref(shown)]
        return shown

    def add(self, mark: Mark, events: pa.Table) -> None:
        """The events of a batch in the order of arrival, with their time as `t`. A batch that is played again writes
        its file anew."""
        if not len(events):
            return
        extremes = pc.min_max(events.column(TIME)).as_py()
        name = f"{mark.text}.arrow"
        self._expired = [old for old in self._expired if old != name]
        write_whole(self.kept.directory / name, serialised(events))
        file = KeptFile(name, len(events), extremes["min"], extremes["max"])
        files = (*(f for f in self.kept.files if f.name != name), file)
        self.kept = KeptEvents(self.kept.directory, files, self.kept.past)

    def forget(self, now: int) -> None:
        """Let go what is older than asked for."""
        files, past = list(self.kept.files), self.kept.past
        for file in self.kept.files:
            later = sum(f.rows for f in files if f.oldest >= file.newest and f is not file)
            old = self.stream.keep is None or file.newest < now - self.stream.keep
            many = self.stream.keep_rows is None or later >= self.stream.keep_rows
            if old and many:
                files.remove(file)
                since = file.newest + 1 if past.since is None else max(past.since, file.newest + 1)
                past = Past(past.events + file.rows, since)
                self._expired.append(file.name)
        self.kept = KeptEvents(self.kept.directory, tuple(files), past)

    def sweep(self) -> None:
        """Remove the files that neither the last commit names any more nor a reader."""
        held = {file.name for ref in self._shown if (kept := ref()) is not None for file in kept.files}
        for name in [name for name in self._expired if name not in held]:
            (self.kept.directory / name).unlink(missing_ok=True)
        self._expired = [name for name in self._expired if name in held]

    def snapshot(self) -> dict[str, Any]:
        return {"files": self.kept.files, "events": self.kept.past.events, "since": self.kept.past.since}

    def restore(self, state: dict[str, Any]) -> None:
        files = tuple(KeptFile(*file) for file in state["files"])
        self.kept = KeptEvents(self.kept.directory, files, Past(state["events"], state["since"]))
        if self.kept.directory.exists():
            named = {file.name for file in files}
            self._expired += [path.name for path in self.kept.directory.iterdir() if path.name not in named]


__all__ = ["Keeper", "KeptEvents"]
