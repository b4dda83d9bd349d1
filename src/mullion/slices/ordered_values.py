"""Values of any type to codes in their order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mullion.expressions.encode import canonical_floats
from mullion.expressions.vector import Vector
from mullion.language.types import Type


def ordered_values(column: pa.Array | pa.ChunkedArray, type_: Type) -> tuple[npt.NDArray[np.int64], Vector]:
    """The rank of each value among the different ones, and these in ascending order. A NULL has the code -1.

    The order is Spark's: NaN is the largest, -0.0 equals 0.0, strings go by their UTF-8 bytes.

    >>> from mullion.language.types import STRING
    >>> codes, values = ordered_values(pa.array(["b", "a", None, "b"]), STRING)
    >>> codes.tolist(), values.to_list()
    ([1, 0, -1, 1], ['a', 'b'])
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        column = canonical_floats(column)
    encoded = column.dictionary_encode()
    order = np.asarray(pc.array_sort_indices(encoded.dictionary), np.int64)
    rank = np.empty(len(order) + 1, np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = -1
    codes = rank[np.asarray(encoded.indices.fill_null(len(order)), np.int64)]
    return codes, Vector.from_arrow(encoded.dictionary.take(pa.array(order)), type_)
