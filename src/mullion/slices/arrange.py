"""ORDER BY and LIMIT within an answer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mullion.aggregates.extremes import float_order
from mullion.expressions.arrays import Index
from mullion.planner.sliced import AnswerTemplate


def arrange(query: Index, table: pa.Table, template: AnswerTemplate, *, final: bool = True) -> tuple[Index, pa.Table]:
    """The rows by query, window and the template's order, cut to its limit.

    Ties are broken by the keys, so that the same input gives the same rows however it was batched and sharded. The
    columns that only the order needs (#o.., #t.., #w) leave when `final`.
    """
    ends = np.asarray(table.column("window_end").cast(pa.int64()).combine_chunks())
    if template.is_plain:
        order = np.lexsort((ends, query))
        in_order = bool((order[1:] > order[:-1]).all()) if len(order) else True
        return (query, table) if in_order else (query[order], table.take(pa.array(order)))
    ranks = [
        ranked(table.column(f"#o{i}"), descending=o.descending, nulls_first=o.nulls_first)
        for i, o in enumerate(template.order_by)
    ]
    ranks += [
        ranked(table.column(name), descending=False, nulls_first=True)
        for name in table.schema.names
        if name.startswith("#t")
    ]
    window = ends
    if "#w" in table.schema.names:
        window = np.asarray(table.column("#w").combine_chunks(), np.int64)
    order = np.lexsort((*reversed(ranks), window, ends, query))
    if template.limit is not None and len(order):
        answer = np.concatenate([[0], np.cumsum((np.diff(query[order]) != 0) | (np.diff(window[order]) != 0))])
        first = np.searchsorted(answer, answer)
        order = order[np.arange(len(order)) - first < template.limit]
    table = table.take(pa.array(order))
    if final:
        table = table.select([n for n in table.schema.names if not n.startswith("#")])
    return query[order], table


def ranked(column: pa.ChunkedArray, *, descending: bool, nulls_first: bool) -> npt.NDArray[np.int64]:
    """Whole numbers in the order asked for; NaN is larger than any number, as in Spark."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    valid = np.asarray(array.is_valid())
    if pa.types.is_floating(array.type):
        array = pa.array(float_order(np.asarray(array.fill_null(0.0))), mask=~valid)
    elif pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    rank = np.asarray(pc.rank(array, tiebreaker="dense"), np.int64)
    edge = len(array) + 1
    return np.where(valid, -rank if descending else rank, -edge if nulls_first else edge)
