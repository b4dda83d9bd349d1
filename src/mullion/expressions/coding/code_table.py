"""Different rows as small numbers, as long as they are needed.

    codes([b, a, b]) -> 0 1 0      forget([0])      codes([c]) -> 0

Codes are dense and used again, so that what is known of a value stands in arrays, by its code. Rows are equal as in
DISTINCT: NULLs are, NaNs are, and zeros of either sign.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import repeat

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Codes, Index, Whole, grown
from mullion.expressions.coding.canonical import canonical, in_one_piece, is_whole, whole_numbers
from mullion.expressions.coding.dictionary import codes_of, combine, decoded
from mullion.expressions.coding.row_hash_table import FREE, insert, rehash, remove

OBJECT = 200
"""Bytes that are reckoned for a key as a Python object, with its place in a dictionary."""


class CodeTable:
    """The codes of the rows of some columns, and the rows."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._index: _WholeRows | _AnyRows = _WholeRows(len(schema)) if _are_words(schema) else _AnyRows()
        self._words_are_reversible = _are_words(schema) and all(map(_is_reversible, schema.types))
        """Whether the numbers of a row tell it, so that rows need not be kept."""
        self._tables: list[pa.Table] = []
        self._appended = 0
        self._at = np.empty(0, np.int64)

    def __len__(self) -> int:
        """How many values are known."""
        return len(self._index)

    @property
    def room(self) -> int:
        """All codes are less than this."""
        return self._index.room

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return self._index.size + self._at.nbytes + sum(int(table.nbytes) for table in self._tables)

    def known(self) -> Codes:
        """The codes that mean something."""
        return self._index.known()

    def codes(self, rows: pa.Table) -> Codes:
        """The codes of rows, also of rows in dictionaries; values that are new get new ones."""
        if not len(rows):
            return np.zeros(0, np.int64)
        codes, new = self._index.codes(rows)
        if len(new) and not self._words_are_reversible:
            self._append(decoded(rows.take(pa.array(new))), codes[new])
        return codes

    def rows(self, codes: Codes) -> pa.Table:
        """The values of codes."""
        if not len(codes):
            return self._schema.empty_table()
        if self._words_are_reversible:
            assert isinstance(self._index, _WholeRows)
            return _rows_of(self._index.words(codes), self._schema)
        if len(self._tables) > 1:
            self._tables = [pa.concat_tables(self._tables).combine_chunks()]
        table = self._tables[0] if self._tables else self._schema.empty_table()
        return table.take(pa.array(self._at[codes]))

    def forget(self, codes: Codes) -> None:
        """Values that are known, each once, and no longer needed."""
        self._index.forget(codes)
        if self._appended > 2 * len(self) + 1024:
            known = self.known()
            rows = self.rows(known)
            self._tables, self._appended = [], 0
            self._append(rows, known)

    def _append(self, rows: pa.Table, codes: Codes) -> None:
        self._at = grown(self._at, self.room, 0)
        self._at[codes] = np.arange(self._appended, self._appended + len(rows))
        self._appended += len(rows)
        self._tables.append(rows)


class _WholeRows:
    """Codes of rows whose columns all fit into whole numbers of 64 bits, with one more that tells their NULLs."""

    def __init__(self, columns: int) -> None:
        self._slots = np.full(64, FREE, np.int64)
        self._keys = np.empty((0, columns + 1), np.int64)
        self._free = np.empty(0, np.int64)
        self._taken = 0
        """Slots that are not free: of codes that are known, and of those that were."""
        self.room = 0

    def __len__(self) -> int:
        return self.room - len(self._free)

    @property
    def size(self) -> int:
        return self._slots.nbytes + self._keys.nbytes + self._free.nbytes

    def known(self) -> Codes:
        known = np.ones(self.room, np.bool_)
        known[self._free] = False
        return np.flatnonzero(known)

    def codes(self, rows: pa.Table) -> tuple[Codes, Index]:
        words = _words(decoded(rows))
        self._make_room(len(words))
        codes, new = np.empty(len(words), np.int64), np.empty(len(words), np.intp)
        free = len(self._free)
        added = insert(words, self._slots, self._keys, self._free, free, self.room, codes, new)
        self._free = self._free[: max(free - added, 0)]
        self.room += max(added - free, 0)
        self._taken += added
        return codes, new[:added]

    def words(self, codes: Codes) -> Whole:
        return self._keys.take(codes, axis=0)  # several times sooner than indexing rows of two numbers and more

    def forget(self, codes: Codes) -> None:
        remove(codes, self._slots, self._keys)
        self._free = np.concatenate([self._free, codes])

    def _make_room(self, more: int) -> None:
        self._keys = grown(self._keys, self.room + more, 0)
        if 2 * (self._taken + more) > len(self._slots):
            known = self.known()
            self._slots = np.full(1 << int(4 * (len(known) + more)).bit_length(), FREE, np.int64)
            rehash(known, self._slots, self._keys)
            self._taken = len(known)


class _AnyRows:
    """Codes of rows of any columns, by a dictionary."""

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}
        self._keys: list[Hashable] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def room(self) -> int:
        return len(self._keys)

    @property
    def size(self) -> int:
        return OBJECT * len(self._keys)

    def known(self) -> Codes:
        return np.fromiter(self._codes.values(), np.int64, len(self._codes))

    def codes(self, rows: pa.Table) -> tuple[Codes, Index]:
        local, size = combine([codes_of(canonical(column)) for column in rows.columns], len(rows))
        example = np.full(size, -1, np.int64)
        example[local[::-1]] = np.arange(len(rows) - 1, -1, -1)
        used = np.flatnonzero(example >= 0)
        keys = _keys_of(rows.take(pa.array(example[used])))
        known = list(map(self._codes.get, keys, repeat(-1)))
        new = [i for i, code in enumerate(known) if code < 0]
        for i in new:
            known[i] = self._remember(keys[i])
        of_local = np.empty(size, np.int64)
        of_local[used] = known
        return of_local[local], example[used][new]

    def forget(self, codes: Codes) -> None:
        for code in codes.tolist():
            del self._codes[self._keys[code]]
        self._free += codes.tolist()

    def _remember(self, key: Hashable) -> int:
        if self._free:
            code = self._free.pop()
            self._keys[code] = key
        else:
            code = len(self._keys)
            self._keys.append(key)
        self._codes[key] = code
        return code


def _are_words(schema: pa.Schema) -> bool:
    return len(schema) < 64 and all(map(is_whole, schema.types))


def _words(rows: pa.Table) -> Whole:
    """Each row as whole numbers: its columns, and bits that tell which are NULL. Equal rows have equal numbers."""
    words = np.zeros((len(rows), rows.num_columns + 1), np.int64)
    for i, chunked in enumerate(rows.columns):
        column = in_one_piece(chunked)
        if column.null_count:
            words[:, -1] += np.asarray(column.is_null()).astype(np.int64) << i
        words[:, i] = whole_numbers(column)
    return words


def _is_reversible(kind: pa.DataType) -> bool:
    """Whether `whole_numbers` of a type can be turned back: they do not tell the sign of a zero, nor a unit of time."""
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return bool(kind.unit == "us")
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind))


def _rows_of(words: Whole, schema: pa.Schema) -> pa.Table:
    """The rows that `_words` made these numbers of."""
    arrays = []
    unknown = words[:, -1]
    some_unknown = unknown.any()
    for i, kind in enumerate(schema.types):
        numbers = words[:, i]
        if pa.types.is_boolean(kind):
            numbers = numbers.astype(np.bool_)
        elif kind.bit_width < 64:
            numbers = numbers.astype(f"i{kind.bit_width // 8}")
        array = pa.array(numbers, mask=(unknown >> i) & 1 == 1 if some_unknown else None)
        arrays.append(array if array.type == kind else array.view(kind))
    return pa.Table.from_arrays(arrays, schema=schema)


def _keys_of(rows: pa.Table) -> list[Hashable]:
    """Something to look up each row by: equal for equal rows."""
    columns = [_keys(canonical(column)) for column in rows.columns]
    if len(columns) == 1:
        return columns[0]
    return list(zip(*columns, strict=True)) if columns else [()] * len(rows)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))


def _keys(column: pa.Array) -> list[Hashable]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is_text(column.type):
        texts: list[Hashable] = column.to_numpy(zero_copy_only=False).tolist()  # ten times sooner than to_pylist
        return texts
    if not is_whole(column.type):
        return list(column.to_pylist())
    words: list[Hashable] = whole_numbers(column).tolist()
    if not column.null_count:
        return words
    return [word if valid else None for word, valid in zip(words, column.is_valid().to_pylist(), strict=True)]
