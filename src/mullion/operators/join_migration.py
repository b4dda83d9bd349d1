"""The state of a shared join, when its windows become longer or shorter and other rows are wanted.

A row that came at ts leaves a window of length r at ts + r, so its end follows from its start. Rows that no plan
selects any more are dropped, for views rely on it. Rows that had already left a shorter window, or that no plan
selected, are missing. No answer of the plans that select them now sees them, since the windows of these began later.
Columns that only plans of now read are NULL in rows of before, for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from mullion.algebra.column_names import conjunction, names_read
from mullion.algebra.nodes import Join
from mullion.expressions.vector import arrow_type
from mullion.kernels.columns import BatchColumns
from mullion.language.query import Expr
from mullion.language.types import Type
from mullion.operators.base import Parts
from mullion.operators.timed_tables import END, START


def refit_state(parts: Parts, join: Join) -> Parts:
    """The state of a join of this shape, as that of this join."""
    refitted = dict(parts)
    for i, (scan, predicates) in enumerate(join.time_windows() or ()):
        lasting = _without_dropped(parts.get(f"{i}.rows", ()), parts.get(f"{i}.cuts", ()))
        refitted[f"{i}.cuts"] = []
        tables = [_with_length(table, scan.window.range or 0) for table in lasting]
        wanted = [_wanted(table, predicates, scan.types) for table in tables]
        refitted[f"{i}.rows"] = [table for table in wanted if len(table)]
    return refitted


def _without_dropped(tables: Sequence[pa.Table], cuts: Sequence[pa.Table]) -> list[pa.Table]:
    """Rows of windows of time end as they promised, so that those which do not were dropped."""
    gone = [[row for cut in cuts for w, row in _places(cut) if w == i] for i in range(len(tables))]
    keep = [np.delete(np.arange(len(table)), rows) for table, rows in zip(tables, gone, strict=True)]
    kept = [t if len(rows) == len(t) else t.take(pa.array(rows)) for t, rows in zip(tables, keep, strict=True)]
    return [table for table in kept if len(table)]


def _places(cut: pa.Table) -> Iterator[tuple[int, int]]:
    return zip(cut["window"].to_pylist(), cut["row"].to_pylist(), strict=True)


def _with_length(table: pa.Table, length: int) -> pa.Table:
    ends = table.column(START).to_numpy() + length
    if np.array_equal(ends, table.column(END).to_numpy()):
        return table
    return table.set_column(table.column_names.index(END), END, pa.array(ends))


def _wanted(table: pa.Table, predicates: Sequence[Expr], types: Mapping[str, Type]) -> pa.Table:
    if not predicates:
        return table
    predicate = conjunction(predicates)
    columns = BatchColumns(len(table))
    for name in names_read(predicate):
        lacks = name not in table.column_names
        columns.add(name, pa.nulls(len(table), arrow_type(types[name])) if lacks else table.column(name), types[name])
    passes = columns.value(predicate)
    wanted = passes.values & passes.valid
    return table if wanted.all() else table.filter(pa.array(wanted))
