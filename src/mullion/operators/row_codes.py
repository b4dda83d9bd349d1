"""Rows to numbers by their values, as DISTINCT has it: NULLs are equal, NaNs too, and zeros of either sign."""

from __future__ import annotations

import pyarrow as pa

from mullion.expressions.arrays import Codes
from mullion.expressions.encode import codes_of, combine


def value_codes(rows: pa.Table) -> Codes:
    """A number for each different row.

    >>> value_codes(pa.table({"x": [0.0, -0.0, None, float("nan"), None], "y": [1, 1, 2, 2, 2]})).tolist()
    [0, 0, 1, 2, 1]
    """
    coded = [codes_of(_flat(rows.column(i))) for i in range(rows.num_columns)]
    return combine(coded, len(rows))[0]


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Lists, such as those of top_k, as texts."""
    if not pa.types.is_nested(column.type):
        return column
    return pa.array([None if item is None else repr(item) for item in column.to_pylist()], pa.string())


__all__ = ["value_codes"]
