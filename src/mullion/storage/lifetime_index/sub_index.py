"""What sub-indices have in common: files that are not changed while a commit names them, and a directory in memory.

    version 7 --updated--> version 8        version 7 can still be read; a commit says which one counts

A sub-index is a collection of rows clustered by key, with a directory that tells where the rows of a key are (golab
4.4.1, Figure 4.3). An update of it makes a new version. Nothing that version 7 reads is overwritten, so readers go on
undisturbed, and a crash before the commit leaves version 7 in force.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Codes, Times
from mullion.storage.fault_points import fault_point
from mullion.storage.files import GrowingFile
from mullion.storage.lifetime_index.rows import Fresh

NO_ROWS = np.iinfo(np.int64).max


@dataclass(frozen=True)
class IndexSpec:
    """What all sub-indices of an index share."""

    directory: Path
    stored: pa.Schema
    """The columns, with the times."""
    key: str
    bucket_rows: int
    """Rows of a bucket of fixed size."""

    @property
    def key_type(self) -> pa.DataType:
        return self.stored.field(self.key).type


@dataclass(frozen=True)
class UpdateWork:
    """What an update of a sub-index did."""

    bytes_read: int = 0
    bytes_written: int = 0
    inserted: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class Change:
    """What an update asks of a sub-index."""

    now: int
    """Rows that end by now go."""
    fresh: Fresh | None
    """Rows that come."""
    gone: pa.Table | None
    """Rows go that equal one of these in all the columns that it has: unforeseen ends."""
    name: str
    """How the files of the new version begin."""


class SubIndex(ABC):
    """One version of a sub-index. Nothing of it changes."""

    kind: ClassVar[str]
    spec: IndexSpec
    rows: int
    soonest: int
    """The smallest end of a row; NO_ROWS without any."""

    @classmethod
    @abstractmethod
    def empty(cls, spec: IndexSpec, number: int) -> SubIndex:
        """Without rows. `number` identifies the sub-index within its index."""

    @classmethod
    @abstractmethod
    def load(cls, spec: IndexSpec, number: int, state: dict[str, Any]) -> SubIndex:
        """From what `to_json` gave."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Its files, for a commit."""

    @property
    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """The names of all files that it reads."""

    @abstractmethod
    def updated(self, change: Change, others: Sequence[SubIndex]) -> tuple[SubIndex, UpdateWork]:
        """The next version: itself when nothing changes. `others` are versions that are still read. Its files are
        written, but not synced to the disk."""

    @abstractmethod
    def search(self, keys: pa.Array) -> pa.Table:
        """The rows of these keys."""

    @abstractmethod
    def tables(self) -> Iterator[pa.Table]:
        """All rows, some at a time."""


def order_by_key_and_end(codes: Codes, end: Times) -> Times:
    """A stable order. One number for both where it fits: numpy merges what is sorted already in linear time."""
    if not len(codes):
        return np.zeros(0, np.int64)
    low, span = int(end.min()), int(end.max()) - int(end.min()) + 1
    if span * (int(codes.max()) + 1) < 1 << 62:
        return np.argsort(codes * span + (end - low), kind="stable")
    return np.lexsort((end, codes))


def write_file(
    directory: Path, label: str, suffix: str, schema: pa.Schema, tables: Iterable[pa.Table]
) -> tuple[str, int]:
    """Tables in a new Arrow file, each as one record batch; its name and size. The index waits for the disk, for all
    files of an update at once: the disk works on one while the next is made."""
    file = GrowingFile(directory, label, suffix)
    with pa.ipc.new_file(file, schema) as writer:
        for table in tables:
            writer.write_table(table.combine_chunks())
    name = file.finish()
    fault_point("index file")
    return name, file.size


def read_directory(path: Path) -> pa.Table:
    with path.open("rb") as file:
        return pa.ipc.open_file(file).read_all()
