"""How many events of a batch there is memory for at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypedDict

from mullion.algebra.streams import Stream
from mullion.memory import Memory
from mullion.spark.batch_size import event_bytes, held_bytes
from mullion.spark.files import local_files


class RoomOfEvents(TypedDict):
    portion: int
    room: int
    most: Callable[[Collection[str]], int]


@dataclass(frozen=True)
class BatchRoom:
    stream: Stream
    memory: Memory
    tasks: int
    """So many run beside each other."""
    uris: Sequence[str]
    """The files of the batch, if it is files."""

    @property
    def parts(self) -> RoomOfEvents:
        """What events of a batch are told."""
        return {"portion": self.portion, "room": self.memory.task(self.tasks).usual, "most": self.most_rows}

    @property
    def portion(self) -> int:
        """Rows that the kernel takes at once."""
        return self.memory.portion_rows(event_bytes(self.stream.types, self._told_by), self.tasks)

    def most_rows(self, columns: Collection[str]) -> int:
        """Rows with some of their columns that the driver can hold."""
        asked = {name: type_ for name, type_ in self.stream.types.items() if name in columns}
        return self.memory.most_rows(held_bytes(asked, self._told_by))

    @property
    def _told_by(self) -> Sequence[str]:
        """The files whose footers tell how long texts are."""
        return (local_files(self.uris, self.uris) or []) if self.stream.format == "parquet" else []
