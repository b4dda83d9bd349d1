"""Rows of several tables that are counted through, by their numbers.

    tables   [ 0 1 2 ][ 3 4 ][ 5 6 7 8 ]
    index    7 1 5 1               1 1 of the first table, 5 7 of the third, then back in the order that is asked for

Arrow makes one table of all of them first, which costs the rows of all. Where these are many and few are asked for,
each table is asked for its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Index

COPIED = 1 << 14
"""So many rows are copied in the time that it takes to ask one more table. Measured with 3 to 12 columns."""
SORTED = 32
"""So many rows are copied in the time that it takes to find the table of one row, and its place among the others."""


def picked(tables: Sequence[pa.Table], index: Index) -> pa.Table:
    """These rows, in this order. There is at least one table.

    >>> picked([pa.table({"x": [10, 11]}), pa.table({"x": [12]})], np.array([2, 0, 2]))["x"].to_pylist()
    [12, 10, 12]
    """
    if len(tables) == 1:
        return tables[0].take(pa.array(index))
    offsets = np.cumsum([0, *map(len, tables)])
    if offsets[-1] <= COPIED:
        return pa.concat_tables(tables).take(pa.array(index))
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    bounds = np.searchsorted(ordered, offsets)
    asked = np.flatnonzero(np.diff(bounds)).tolist()
    if offsets[-1] <= COPIED * len(asked) + SORTED * len(index):
        return pa.concat_tables(tables).take(pa.array(index))
    parts = [tables[i].take(pa.array(ordered[bounds[i] : bounds[i + 1]] - offsets[i])) for i in asked]
    together = pa.concat_tables(parts or [tables[0].slice(0, 0)])
    back = np.empty(len(index), np.intp)
    back[order] = np.arange(len(index))
    return together.take(pa.array(back))
