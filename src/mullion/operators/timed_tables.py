"""Rows with lifetimes as one table: the form in which state is kept and saved.

a  b  ...   #id0  #id1 ...   #start  #end   #held
the rows    their ids        their times    only where INTERNAL windows release rows before they end
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import numbers
from mullion.operators.timed_rows import TimedRows

START, END, HELD = "#start", "#end", "#held"
_ID = "#id"


def id_names(width: int) -> list[str]:
    return [f"{_ID}{i}" for i in range(width)]


def as_table(rows: TimedRows) -> pa.Table:
    numbers = [*rows.ids.T, rows.start, rows.end]
    names = [*rows.rows.column_names, *id_names(rows.ids.shape[1]), START, END]
    if rows.held_until is not None:
        numbers.append(rows.held_until)
        names.append(HELD)
    return pa.Table.from_arrays([*rows.rows.columns, *map(pa.array, numbers)], names)


def from_table(table: pa.Table) -> TimedRows:
    """The rows that `as_table` made a table of, whatever the order of its columns."""
    names = table.column_names
    ids = np.column_stack([numbers(table, name) for name in names if name.startswith(_ID)])
    own = [name for name in names if name not in (START, END, HELD) and not name.startswith(_ID)]
    held = numbers(table, HELD) if HELD in names else None
    return TimedRows(table.select(own), ids, numbers(table, START), numbers(table, END), held)
