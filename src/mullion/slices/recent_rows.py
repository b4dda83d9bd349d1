"""The newest rows of some columns, in arrays that are only ever appended to."""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Array


class RecentRows:
    """Row r, counted from 1, stands at columns[c][r - 1 - before]; the last `rows` of `seen` rows are always there.

    A copy shares the arrays. It may be appended to while others read what it was copied from: rows that are there never
    change, and new ones stand beyond the end of what the others know. So only the newest copy may be appended to.

    Time: amortised O(1) a row. Space: room for twice the rows, and the newest batch.

    >>> recent = RecentRows(2, np.int64)
    >>> recent.append(np.array([7, 8, 9]))
    True
    >>> shared = recent.copy()
    >>> shared.append(np.array([10]))
    False
    >>> recent.last(2)[0].tolist(), shared.last(2)[0].tolist()
    ([8, 9], [9, 10])
    """

    def __init__(self, rows: int, *types: npt.DTypeLike, step: int = 1) -> None:
        """`before` is always a multiple of `step`."""
        self.rows, self.seen, self.before = rows, 0, 0
        self._step = step
        self.columns: list[Array] = [np.empty(0, type_) for type_ in types]

    def copy(self) -> Self:
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        copied.columns = list(self.columns)
        return copied

    def append(self, *columns: Array) -> bool:
        """Take in rows; returns whether the rows before moved to other places."""
        end, number = self.seen - self.before, len(columns[0])
        moves = end + number > len(self.columns[0])
        if moves:
            gone = max(0, end - self.rows) // self._step * self._step
            kept = end - gone
            room = kept + number + max(kept, 64)
            for i, column in enumerate(self.columns):
                self.columns[i] = np.empty(room, column.dtype)
                self.columns[i][:kept] = column[gone:end]
            self.before += gone
            end = kept
        for own, new in zip(self.columns, columns, strict=True):
            own[end : end + number] = new
        self.seen += number
        return moves

    def last(self, rows: int) -> list[Array]:
        """The columns of the last so many rows, or of all that are there."""
        end = self.seen - self.before
        return [column[max(0, end - rows) : end] for column in self.columns]
