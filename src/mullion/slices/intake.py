"""The events that a stream hands on to relations, until all of them have passed.

    batch k --> intake/k --named by the stream's commit k--> relations take its events once, in the order of time
                         --all events before what every relation has committed--> removed

Each batch's events are one immutable table, a file when the stream has a checkpoint. A relation knows by its own commit
up to which event time it has taken everything, so after a crash it finds in the files exactly what it lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mullion.slices.kernels.partial import TIME
from mullion.storage.files import CommittedFiles, label_of, serialised
from mullion.storage.marks import Mark

FOLDER = "intake"


class Arrived(NamedTuple):
    """The events of a batch in the order of arrival."""

    mark: Mark
    newest: int
    events: pa.Table
    file: str = ""
    """Where they lie, if anywhere."""


@dataclass
class Intake:
    """What was handed on and is still needed, oldest batch first. Without files it is gone with the process."""

    files: CommittedFiles | None
    batches: list[Arrived] = field(default_factory=list)

    def add(self, mark: Mark, events: pa.Table) -> None:
        """The events of a batch with their time as `t`. A batch that is played again takes the place of itself."""
        self.batches = [batch for batch in self.batches if batch.mark != mark]
        if not len(events):
            return
        name = ""
        if self.files is not None:
            name = self.files.write(FOLDER, mark.text, serialised(events))
            events = self.files.map(name)
        self.batches.append(Arrived(mark, pc.max(events.column(TIME)).as_py(), events, name))

    def forget(self, taken: int) -> None:
        """Let go the batches of which every event is before a time."""
        self.batches = [batch for batch in self.batches if batch.newest >= taken]

    def snapshot(self) -> list[str]:
        """The files that a commit has to name."""
        return [batch.file for batch in self.batches]

    def restore(self, names: list[Any]) -> None:
        """Go on with the files that a commit names; others were left behind by a crash."""
        assert self.files is not None
        for name in names:
            events, label = self.files.map(name), label_of(name.removeprefix(f"{FOLDER}/"))
            self.batches.append(Arrived(Mark.parse(label or name), pc.max(events.column(TIME)).as_py(), events, name))


__all__ = ["Arrived", "Intake"]
