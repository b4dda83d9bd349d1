"""Expressions over the rows of a relation. What several operators compute over the same rows is computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from mullion.algebra.column_names import names_in
from mullion.expressions.arrays import Mask
from mullion.expressions.coding.hashes import Keys, keys_of
from mullion.expressions.vector import arrow_type
from mullion.kernels.columns import BatchColumns
from mullion.language.query import Column, Expr
from mullion.language.types import Type
from mullion.operators.timed_rows import TimedRows

KeyFunction = Callable[[pa.Table], Keys]


def is_true(predicate: Expr, timed: TimedRows, types: Mapping[str, Type]) -> Mask:
    """The rows for which a predicate is true, and not false or NULL."""
    found = _columns(timed.decoded, timed.rows, types, [predicate]).value(predicate)
    return found.values & found.valid


def computed(expr: Expr, timed: TimedRows, types: Mapping[str, Type]) -> pa.Array | pa.ChunkedArray:
    """The values of an expression."""
    if isinstance(expr, Column):
        return timed.rows.column(expr.name)
    return _plain(_columns(timed.decoded, timed.rows, types, [expr]).array(expr))


def _columns(
    decoded: BatchColumns, rows: pa.Table, types: Mapping[str, Type], expressions: Sequence[Expr]
) -> BatchColumns:
    for name in names_in(*expressions):
        if name not in decoded:
            decoded.add(name, rows.column(name), types[name])
    return decoded


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def key_function(keys: Sequence[Expr], types: Mapping[str, Type], *, null_is_value: bool = False) -> KeyFunction:
    """What gives the keys of rows."""

    def keys_of_rows(rows: pa.Table) -> Keys:
        decoded = _columns(
            BatchColumns(rows.num_rows), rows, types, [key for key in keys if not isinstance(key, Column)]
        )
        found = [rows.column(key.name) if isinstance(key, Column) else decoded.array(key) for key in keys]
        return keys_of(found, rows.num_rows, null_is_value=null_is_value)

    return keys_of_rows


def schema_of(columns: Iterable[tuple[str, Type]]) -> pa.Schema:
    return pa.schema([(name, arrow_type(type_)) for name, type_ in columns])
