"""Values that are equal exactly where Spark groups them together: all NaNs are one, and so are both zeros."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Array, Whole


def in_one_piece(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return (column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column).combine_chunks()


def canonical(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column whose values are equal where they should be. Lists, such as those of top_k, are given as texts."""
    column = in_one_piece(column)
    if pa.types.is_floating(column.type):
        return canonical_floats(column)
    if pa.types.is_nested(column.type):
        return pa.array([None if item is None else repr(item) for item in column.to_pylist()], pa.string())
    return column


def canonical_floats(column: pa.Array) -> pa.Array:
    valid = np.asarray(column.is_valid())
    values = _canonical(np.array(column.fill_null(0.0).to_numpy(zero_copy_only=False)))
    return pa.array(values, type=column.type, mask=None if valid.all() else ~valid)


def is_whole(kind: pa.DataType) -> bool:
    """Whether values of the type fit into whole numbers of 64 bits, as `whole_numbers` has them."""
    whole = pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind)
    return bool(whole or pa.types.is_floating(kind))


def whole_numbers(column: pa.Array) -> Whole:
    """Numbers, times and booleans as whole numbers that are equal where the values are; 0 where they are NULL.

    >>> whole_numbers(pa.array([0.0, -0.0, None])).tolist(), whole_numbers(pa.array([True, False])).tolist()
    ([0, 0, 0], [1, 0])
    """
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_date32(kind):
        column = column.view(pa.int32())
    elif pa.types.is_temporal(kind):
        unit = pa.duration("us") if pa.types.is_duration(kind) else pa.timestamp("us", kind.tz)
        column = column.cast(unit).view(pa.int64())
    filled = column.fill_null(0) if column.null_count else column
    return bits(filled.to_numpy(zero_copy_only=False))


def bits(values: Array) -> Whole:
    """The same for numbers: whole ones as they are, others by their bits.

    >>> bool(np.equal(*bits(np.array([np.nan, -np.nan]))))
    True
    """
    if values.dtype.kind != "f":
        return values.astype(np.int64, copy=False)
    return _canonical(values).view(f"i{values.dtype.itemsize}").astype(np.int64, copy=False)


def _canonical(values: Array) -> Array:
    values = values + values.dtype.type(0.0)
    values[np.isnan(values)] = np.nan
    return values
