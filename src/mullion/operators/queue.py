"""Rows that wait for their turn to leave: first in, first out.

    pop(7):  [3 5] [6 8 9]  ->  3 5 6 leave, [6 8 9] stays as it is with its first row skipped

The state of windows whose ends must be announced: they remember the ids of the rows inside, not their columns.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Ids, Times
from mullion.operators.base import Parts
from mullion.operators.merging import is_merged
from mullion.operators.timed_tables import id_names


class Queue:
    """Ids in the order of their turns, in immutable pieces."""

    kept_in: ClassVar[str] = "FIFO queue of ids"
    """The structure, in words for people."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.pieces: list[pa.Table] = []
        self.skipped = 0
        """So many rows of the first piece have left."""

    def __len__(self) -> int:
        return sum(map(len, self.pieces)) - self.skipped

    def append(self, ids: Ids, turns: Times) -> None:
        """Add rows at the end; turns never go back."""
        if not len(turns):
            return
        piece = pa.table([*ids.T, turns], names=[*id_names(self.width), "turn"])
        while len(self.pieces) > 1 and is_merged(len(self.pieces[-1]), len(piece)):
            piece = pa.concat_tables([self.pieces.pop(), piece]).combine_chunks()
        self.pieces.append(piece)

    def pop(self, upto: int) -> tuple[Ids, Times]:
        """Take out the rows whose turns are at most `upto`."""
        ids, turns = [np.zeros((0, self.width), np.int64)], [np.zeros(0, np.int64)]
        while self.pieces:
            own = self.pieces[0]["turn"].to_numpy()
            last = int(np.searchsorted(own, upto, "right"))
            leaving = self.pieces[0].slice(self.skipped, last - self.skipped)
            ids.append(np.column_stack([leaving[name].to_numpy() for name in id_names(self.width)]))
            turns.append(own[self.skipped : last])
            if last < len(own):
                self.skipped = last
                break
            self.pieces.pop(0)
            self.skipped = 0
        return np.concatenate(ids), np.concatenate(turns)

    def parts(self) -> Parts:
        return {"pieces": list(self.pieces), "skipped": [pa.table({"skipped": [self.skipped]})]}

    def restore(self, parts: Parts) -> None:
        self.pieces = list(parts["pieces"])
        self.skipped = parts["skipped"][0]["skipped"][0].as_py()
