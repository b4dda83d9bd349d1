"""Codes for the values of one batch: dense, from 0 on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mullion.expressions.arrays import Codes, Index
from mullion.expressions.coding.canonical import canonical, in_one_piece
from mullion.expressions.vector import Vector
from mullion.language.types import Type


def codes_of(column: pa.Array | pa.ChunkedArray) -> tuple[Codes, int]:
    """A number for each distinct value, NULL being one of them, and how many there are."""
    column = in_one_piece(column)
    if pa.types.is_dictionary(column.type):
        codes, size = codes_of(pa.concat_arrays([column.dictionary, pa.nulls(1, column.dictionary.type)]))
        indices = column.indices.fill_null(len(column.dictionary)) if column.null_count else column.indices
        at = np.asarray(indices, np.int64)
        are_different = size == len(codes)  # then they are numbered as they stand
        return at if are_different else codes[at], size
    encoded = canonical(column).dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices, np.int64), len(encoded.dictionary)


def ordered_codes(column: pa.Array | pa.ChunkedArray, type_: Type) -> tuple[Codes, Vector]:
    """The rank of each value among the different ones, and these in ascending order. A NULL has the code -1.

    The order is Spark's: NaN is the largest, -0.0 equals 0.0, strings go by their UTF-8 bytes.

    >>> from mullion.language.types import STRING
    >>> codes, values = ordered_codes(pa.array(["b", "a", None, "b"]), STRING)
    >>> codes.tolist(), values.to_list()
    ([1, 0, -1, 1], ['a', 'b'])
    """
    column = in_one_piece(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    encoded = canonical(column).dictionary_encode()
    order = np.asarray(pc.array_sort_indices(encoded.dictionary), np.int64)
    rank = np.empty(len(order) + 1, np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = -1
    codes = rank[np.asarray(encoded.indices.fill_null(len(order)), np.int64)]
    return codes, Vector.from_arrow(encoded.dictionary.take(pa.array(order)), type_)


def row_codes(rows: pa.Table) -> Codes:
    """A number for each different row, as DISTINCT has it.

    >>> row_codes(pa.table({"x": [0.0, -0.0, None, float("nan"), None], "y": [1, 1, 2, 2, 2]})).tolist()
    [0, 0, 1, 2, 1]
    """
    return combine([codes_of(column) for column in rows.columns], len(rows))[0]


def combine(columns: Sequence[tuple[Codes, int]], length: int) -> tuple[Codes, int]:
    """Numbers for the distinct rows of several coded columns, and how many there are; dense, in the order of the
    first column's codes, then of the second's, and so on."""
    if not columns:
        return np.zeros(length, np.int64), 1 if length else 0
    codes, size = columns[0]
    for more, width in columns[1:]:
        if size * width >= 2**62:
            codes, size = _dense(codes, size)
        codes, size = codes * width + more, size * width
    if len(columns) > 1:
        codes, size = _dense(codes, size)
    return codes, size


SPARSE = 8
"""Up to so many possible codes for each that there is, codes are made dense by a table."""


def is_sparse(size: int, length: int) -> bool:
    """Whether so many possible codes are too many for a table, where there are so many codes."""
    return size > SPARSE * length + (1 << 16)


def _dense(codes: Codes, size: int) -> tuple[Codes, int]:
    if not is_sparse(size, len(codes)):
        occurs = np.zeros(size, np.bool_)
        occurs[codes] = True
        rank = np.cumsum(occurs) - 1
        return rank[codes], int(rank[-1]) + 1 if size else 0
    distinct, dense = np.unique(codes, return_inverse=True)
    return dense.astype(np.int64), len(distinct)


def runs(codes: npt.NDArray[np.integer[Any]]) -> tuple[Index | slice, Index]:
    """How to bring equal codes together: an order, and where each run of equals starts in it."""
    order: Any = slice(None)
    if len(codes) > 1 and not (codes[1:] >= codes[:-1]).all():
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]])) if len(codes) else np.empty(0, np.intp)
    return order, starts


def without_unused(column: pa.Array) -> pa.Array:
    """The same column; where its dictionary has more values than it has rows, with those that it needs.

    >>> coded = pa.DictionaryArray.from_arrays([2, 2], ["a", "b", "c"])
    >>> without_unused(coded).dictionary.to_pylist()
    ['c']
    """
    if not pa.types.is_dictionary(column.type) or len(column.dictionary) <= len(column):
        return column
    return column.dictionary_decode().dictionary_encode()


def decoded(rows: pa.Table) -> pa.Table:
    """The same rows without dictionaries."""
    present = rows.schema
    schema = decoded_schema(present)
    if schema is present:
        return rows
    plain = [
        pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], field.type)
        if pa.types.is_dictionary(column.type)
        else column
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.table(plain, schema=schema)


def coded(values: pa.Array, index: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """The values at these places: as codes where they are fewer than the places, so that nothing is copied.

    >>> coded(pa.array(["a", "b"]), np.array([1, 0, 1])).type, coded(pa.array(["a", "b"]), np.array([1])).type
    (DictionaryType(dictionary<values=string, indices=int64, ordered=0>), DataType(string))
    """
    at = pa.array(index)
    return pa.DictionaryArray.from_arrays(at, values, safe=False) if len(values) < len(at) else values.take(at)


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    if not any(map(pa.types.is_dictionary, schema.types)):
        return schema
    return pa.schema(
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema
    )
