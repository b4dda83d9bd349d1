"""Different rows as small numbers, as long as they are needed.

    codes([b, a, b]) -> 0 1 0      forget([0])      codes([c]) -> 0

Codes are dense and used again, so that what is known of a value stands in arrays, by its code. Rows are equal as in
DISTINCT: NULLs are, NaNs are, and zeros of either sign.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.kernels.encode import canonical_floats, codes_of, combine
from mullion.operators.lives import Index, Mask

Codes = npt.NDArray[np.int64]


class Values:
    """The codes of the rows of some columns."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._codes: dict[Hashable, int] = {}
        self._keys: list[Hashable] = []
        self._free: list[int] = []
        self._tables: list[pa.Table] = []
        self._appended = 0
        self._at = np.empty(0, np.int64)

    def __len__(self) -> int:
        """How many values are known."""
        return len(self._codes)

    @property
    def room(self) -> int:
        """All codes are less than this."""
        return len(self._keys)

    def known(self) -> Codes:
        """The codes that mean something."""
        return np.fromiter(self._codes.values(), np.int64, len(self._codes))

    def codes(self, rows: pa.Table) -> Codes:
        """The codes of rows; values that are new get new ones."""
        if not len(rows):
            return np.zeros(0, np.int64)
        local, size = combine([codes_of(_plain(column)) for column in rows.columns], len(rows))
        example = np.full(size, -1, np.int64)
        example[local[::-1]] = np.arange(len(rows) - 1, -1, -1)
        used = np.flatnonzero(example >= 0)
        examples = rows.take(pa.array(example[used]))
        keys = keys_of(examples)
        found = list(map(self._codes.get, keys, repeat(-1)))
        new = [i for i, code in enumerate(found) if code < 0]
        if new:
            for i in new:
                found[i] = self._remember(keys[i])
            self._append(examples.take(pa.array(new)), np.array([found[i] for i in new]))
        of_local = np.empty(size, np.int64)
        of_local[used] = found
        return of_local[local]

    def rows(self, codes: Codes) -> pa.Table:
        """The values of codes."""
        if len(self._tables) > 1:
            self._tables = [pa.concat_tables(self._tables).combine_chunks()]
        table = self._tables[0] if self._tables else self._schema.empty_table()
        return table.take(pa.array(self._at[codes]))

    def forget(self, codes: Codes) -> None:
        """Values that are known, each once, and no longer needed."""
        for code in codes.tolist():
            del self._codes[self._keys[code]]
        self._free += codes.tolist()
        if self._appended > 2 * len(self._codes) + 1024:
            self._compact()

    def _remember(self, key: Hashable) -> int:
        if self._free:
            code = self._free.pop()
            self._keys[code] = key
        else:
            code = len(self._keys)
            self._keys.append(key)
        self._codes[key] = code
        return code

    def _append(self, rows: pa.Table, codes: Codes) -> None:
        if len(self._at) < len(self._keys):
            self._at = grown(self._at, len(self._keys), 0)
        self._at[codes] = np.arange(self._appended, self._appended + len(rows))
        self._appended += len(rows)
        self._tables.append(rows)

    def _compact(self) -> None:
        codes = self.known()
        rows = self.rows(codes)
        self._tables, self._appended = [], 0
        self._append(rows, codes)


def keys_of(rows: pa.Table) -> list[Hashable]:
    """Something to look up each row by: equal for equal rows."""
    columns = [_keys(_plain(column)) for column in rows.columns]
    if len(columns) == 1:
        return columns[0]
    return list(zip(*columns, strict=True)) if columns else [()] * len(rows)


def _keys(column: pa.Array) -> list[Hashable]:
    kind = column.type
    if pa.types.is_floating(kind):
        bits = np.asarray(canonical_floats(column).fill_null(0.0)).view(f"i{kind.bit_width // 8}")
        return _with_nulls(bits.tolist(), np.asarray(column.is_null()))
    if pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_nested(kind):
        return list(map(repr, column.to_pylist()))
    if pa.types.is_integer(column.type) and not column.null_count:
        found: list[Hashable] = column.to_numpy().tolist()
        return found
    return list(column.to_pylist())


def _with_nulls(keys: Sequence[Hashable], null: Mask) -> list[Hashable]:
    return [None if is_null else key for key, is_null in zip(keys, null.tolist(), strict=True)]


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if pa.types.is_floating(column.type):
        return canonical_floats(column)
    return pa.array(map(repr, column.to_pylist()), pa.string()) if pa.types.is_nested(column.type) else column


def decoded(rows: pa.Table) -> pa.Table:
    """The same rows without dictionaries."""
    schema = decoded_schema(rows.schema)
    return rows if schema is rows.schema else rows.unify_dictionaries().cast(schema)


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    if not any(pa.types.is_dictionary(field.type) for field in schema):
        return schema
    return pa.schema(
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema
    )


def grown(array: npt.NDArray[np.int64], size: int, filler: int) -> npt.NDArray[np.int64]:
    """The array with room for at least `size` rows."""
    if size <= len(array):
        return array
    room = np.full((max(size, 2 * len(array), 16) - len(array), *array.shape[1:]), filler, np.int64)
    return np.concatenate([array, room])


def in_time_order(start: npt.NDArray[np.int64], ids: npt.NDArray[np.int64]) -> Index | None:
    """The order by start, then ids; None when that is how they stand."""
    if len(start) < 2:
        return None
    apart = start[1:] - start[:-1]
    if ids.shape[1] == 1:
        apart = np.where(apart == 0, ids[1:, 0] - ids[:-1, 0], apart)
        if (apart > 0).all():
            return None
    elif (apart > 0).all():
        return None
    return np.lexsort((*ids.T[::-1], start))


__all__ = ["Codes", "Values", "decoded", "decoded_schema", "grown", "in_time_order", "keys_of"]
