"""Sub-windows in a row, whose rows are counted through: what a store holds, or held at some moment of a step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Index, Times
from mullion.operators.keyed_sub_window import KeyedSubWindow


class SubWindows:
    def __init__(self, windows: Sequence[KeyedSubWindow]) -> None:
        self.windows = list(windows)

    def offsets(self) -> Index:
        """The number of the first row of each sub-window, when rows are counted through."""
        return np.cumsum([0, *map(len, self.windows)])[:-1]

    def taken(self, index: Index, names: Sequence[str]) -> pa.Table:
        """Columns of rows counted through all sub-windows, #id0.. and #start among them."""
        table = pa.concat_tables([window.table.select(names) for window in self.windows])
        return table.take(pa.array(index))

    def starts(self) -> Times:
        return np.concatenate([np.zeros(0, np.int64), *(window.start for window in self.windows)])

    def ends(self) -> Times:
        return np.concatenate([window.end for window in self.windows])

    def meets(self, *, before_cuts: bool = False) -> Times:
        return np.concatenate([window.meets_before if before_cuts else window.meets for window in self.windows])

    @property
    def rows_held(self) -> int:
        return sum(map(len, self.windows))
