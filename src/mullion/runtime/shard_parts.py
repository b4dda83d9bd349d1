"""A shard's files in parts of its groups, so that only some of them are at work at once.

    file of batch 1   | 03.. 1a.. | 2b.. 4c.. 77.. | 80.. c1.. |      rows in the order of a hash of their group
    file of batch 2   | 11..      | 4c.. 5d..      | 80.. 99.. |
                        part 0       part 1          part 2

All rows of a group lie in one part. Files are mapped, and of their columns only the pages of a part are read. Those of
earlier versions are in no order: the rows of a part are gathered then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.expressions.arrays import Index
from mullion.expressions.coding.hashes import keys_of
from mullion.planner.plan import Grouping
from mullion.slices.answering_room import needed
from mullion.slices.subwindow import PartialSubWindows, with_used_codes
from mullion.storage.files import mapped

_HALF = np.uint64(32)


def by_group(table: pa.Table, grouping: Grouping) -> pa.Table:
    """The rows of sub-windows in the order of their groups' hashes."""
    return table.take(pa.array(np.argsort(_hashes(table, len(grouping.group_keys)), kind="stable")))


def _hashes(table: pa.Table, keys: int) -> npt.NDArray[np.uint64]:
    """32 bits of each group, the same whatever the columns look like."""
    columns = [table.column(f"key{i}") for i in range(keys)]
    return keys_of(columns, len(table), null_is_value=True).codes.view(np.uint64) >> _HALF


@dataclass(frozen=True)
class ShardFile:
    """A file of a shard, and the grouping of its rows."""

    path: Path
    grouping: Grouping

    def needed(self) -> int:
        """Bytes that are at work when windows are answered from all of it."""
        table = mapped(self.path)
        return needed(table.nbytes, len(table), self.grouping)

    def cut(self, parts: int) -> CutFile:
        table = mapped(self.path)
        number = (_hashes(table, len(self.grouping.group_keys)) * np.uint64(parts)) >> _HALF
        order = None
        if not (number[1:] >= number[:-1]).all():
            order = np.argsort(number, kind="stable")
            number = number[order]
        bounds = np.searchsorted(number, np.arange(parts + 1, dtype=np.uint64))
        return CutFile(self, table.nbytes / max(1, len(table)), order, bounds)


@dataclass(frozen=True)
class CutFile:
    """Where the parts of a file are."""

    file: ShardFile
    row_bytes: float
    order: Index | None
    """Its rows by part, where they do not stand in this order."""
    bounds: Index

    def needed(self) -> npt.NDArray[np.int64]:
        """Bytes that are at work when windows are answered from each part."""
        rows = np.diff(self.bounds)
        return np.array([needed(int(n * self.row_bytes), n, self.file.grouping) for n in rows.tolist()], np.int64)

    def read(self, part: int) -> PartialSubWindows | None:
        low, high = self.bounds[part : part + 2].tolist()
        if low == high:
            return None
        table = mapped(self.file.path)
        rows = table.slice(low, high - low) if self.order is None else table.take(pa.array(self.order[low:high]))
        return PartialSubWindows(with_used_codes(rows))


@dataclass(frozen=True)
class GroupParts:
    """All files of a shard, cut alike."""

    files: list[CutFile]
    count: int

    @staticmethod
    def of(files: Sequence[ShardFile], room: int | None) -> GroupParts:
        """In as many parts as it takes for each to need no more than the room, if groups are about equal."""
        whole = 0 if room is None else sum(file.needed() for file in files)
        count = 1 if room is None else max(1, -(-whole // max(1, room)))
        return GroupParts([file.cut(count) for file in files], count)

    @property
    def largest(self) -> int:
        """Bytes that the largest part needs."""
        return int(sum((file.needed() for file in self.files), np.zeros(self.count, np.int64)).max())

    def read(self, part: int) -> list[PartialSubWindows]:
        read = (file.read(part) for file in self.files)
        return [entry for entry in read if entry is not None]
