"""The state of a join of windows of time, when the windows become longer or shorter.

A row that came at ts leaves a window of length r at ts + r, so its end can be told anew from its start. Rows that had
already left a shorter window are missing in a longer one: no answer of those who need it sees them, since their
windows began later.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mullion.operators.base import Parts
from mullion.operators.sub_window import END, START


def with_lengths(parts: Parts, lengths: Sequence[int]) -> Parts:
    """The state of a join whose input i has a window of lengths[i]."""
    found = dict(parts)
    for i, length in enumerate(lengths):
        found[f"{i}.rows"] = [_with_length(table, length) for table in parts.get(f"{i}.rows", ())]
    return found


def _with_length(table: pa.Table, length: int) -> pa.Table:
    ends = table.column(START).to_numpy() + length
    if np.array_equal(ends, table.column(END).to_numpy()):
        return table
    return table.set_column(table.column_names.index(END), END, pa.array(ends))


__all__ = ["with_lengths"]
