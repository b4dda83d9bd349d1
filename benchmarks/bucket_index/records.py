"""Arrow rows as records of one size, for files in which a row's place follows from its number.

[ which columns are there | column 0 | column 1 | .. | #start | #end ]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.errors import NotSupported
from mullion.storage.lifetime_index.rows import END, START

Records = npt.NDArray[np.void]

VALID, RECORDS = "valid", "records"
PAGE = 4096
"""Bytes."""


@dataclass(frozen=True)
class Layout:
    """How a row of this schema becomes a record."""

    schema: pa.Schema

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        fields: list[Any] = [(VALID, np.uint8, (self._valid_bytes,))]
        for i, field in enumerate(self.schema):
            fields.append((f"c{i}", np.int64 if field.name in (START, END) else f"V{_width(field)}"))
        return np.dtype(fields)

    @property
    def _valid_bytes(self) -> int:
        return -(-len(self.schema) // 8)

    def bucket(self, rows: int) -> np.dtype[np.void]:
        """So many records and room up to the next page. Systems write whole pages: of one that belongs to two buckets
        they would first have to read the half that stays."""
        size = -(-rows * self.dtype.itemsize // PAGE) * PAGE
        return np.dtype({"names": [RECORDS], "formats": [(self.dtype, (rows,))], "itemsize": size})

    def ends(self, records: Records) -> npt.NDArray[np.int64]:
        ends: npt.NDArray[np.int64] = records[f"c{self.schema.get_field_index(END)}"]
        return ends

    def records(self, rows: pa.Table) -> Records:
        records: Records = np.zeros(len(rows), self.dtype)
        valid = np.empty((len(rows), len(self.schema)), np.bool_)
        for i, column in enumerate(rows.columns):
            array = column.combine_chunks()
            valid[:, i] = np.asarray(array.is_valid())
            records[f"c{i}"] = _bytes(array).view(self.dtype[f"c{i}"])
        records[VALID] = np.packbits(valid, axis=1)
        return records

    def rows(self, records: Records) -> pa.Table:
        valid = np.unpackbits(records[VALID], axis=1, count=len(self.schema)).astype(np.bool_)
        columns = [_array(field.type, records[f"c{i}"], valid[:, i]) for i, field in enumerate(self.schema)]
        return pa.table(columns, schema=self.schema)


def _width(field: pa.Field) -> int:
    """Bytes of a value."""
    if pa.types.is_boolean(field.type):
        return 1
    try:
        bits = int(field.type.bit_width)
    except ValueError:
        bits = 0
    if bits < 8 or pa.types.is_nested(field.type):
        reason = f"the column {field.name} of type {field.type} in buckets of records of one size"
        raise NotSupported(reason, hint="clustering='rebuild' takes columns of any width")
    return bits // 8


def _bytes(array: pa.Array) -> npt.NDArray[Any]:
    if pa.types.is_boolean(array.type):
        return np.asarray(array.fill_null(False)).view(np.uint8)
    width = array.type.bit_width // 8
    data = array.buffers()[1]
    whole: npt.NDArray[Any] = np.frombuffer(data, np.uint8, array.offset * width + len(array) * width)
    return whole[array.offset * width :].view(f"V{width}")


def _array(type_: pa.DataType, values: npt.NDArray[Any], valid: npt.NDArray[np.bool_]) -> pa.Array:
    nulls = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    packed = np.ascontiguousarray(values)
    if pa.types.is_boolean(type_):
        packed = np.packbits(packed.view(np.bool_), bitorder="little")
    return pa.Array.from_buffers(type_, len(values), [nulls, pa.py_buffer(packed.view(np.uint8))])


def opaque(records: npt.NDArray[Any]) -> npt.NDArray[np.void]:
    """Records as bytes, which are copied at once and not field by field."""
    return records.view(f"V{records.dtype.itemsize}")
