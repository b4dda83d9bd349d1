"""ORDER BY and LIMIT within an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mullion.aggregates.extremes import float_order
from mullion.expressions.arrays import Index
from mullion.expressions.coding.canonical import in_one_piece
from mullion.expressions.vector import Vector
from mullion.planner.sliced import AnswerTemplate
from mullion.slices.kernels.ranges import first_by_rank

MOST_HELD = 128
"""Up to this LIMIT the first rows of an answer are found without ordering the others."""

Ranks = Sequence[npt.NDArray[np.int64]]


def arrange(query: Index, table: pa.Table, template: AnswerTemplate) -> tuple[Index, pa.Table]:
    """The rows of several shards by query, window and the template's order, cut to its limit.

    Ties are broken by the keys, so that the same input gives the same rows however it was batched and sharded. The
    columns that only the order needs (#o.., #t.., #w) leave.
    """
    ends = np.asarray(in_one_piece(table.column("window_end").cast(pa.int64())))
    if template.is_plain:
        if is_ordered(query, ends):
            return query, table
        order = np.lexsort((ends, query))
        return query[order], table.take(pa.array(order))
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
    by_window = np.lexsort((window, ends, query))
    bounds = bounds_of_runs(query[by_window], window[by_window])
    order = by_window[order_within([rank[by_window] for rank in ranks], bounds, template.limit)]
    table = table.take(pa.array(order))
    return query[order], table.select([n for n in table.schema.names if not n.startswith("#")])


def is_ordered(query: Index, ends: npt.NDArray[np.int64]) -> bool:
    """Whether rows stand by query, and those of a query by end."""
    later = query[1:] > query[:-1]
    return bool((later | ((query[1:] == query[:-1]) & (ends[1:] >= ends[:-1]))).all())


def bounds_of_runs(*columns: npt.NDArray[np.integer[Any]]) -> Index:
    """Where rows that are equal in all columns begin, and where the last ones end."""
    if not len(columns[0]):
        return np.zeros(1, np.intp)
    new = np.ones(len(columns[0]), np.bool_)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.append(np.flatnonzero(new), len(new))


def order_within(ranks: Ranks, bounds: Index, limit: int | None) -> Index:
    """The rows of each answer by ranks, at most `limit` of them; answers stay where they are."""
    length = int(bounds[-1])
    if ranks and _are_in_order(ranks[-1], bounds):
        ranks = ranks[:-1]  # rows of equal ranks stay as they stand
    if limit is None and not ranks:
        return np.arange(length)
    if not ranks:
        ranks = [np.zeros(length, np.int64)]
    if limit is not None and limit <= MOST_HELD:
        sizes = np.minimum(np.diff(bounds), limit)
        chosen = np.empty(int(sizes.sum()), np.intp)
        if limit:
            together = np.stack(ranks) if len(ranks) > 1 else ranks[0][np.newaxis]
            first_by_rank(np.ascontiguousarray(together), bounds, limit, chosen)
        return chosen
    answer = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    order = np.lexsort((*reversed(ranks), answer))
    if limit is not None:
        order = order[np.arange(length) - np.repeat(bounds[:-1], np.diff(bounds)) < limit]
    return order


def _are_in_order(ranks: npt.NDArray[np.int64], bounds: Index) -> bool:
    """Whether the rows of each answer stand in the order of their ranks."""
    later = ranks[1:] >= ranks[:-1]
    later[bounds[1:-1] - 1] = True
    return bool(later.all())


def rank_of_keys(keys: Sequence[pa.Array], length: int) -> npt.NDArray[np.int64]:
    """The rank of each of some different rows by its columns, NULLs first."""
    rank = np.empty(length, np.int64)
    order = np.lexsort([ranked(key, descending=False, nulls_first=True) for key in reversed(keys)])
    rank[order] = np.arange(length)
    return rank


def ranks_of(vector: Vector, *, descending: bool, nulls_first: bool) -> Ranks:
    """Columns of whole numbers in the order asked for."""
    if vector.values.dtype.kind in "OV":
        return [ranked(vector.to_arrow(), descending=descending, nulls_first=nulls_first)]
    numbers = float_order(vector.values) if vector.values.dtype.kind == "f" else vector.values.astype(np.int64)
    numbers = ~numbers if descending else numbers
    if vector.valid.all():
        return [numbers]
    return [(vector.valid if nulls_first else ~vector.valid).astype(np.int64), np.where(vector.valid, numbers, 0)]


def ranked(column: pa.Array | pa.ChunkedArray, *, descending: bool, nulls_first: bool) -> npt.NDArray[np.int64]:
    """Whole numbers in the order asked for; NaN is larger than any number, as in Spark."""
    array = in_one_piece(column)
    valid = np.asarray(array.is_valid())
    if pa.types.is_floating(array.type):
        array = pa.array(float_order(np.asarray(array.fill_null(0.0))), mask=~valid)
    elif pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    rank = np.asarray(pc.rank(array, tiebreaker="dense"), np.int64)
    edge = len(array) + 1
    return np.where(valid, -rank if descending else rank, -edge if nulls_first else edge)
