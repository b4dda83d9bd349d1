"""The index as it was after one update: a list of versions of its sub-indices, which readers hold on to."""

from __future__ import annotations

from dataclasses import dataclass

from mullion.storage.lifetime_index.sub_index import IndexSpec, SubIndex


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Reads go to all sub-indices (golab 4.3.2)."""

    spec: IndexSpec
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
