"""The numbers of rows that promising joins and selections know them by, and what rows promise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mullion.algebra.column_names import names_read
from mullion.algebra.nodes import Promising
from mullion.algebra.nodes.promising import ESTIMATE
from mullion.expressions.arrays import Codes, Counts, Index, numbers
from mullion.expressions.vector import Vector
from mullion.kernels.columns import BatchColumns
from mullion.language.types import BIGINT
from mullion.operators.keyed_sub_window import KeyedSubWindow
from mullion.operators.timed_rows import TimedRows

NUMBER = "#number"
"""The column of rows that are kept for the number in which they came."""


def numbered(rows: TimedRows, first: int) -> TimedRows:
    """Rows with the numbers in which they came, in the order of their starts."""
    number = np.empty(len(rows), np.int64)
    number[np.argsort(rows.start, kind="stable")] = first + np.arange(len(rows))
    return rows.with_rows(rows.rows.append_column(NUMBER, pa.array(number)))


def numbers_of(windows: Sequence[KeyedSubWindow]) -> Codes:
    """The numbers of the rows of sub-windows, one after the other."""
    found = [number_of(window) for window in windows]
    return found[0] if len(found) == 1 else np.concatenate([np.zeros(0, np.int64), *found])


def number_of(window: KeyedSubWindow) -> Codes:
    """The numbers of the rows of a sub-window."""
    if "number" not in window.memo:
        window.memo["number"] = numbers(window.rows, NUMBER)
    found: Codes = window.memo["number"]
    return found


def numbered_rows(window: KeyedSubWindow, wanted: Codes) -> tuple[Index, Index]:
    """The rows of a sub-window that have some numbers, in their order, and which of the numbers each has."""
    if "by number" not in window.memo:
        order = np.argsort(number_of(window))
        window.memo["by number"] = order, number_of(window)[order]
    order, known = window.memo["by number"]
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    which = np.flatnonzero(known[place] == wanted)
    rows = order[place[which]]
    in_order = np.argsort(rows, kind="stable")
    return rows[in_order], which[in_order]


def promise_of(node: Promising, i: int, rows: pa.Table, met: Counts) -> Vector:
    """What each row of input i promises when so many meet it, or are like it."""
    columns = BatchColumns(len(rows))
    columns.add(ESTIMATE, pa.array(met), BIGINT)
    return promise_value(node, i, rows, columns)


def promise_value(node: Promising, i: int, rows: pa.Table, columns: BatchColumns) -> Vector:
    """The same where the estimate is one of the columns, and others may be."""
    promise, types = node.promises[i], node.parts[i].types
    for name in names_read(promise):
        if name not in columns:
            columns.add(name, rows.column(name), types[name])
    return columns.value(promise)
