"""What new rows offer a promising join: an entry for each row, and each granularity in which it meets rows of the other
input, with what it promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Promising
from mullion.algebra.nodes.promising import ESTIMATE
from mullion.expressions.arrays import Codes, Counts, Index, Times
from mullion.expressions.vector import Vector
from mullion.kernels.columns import Columns, names_read
from mullion.language.types import BIGINT
from mullion.operators.agenda import Entries
from mullion.operators.join_probe import Partial, count_met
from mullion.operators.keyed_sub_window import KeyedSubWindow
from mullion.operators.promise_orders import faded, promises
from mullion.operators.row_store import RowStore
from mullion.operators.timed_rows import TimedRows
from mullion.operators.timed_tables import numbers

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
    if "number" not in window.noted:
        window.noted["number"] = numbers(window.table, NUMBER)
    found: Codes = window.noted["number"]
    return found


def numbered_rows(window: KeyedSubWindow, wanted: Codes) -> tuple[Index, Index]:
    """The rows of a sub-window that have some numbers, in their order, and which of the numbers each has."""
    if "by number" not in window.noted:
        order = np.argsort(number_of(window))
        window.noted["by number"] = order, number_of(window)[order]
    order, known = window.noted["by number"]
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    which = np.flatnonzero(known[place] == wanted)
    rows = order[place[which]]
    in_order = np.argsort(rows, kind="stable")
    return rows[in_order], which[in_order]


def offers_of(node: Promising, i: int, fresh: KeyedSubWindow, other: RowStore, until: int, before: int) -> Entries:
    """The entries of new rows of input i, with rows of the other that came before number `until`, as far as both live
    after `before`: rows that a join below tells late meet what is there then."""
    ages = np.array(node.fading_ages(1 - i), np.int64)
    start = np.maximum(fresh.start, before)
    partial = replace(Partial.of(i, fresh), start=start)
    counts = np.zeros((len(fresh), len(ages) + 1), np.int64)
    for window in other.windows:
        counts += count_met(partial, window, ages)
    row, grain = np.nonzero(counts)
    value = promise_of(node, i, fresh.table, counts.sum(axis=1)).take(row)
    limits = _limits(other, start[row], ages, until)
    return Entries(
        np.full(len(row), i, np.int64),
        numbers_of([fresh])[row],
        limits[grain + 1, np.arange(len(row))],
        limits[grain, np.arange(len(row))],
        faded(promises(node.order, value), node.fade, grain),
        counts[row, grain],
        fresh.start[row],
        fresh.meets[row],
    )


def promise_of(node: Promising, i: int, rows: pa.Table, met: Counts) -> Vector:
    """What each row of input i promises when so many meet it, or are like it."""
    promise, types = node.promises[i], node.parts[i].types
    columns = Columns(len(rows))
    for name in names_read(promise):
        if name == ESTIMATE:
            columns.add(name, pa.array(met), BIGINT)
        else:
            columns.add(name, rows.column(name), types[name])
    return columns.value(promise)


def _limits(other: RowStore, start: Times, ages: Times, until: int) -> Codes:
    """For rows that start at some times, the numbers between which the rows of the other input came that each
    granularity holds then, the youngest granularity first."""
    limits = np.zeros((len(ages) + 2, len(start)), np.int64)
    limits[0] = until
    if len(ages) and len(start):
        number = numbers_of(other.windows)
        order = np.argsort(number)
        began = np.concatenate([window.start for window in other.windows])[order]
        number = np.append(number[order], until)
        for grain, age in enumerate(ages.tolist()):
            limits[grain + 1] = number[np.searchsorted(began, start - age, "right")]
    return limits
