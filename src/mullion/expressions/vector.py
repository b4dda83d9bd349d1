"""A typed column of values with NULLs, between Arrow and numpy.

| type | values |
|---|---|
| boolean | bool |
| tinyint .. bigint | int8 .. int64 |
| float, double | float32, float64 |
| timestamp, timestamp_ntz, interval | int64 microseconds |
| date | int32 days since the epoch |
| decimal of up to 18 digits | int64: the number times 10^scale |
| decimal of up to 38 digits | `int128.WIDE`: the same in two halves |
| string, binary, void | object: str, bytes, None |
| counted | object: list of (value, count) |

Where `valid` is False the value is NULL and whatever `values` holds there means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.expressions import decimals
from mullion.expressions.arrays import Codes
from mullion.expressions.coding.canonical import in_one_piece
from mullion.expressions.int128 import to_double
from mullion.language.types import Type

DTYPES: dict[str, Any] = {
    "boolean": np.bool_,
    "tinyint": np.int8,
    "smallint": np.int16,
    "int": np.int32,
    "bigint": np.int64,
    "float": np.float32,
    "double": np.float64,
    "date": np.int32,
    "timestamp": np.int64,
    "timestamp_ntz": np.int64,
    "interval": np.int64,
}

ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "interval": pa.duration("us"),
    "void": pa.null(),
}


def dtype_of(type_: Type) -> Any:
    if type_.kind == "decimal":
        return decimals.dtype_of_decimal(type_)
    return DTYPES.get(type_.kind, np.object_)


def arrow_type(type_: Type) -> pa.DataType:
    if type_.kind == "counted" and type_.item is not None:
        return pa.list_(pa.struct([("item", arrow_type(type_.item)), ("count", pa.int64())]))
    return pa.decimal128(type_.precision, type_.scale) if type_.kind == "decimal" else ARROW[type_.kind]


def has_arrow_type(type_: Type) -> bool:
    """Nested types have none here."""
    return type_.kind == "decimal" or type_.kind in ARROW


@dataclass(frozen=True, slots=True)
class Vector:
    type: Type
    values: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_]
    coded: tuple[Codes, Vector] | None = None
    """The same values as numbers into others, in which few are there twice: texts need not be compared one by one."""

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: npt.NDArray[Any] | slice) -> Vector:
        coded = None if self.coded is None else (self.coded[0][index], self.coded[1])
        values = self.values[index]
        # Where nothing is NULL, looking for it costs less than picking it out.
        plain = not isinstance(index, slice) and len(self) <= 2 * len(values) and bool(self.valid.all())
        return Vector(self.type, values, np.ones(len(values), np.bool_) if plain else self.valid[index], coded)

    @staticmethod
    def concat(parts: Sequence[Vector]) -> Vector:
        """Columns of one type, one after the other."""
        values, valid = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "valid"))
        coded = [part.coded for part in parts if part.coded is not None]
        if len(coded) < len(parts):
            return Vector(parts[0].type, values, valid)
        before = np.cumsum([0, *(len(different) for _, different in coded)])
        codes = np.concatenate([codes + at for (codes, _), at in zip(coded, before, strict=False)])
        return Vector(parts[0].type, values, valid, (codes, Vector.concat([different for _, different in coded])))

    @staticmethod
    def of(type_: Type, items: Sequence[Any]) -> Vector:
        """From Python values, None for NULL."""
        valid = np.fromiter((v is not None for v in items), np.bool_, len(items))
        values: npt.NDArray[Any] = np.zeros(len(items), dtype_of(type_))
        if type_.kind == "decimal":
            values[valid] = decimals.of_decimals([item for item in items if item is not None], type_)
            return Vector(type_, values, valid)
        if type_.kind in ("string", "binary"):
            values[:] = items
            return Vector(type_, values, valid)
        if values.dtype == np.object_:
            values[:] = None
        for i, item in enumerate(items):
            if item is not None:
                values[i] = item
        return Vector(type_, values, valid)

    def to_list(self) -> list[Any]:
        """Python values, None for NULL."""
        if self.type.kind == "decimal":
            values: list[Any] = decimals.to_decimals(self.values, self.type)
        else:
            values = self.values.tolist()
        if self.valid.all():
            return values
        return [v if ok else None for v, ok in zip(values, self.valid.tolist(), strict=True)]

    def to_doubles(self) -> npt.NDArray[np.float64]:
        """Numbers as doubles."""
        if self.type.kind == "decimal":
            return to_double(self.values, self.type.scale)
        return self.values.astype(np.float64)

    @staticmethod
    def coded_from_arrow(array: pa.Array | pa.ChunkedArray, type_: Type) -> Vector:
        """Texts with their codes, so that nobody looks at them one by one."""
        array = in_one_piece(array)
        if dtype_of(type_) is not np.object_ or not has_arrow_type(type_):
            return Vector.from_arrow(array, type_)
        codes, values = dictionary_of(array, type_)
        return replace(values.take(codes), coded=(codes, values))

    @staticmethod
    def from_arrow(array: pa.Array | pa.ChunkedArray, type_: Type) -> Vector:
        array = in_one_piece(array)
        valid = np.asarray(array.is_valid()) if array.null_count else np.ones(len(array), np.bool_)
        dtype = dtype_of(type_)
        if type_.kind == "decimal":
            return Vector(type_, decimals.from_arrow(array, type_), valid)
        if dtype is np.object_:
            values: npt.NDArray[Any] = np.empty(len(array), np.object_)
            values[:] = array.to_pylist()
            return Vector(type_, values, valid)
        if type_.kind in ("timestamp", "timestamp_ntz", "interval"):
            array = array.cast(pa.timestamp("us", array.type.tz) if type_.kind != "interval" else pa.duration("us"))
            array = array.view(pa.int64())
        elif type_.kind == "date":
            array = array.view(pa.int32())
        if array.null_count:
            array = array.fill_null(False if type_.kind == "boolean" else 0)
        return Vector(type_, np.asarray(array.to_numpy(zero_copy_only=False), dtype), valid)

    def to_arrow(self) -> pa.Array:
        wanted = arrow_type(self.type)
        if self.type.kind == "counted":
            return _counted_lists(self)
        if self.type.kind == "decimal":
            return decimals.to_arrow(self.values, self.valid, self.type)
        mask = None if self.valid.all() else ~self.valid
        if self.values.dtype != np.object_:
            plain = pa.array(self.values, mask=mask)
            return plain if plain.type == wanted else plain.view(wanted)
        if self.coded is not None:
            codes, different = self.coded
            return different.to_arrow().take(pa.array(codes, mask=mask))
        return pa.array(self.values, type=wanted, mask=mask)


def dictionary_of(array: pa.Array, type_: Type) -> tuple[Codes, Vector]:
    """A column as numbers into its different values, of which the last is NULL."""
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    values = Vector.from_arrow(pa.concat_arrays([encoded.dictionary, pa.nulls(1, encoded.dictionary.type)]), type_)
    indices = encoded.indices.fill_null(len(values) - 1) if encoded.null_count else encoded.indices
    return np.asarray(indices), values


def _counted_lists(vector: Vector) -> pa.Array:
    assert vector.type.item is not None
    lists = [counts if ok else [] for counts, ok in zip(vector.values.tolist(), vector.valid.tolist(), strict=True)]
    flat = [pair for counts in lists for pair in counts]
    items = Vector.of(vector.type.item, [item for item, _ in flat]).to_arrow()
    structs = pa.StructArray.from_arrays(
        [items, pa.array([count for _, count in flat], pa.int64())], fields=list(arrow_type(vector.type).value_type)
    )
    offsets = np.concatenate([[0], np.cumsum([len(counts) for counts in lists])]).astype(np.int32)
    mask = None if vector.valid.all() else pa.array(~vector.valid)
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=arrow_type(vector.type), mask=mask)


def constant(type_: Type, value: Any, length: int) -> Vector:
    """The same value `length` times."""
    if type_.kind == "decimal":
        return Vector.of(type_, [value]).take(np.zeros(length, np.intp))
    values: npt.NDArray[Any] = np.empty(length, dtype_of(type_))
    values[:] = (None if values.dtype == np.object_ else 0) if value is None else value
    return Vector(type_, values, np.full(length, value is not None))
