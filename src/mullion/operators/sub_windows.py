"""Sub-windows in a row, whose rows are counted through: what a store holds, or held at some moment of a step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Ids, Index, Times
from mullion.operators.keyed_sub_window import KeyedSubWindow
from mullion.operators.picking import COPIED, picked
from mullion.operators.timed_tables import START


class SubWindows:
    def __init__(self, windows: Sequence[KeyedSubWindow]) -> None:
        self.windows = list(windows)

    def offsets(self) -> Index:
        """The number of the first row of each sub-window, when rows are counted through."""
        return np.cumsum([0, *map(len, self.windows)])[:-1]

    def taken(self, index: Index, names: Sequence[str]) -> pa.Table:
        """Columns of rows counted through all sub-windows, #start among them."""
        of_tables = START in names
        return picked([(own.table if of_tables else own.rows).select(names) for own in self.windows], index)

    def ids_of(self, index: Index) -> Ids:
        """The ids of rows counted through all sub-windows."""
        if self.rows_held <= COPIED * len(self.windows):
            ids = [window.ids for window in self.windows]
            return (ids[0] if len(ids) == 1 else np.concatenate(ids)).take(index, axis=0)
        out = np.empty((len(index), self.windows[0].ids.shape[1]), np.int64)
        for window, offset in zip(self.windows, self.offsets().tolist(), strict=True):
            own = np.flatnonzero((index >= offset) & (index < offset + len(window)))
            out[own] = window.ids.take(index[own] - offset, axis=0)
        return out

    def starts(self) -> Times:
        return np.concatenate([np.zeros(0, np.int64), *(window.start for window in self.windows)])

    def ends(self) -> Times:
        return np.concatenate([window.end for window in self.windows])

    def meets(self, *, before_cuts: bool = False) -> Times:
        return np.concatenate([window.meets_before if before_cuts else window.meets for window in self.windows])

    @property
    def rows_held(self) -> int:
        return sum(map(len, self.windows))
