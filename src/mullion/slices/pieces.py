"""The sub-windows that a window is made of, each to be read for itself, while others come and go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mullion.planner.plan import Grouping
from mullion.planner.sliced import SlicedAggregation
from mullion.slices.subwindow import PartialSubWindows, as_one_slice

LEAST_ROWS = 1 << 12
"""Fewer rows are taken as they are: to go over them once more at the end costs less."""
MOST_ROWS = 1 << 16
"""Rows of a piece, unless one slice has more: where many batches were merged, a window that slides cuts into few of
their rows."""


@dataclass(frozen=True, eq=False)
class Piece:
    """The rows of an entry in [low, high). Two are the same if they are of the same entry and bounds."""

    entry: PartialSubWindows
    low: int
    high: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Piece):
            return NotImplemented
        return self.entry is other.entry and (self.low, self.high) == (other.low, other.high)

    def __hash__(self) -> int:
        return hash((id(self.entry), self.low, self.high))

    def read(self, query: SlicedAggregation, grouping: Grouping) -> PartialSubWindows:
        """What the question needs of it, as one slice if that is much less."""
        entry = self.entry
        is_whole = self.low <= entry.oldest and self.high > entry.newest
        rows = entry if is_whole else entry.within(self.low, self.high)
        if len(rows.slices) < LEAST_ROWS:
            return rows
        return as_one_slice(rows, query.slot.name, grouping.states, self.low)


def pieces(entries: Iterable[PartialSubWindows], groupings: Sequence[str], start: int, end: int) -> list[Piece]:
    """The pieces of a window, the oldest first. Cutting the window elsewhere changes those at its ends alone."""
    cut = [
        piece
        for entry in entries
        if entry.grouping in groupings and entry.oldest < end and entry.newest >= start
        for piece in _cut(entry, start, end)
    ]
    return sorted(cut, key=lambda piece: (piece.high, piece.low))


def _cut(entry: PartialSubWindows, start: int, end: int) -> Iterator[Piece]:
    _, slices = entry.by_slice
    bounds = np.unique(slices[::MOST_ROWS]).tolist()
    for low, high in zip(bounds, [*bounds[1:], entry.newest + 1], strict=True):
        if low < end and high > start:
            yield Piece(entry, max(low, start), min(high, end))
