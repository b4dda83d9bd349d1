"""Keys as whole numbers. Equal keys have equal codes; `exact` says whether equal codes also mean equal keys.

| key | code | exact |
|---|---|---|
| one whole number, date, time, boolean | the value | yes |
| one float or double | its bits, all NaNs being one and both zeros | yes |
| texts, bytes, decimals, several keys | a 64-bit hash | no: where codes are equal, the keys are compared |

A NULL equals nothing in a join (`known` is False there), and another NULL in a group (`null_is_value`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mullion.expressions.arrays import Array, Codes, Index, Mask
from mullion.expressions.coding.canonical import in_one_piece, whole_numbers
from mullion.loops import loop

NULL_CODE = 0x6E756C6C


@dataclass(frozen=True)
class KeyColumn:
    """One key of some rows: whole numbers that are equal exactly where the keys are, or Arrow's texts, bytes or
    decimals. `valid` is None where no key is NULL."""

    values: Codes | pa.Array
    valid: Mask | None

    def take(self, index: Index) -> KeyColumn:
        values = self.values
        taken = values.take(pa.array(index)) if isinstance(values, pa.Array) else values[index]
        return KeyColumn(taken, None if self.valid is None else self.valid[index])

    @staticmethod
    def concat(parts: Sequence[KeyColumn]) -> KeyColumn:
        first = parts[0].values
        if isinstance(first, pa.Array):
            values: Codes | pa.Array = pa.concat_arrays([_plain(part.values) for part in parts])
        else:
            values = np.concatenate([part.values for part in parts])
        if all(part.valid is None for part in parts):
            return KeyColumn(values, None)
        valid = [np.ones(len(p.values), np.bool_) if p.valid is None else p.valid for p in parts]
        return KeyColumn(values, np.concatenate(valid))

    def equals(self, other: KeyColumn) -> Mask:
        """Row by row; NULLs are equal to each other."""
        if isinstance(self.values, pa.Array):
            same = np.asarray(pc.equal(_plain(self.values), _plain(other.values)).fill_null(False))
        else:
            same = self.values == other.values
        if self.valid is None and other.valid is None:
            return same
        own_valid = np.True_ if self.valid is None else self.valid
        other_valid = np.True_ if other.valid is None else other.valid
        return np.asarray((same & own_valid & other_valid) | (~own_valid & ~other_valid))


@dataclass(frozen=True)
class Keys:
    """The keys of some rows. `known` is None where all are; `columns` are there unless codes are exact."""

    codes: Codes
    known: Mask | None
    exact: bool
    columns: tuple[KeyColumn, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, index: Index) -> Keys:
        known = None if self.known is None else self.known[index]
        return Keys(self.codes[index], known, self.exact, tuple(column.take(index) for column in self.columns))

    @staticmethod
    def concat(parts: Sequence[Keys]) -> Keys:
        """Keys of several, all made in the same way. None of them is NULL."""
        columns = [KeyColumn.concat([part.columns[i] for part in parts]) for i in range(len(parts[0].columns))]
        return Keys(np.concatenate([part.codes for part in parts]), None, parts[0].exact, tuple(columns))

    def equals(self, other: Keys) -> Mask:
        """Row by row, for rows whose codes are equal."""
        same: Mask = self.codes == other.codes
        if not (self.exact and other.exact):
            for own, others in zip(self.columns, other.columns, strict=True):
                same &= own.equals(others)
        return same


def keys_of(columns: Sequence[pa.Array | pa.ChunkedArray], length: int, *, null_is_value: bool = False) -> Keys:
    """The keys of rows, given column by column.

    >>> keys = keys_of([pa.array([7, None, 7])], 3)
    >>> keys.codes.tolist(), keys.known.tolist(), keys.exact
    ([7, 0, 7], [True, False, True], True)
    """
    coded = [_column(in_one_piece(column)) for column in columns]
    known: Mask | None = None
    if not null_is_value:
        for _, column in coded:
            if column.valid is not None:
                known = column.valid if known is None else known & column.valid
        if len(coded) == 1 and not isinstance(coded[0][1].values, pa.Array):
            return Keys(coded[0][0], known, True, ())
    codes = np.zeros(length, np.int64)
    if not coded:
        return Keys(codes, None, True, ())
    for own, column in coded:
        mix_in(codes, own if column.valid is None else np.where(column.valid, own, NULL_CODE))
    return Keys(codes, known, False, tuple(column for _, column in coded))


def mixed(columns: Sequence[Codes], length: int) -> Codes:
    """One hash for several whole numbers side by side."""
    codes = np.zeros(length, np.int64)
    for column in columns:
        mix_in(codes, np.ascontiguousarray(column))
    return codes


@loop
def mix_in(codes: Array, more: Array) -> None:
    """Change each hash by one more number (the finalizer of splitmix64)."""
    for i in range(len(codes)):
        codes[i] = mixed_with(codes[i], more[i])


@loop
def mixed_with(code: int | np.int64, more: int | np.int64) -> np.int64:
    """A hash changed by one more number."""
    x = np.uint64(code) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(more)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(x ^ (x >> np.uint64(31)))


@loop
def hash_bytes(offsets: Array, data: Array, out: Array) -> None:
    """A hash of each text: eight bytes at a time, mixed as above."""
    for i in range(len(out)):
        at, end = offsets[i], offsets[i + 1]
        x = np.uint64(end - at)
        while at < end:
            word = np.uint64(0)
            last = min(at + 8, end)
            for b in range(at, last):
                word = (word << np.uint64(8)) | np.uint64(data[b])
            at = last
            x = (x * np.uint64(0x9E3779B97F4A7C15)) ^ word
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = x ^ (x >> np.uint64(27))
        x = x * np.uint64(0x94D049BB133111EB)
        out[i] = np.int64(x ^ (x >> np.uint64(31)))


def _column(column: pa.Array) -> tuple[Codes, KeyColumn]:
    """The codes of one column, and what tells its values apart."""
    valid = np.asarray(column.is_valid()) if column.null_count else None
    kind = column.type
    if pa.types.is_dictionary(kind):
        own, values = _column(column.dictionary)
        index = np.asarray(column.indices.fill_null(0), np.int64)
        codes = own[index] if len(own) else np.zeros(len(column), np.int64)
        return codes, KeyColumn(codes if not isinstance(values.values, pa.Array) else column, valid)
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64), KeyColumn(np.zeros(len(column), np.int64), valid)
    if _is_text(kind):
        return _text_codes(column), KeyColumn(column, valid)
    if pa.types.is_decimal(kind):
        halves = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
        return mixed([halves[0::2], halves[1::2]], len(column)), KeyColumn(column, valid)
    numbers = whole_numbers(column)
    return numbers, KeyColumn(numbers, valid)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary)
    return any(test(kind) for test in tests)


def _text_codes(column: pa.Array) -> Codes:
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets, data = column.buffers()
    codes = np.empty(len(column), np.int64)
    if len(column):
        places = np.frombuffer(offsets, np.int64 if large else np.int32)[
            column.offset : column.offset + len(column) + 1
        ]
        text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
        hash_bytes(places, text, codes)
    return codes


def _plain(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
