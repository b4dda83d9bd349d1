"""The events that a stream hands on to relations, until all of them have passed.

    batch k --> intake/k.arrow --named by the stream's commit k--> relations take its events once, in the order of time
                               --all events before what every relation has committed--> removed

Each batch's events are one immutable table, a file when the stream has a checkpoint. A relation knows by its own commit
up to which event time it has taken everything, so after a crash it finds in the files exactly what it lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mullion.catalog.journal import Mark, serialised, write_whole
from mullion.kernels.partial import TIME


class Arrived(NamedTuple):
    """The events of a batch in the order of arrival."""

    mark: Mark
    newest: int
    events: pa.Table


@dataclass
class Intake:
    """What was handed on and is still needed, oldest batch first. Without a directory it is gone with the process."""

    directory: Path | None
    batches: list[Arrived] = field(default_factory=list)
    _expired: list[str] = field(default_factory=list)

    def add(self, mark: Mark, events: pa.Table) -> None:
        """The events of a batch with their time as `t`. A batch that is played again takes the place of itself."""
        self.batches = [batch for batch in self.batches if batch.mark != mark]
        if not len(events):
            return
        if self.directory is not None:
            self._expired = [name for name in self._expired if name != mark.text]
            write_whole(self.directory / mark.text, serialised(events))
            events = _mapped(self.directory / mark.text)
        self.batches.append(Arrived(mark, pc.max(events.column(TIME)).as_py(), events))

    def forget(self, taken: int) -> None:
        """Let go the batches of which every event is before a time."""
        self._expired += [batch.mark.text for batch in self.batches if batch.newest < taken]
        self.batches = [batch for batch in self.batches if batch.newest >= taken]

    def sweep(self) -> None:
        """Remove the files that the last commit no longer names."""
        for name in self._expired:
            if self.directory is not None:
                (self.directory / name).unlink(missing_ok=True)
        self._expired.clear()

    def snapshot(self) -> list[str]:
        return [batch.mark.text for batch in self.batches]

    def restore(self, names: list[Any]) -> None:
        """Go on with the files that a commit names; others were left behind by a crash."""
        assert self.directory is not None
        for name in names:
            events = _mapped(self.directory / name)
            self.batches.append(Arrived(Mark.parse(name), pc.max(events.column(TIME)).as_py(), events))
        if self.directory.exists():
            self._expired += [path.name for path in self.directory.iterdir() if path.name not in names]


def _mapped(path: Path) -> pa.Table:
    return pa.ipc.open_stream(pa.memory_map(str(path))).read_all()


__all__ = ["Arrived", "Intake"]
