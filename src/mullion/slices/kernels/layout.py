"""The columns of partials, and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.expressions.vector import arrow_type
from mullion.language.types import Type
from mullion.planner.plan import ROWS, Grouping
from mullion.slices.kernels.signature import bytes_for

SLOT = "lane"
"""The column that numbers the predicate slot of dense rows. Checkpoints have it under this name."""

Nulls = Callable[[int, pa.DataType], pa.Array]


def partial_schema(grouping: Grouping, method: str) -> pa.Schema:
    """The columns of a grouping's partials."""
    states = tuple(state.partial.stored for state in grouping.states)
    bits = None if method == ROWS else len(grouping.bits)
    return _schema(bits, tuple(grouping.key_types), states, len(grouping.checks))


@lru_cache(maxsize=1 << 10)
def _schema(bits: int | None, keys: tuple[Type, ...], states: tuple[tuple[Type, ...], ...], checks: int) -> pa.Schema:
    """Every portion of a stream asks for the same ones. Dense rows have no bits."""
    whose = (SLOT, pa.int32()) if bits is None else ("signature", signature_type(bits))
    fields: list[tuple[str, pa.DataType]] = [("slice", pa.int64()), whose]
    fields += [(f"k{i}", key_type(t)) for i, t in enumerate(keys)]
    fields += [("events", pa.int64()), ("t_min", pa.int64()), ("t_max", pa.int64())]
    for i, stored in enumerate(states):
        fields += [(f"s{i}_{j}", arrow_type(t)) for j, t in enumerate(stored)]
    fields += [(f"bad{i}", pa.int64()) for i in range(checks)]
    return pa.schema(fields)


def key_type(type_: Type) -> pa.DataType:
    """The type of a key's column; texts are codes into a dictionary."""
    plain = arrow_type(type_)
    return pa.dictionary(pa.int32(), plain) if type_.kind in ("string", "binary") else plain


def signature_type(bits: int) -> pa.DataType:
    return pa.dictionary(pa.int32(), pa.binary(max(1, bytes_for(bits))))


def signature_array(numbers: npt.NDArray[Any], signatures: npt.NDArray[np.uint8]) -> pa.DictionaryArray:
    """Dense numbers of fragments, and the bit set of each."""
    width = max(1, signatures.shape[1])
    if not signatures.shape[1]:
        signatures = np.zeros((len(signatures), 1), np.uint8)
    body = pa.py_buffer(np.ascontiguousarray(signatures).tobytes())
    bits = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(signatures), [None, body])
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), bits)


def table_of(columns: Mapping[str, Any], schema: pa.Schema, nulls: Nulls) -> pa.Table:
    """A table of the schema; columns that are not there are NULL."""
    length = len(next(iter(columns.values())))
    arrays = []
    for f in schema:
        column = columns.get(f.name)
        if column is None:
            column = nulls(length, f.type)
        array = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
        arrays.append(array if array.type == f.type else array.cast(f.type))
    return pa.table(arrays, schema=schema)


def shared_nulls() -> Nulls:
    """NULLs of any number, of which the columns of a type share the largest array that was asked for."""
    largest: dict[pa.DataType, pa.Array] = {}

    def nulls(length: int, type_: pa.DataType) -> pa.Array:
        known = largest.get(type_)
        if known is None or len(known) < length:
            known = largest[type_] = pa.nulls(length, type_)
        return known[:length]

    return nulls
