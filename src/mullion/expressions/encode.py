"""Group keys to small whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.expressions.arrays import Codes


def codes_of(column: pa.Array | pa.ChunkedArray) -> tuple[Codes, int]:
    """A number for each distinct value, NULL being one of them, and how many there are."""
    if isinstance(column, pa.ChunkedArray):
        column = (column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column).combine_chunks()
    if pa.types.is_dictionary(column.type):
        codes, size = codes_of(pa.concat_arrays([column.dictionary, pa.nulls(1, column.dictionary.type)]))
        return codes[np.asarray(column.indices.fill_null(len(column.dictionary)), np.int64)], size
    if pa.types.is_floating(column.type):
        column = canonical_floats(column)
    encoded = column.dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return np.asarray(encoded.indices, np.int64), len(encoded.dictionary)


def canonical_floats(column: pa.Array) -> pa.Array:
    """-0.0 and 0.0 are one group, and so are all NaNs, as Spark groups them."""
    valid = np.asarray(column.is_valid())
    values = np.array(column.fill_null(0.0).to_numpy(zero_copy_only=False)) + column.type.to_pandas_dtype()(0.0)
    values[np.isnan(values)] = np.nan
    return pa.array(values, type=column.type, mask=None if valid.all() else ~valid)


def combine(columns: Sequence[tuple[Codes, int]], length: int) -> tuple[Codes, int]:
    """Numbers for the distinct rows of several coded columns, and how many there are; dense, in no set order."""
    if not columns:
        return np.zeros(length, np.int64), 1 if length else 0
    codes, size = columns[0]
    for more, width in columns[1:]:
        if size * width >= 2**62:
            codes, size = _dense(codes)
        codes, size = codes * width + more, size * width
    if len(columns) > 1:
        codes, size = _dense(codes)
    return codes, size


def _dense(codes: Codes) -> tuple[Codes, int]:
    distinct, dense = np.unique(codes, return_inverse=True)
    return dense.astype(np.int64), len(distinct)


def runs(codes: Codes) -> tuple[npt.NDArray[np.intp] | slice, npt.NDArray[np.intp]]:
    """How to bring equal codes together: an order, and where each run of equals starts in it."""
    order: Any = slice(None)
    if len(codes) > 1 and not (codes[1:] >= codes[:-1]).all():
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]])) if len(codes) else np.empty(0, np.intp)
    return order, starts
