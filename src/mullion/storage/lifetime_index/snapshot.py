"""The index as it was after one update: a list of versions of its sub-indices, which readers hold on to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mullion.storage.lifetime_index.rows import alive
from mullion.storage.lifetime_index.sub_index import Shape, SubIndex


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Reads go to all sub-indices (golab 4.3.2). They see rows with start <= at < end; `at` is never before the update,
    which has deleted what ended before it."""

    shape: Shape
    version: int
    now: int | None
    """When the last update was; None before the first."""
    subs: tuple[SubIndex, ...]

    @property
    def rows(self) -> int:
        return sum(sub.rows for sub in self.subs)

    @property
    def files(self) -> set[str]:
        return {name for sub in self.subs for name in sub.files}

    def search(self, values: Any, at: int | None = None) -> pa.Table:
        """The rows whose key is one of these values: an Arrow array, a list, or a single value."""
        if not isinstance(values, pa.Array | pa.ChunkedArray):
            listed = values if isinstance(values, list | tuple) else [values]
            values = pa.array(listed, self.shape.key_type)
        return self._there((sub.search(values) for sub in self.subs if sub.rows), at)

    def scan(self, at: int | None = None) -> pa.Table:
        """All rows."""
        return self._there(self.tables(), at)

    def tables(self) -> Iterator[pa.Table]:
        """All rows, some at a time, also those that ended since the update."""
        for sub in self.subs:
            yield from sub.tables()

    def _there(self, tables: Iterator[pa.Table], at: int | None) -> pa.Table:
        nothing = self.shape.stored.empty_table()
        if self.now is None:
            return nothing
        at = self.now if at is None else at
        if at < self.now:
            raise ValueError(f"the index was updated at {self.now}: what was there at {at} is no longer known")
        return pa.concat_tables([nothing, *(alive(table, at) for table in tables)])
