"""Decimals as whole numbers: 12.30 of DECIMAL(6, 2) is 1230.

Up to 18 digits they are int64, beyond that `int128.WIDE`. Arrow has 128 bits for all of them, the low half first.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Array, Mask
from mullion.expressions.int128 import WIDE, integers_of, narrowed, wide_of, widened, within
from mullion.language.types import Type

NARROW_DIGITS = 18
EXACT = Context(prec=400)
"""Arithmetic that never rounds a decimal."""


def is_wide(type_: Type) -> bool:
    return type_.precision > NARROW_DIGITS


def dtype_of_decimal(type_: Type) -> Any:
    return WIDE if is_wide(type_) else np.int64


def as_stored(values: Array, type_: Type) -> Array:
    """Whole numbers that fit the type, of 64 or of 128 bits, as its decimals."""
    return widened(values) if is_wide(type_) else narrowed(values)


def unscaled(value: Decimal, type_: Type) -> int:
    """
    >>> unscaled(Decimal("12.3"), Type("decimal", 6, 2))
    1230
    """
    return int(value.scaleb(type_.scale, EXACT).to_integral_value(context=EXACT))


def of_decimals(items: list[Decimal], type_: Type) -> Array:
    numbers = [unscaled(item, type_) for item in items]
    return wide_of(numbers) if is_wide(type_) else np.array(numbers, np.int64)


def to_decimals(values: Array, type_: Type) -> list[Decimal]:
    return [Decimal(number).scaleb(-type_.scale, EXACT) for number in integers_of(values)]


def from_arrow(array: pa.Array, type_: Type) -> Array:
    """The values of a column; something or other where they are NULL."""
    wanted = pa.decimal128(type_.precision, type_.scale)
    if array.type != wanted:
        array = array.cast(wanted)
    if not len(array):
        return np.empty(0, dtype_of_decimal(type_))
    halves = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    if not is_wide(type_):
        return halves[::2].copy()
    return np.ascontiguousarray(halves.reshape(-1, 2)[:, ::-1]).view(WIDE)[:, 0]


def to_arrow(values: Array, valid: Mask, type_: Type) -> pa.Array:
    halves = np.empty((len(values), 2), np.int64)
    if is_wide(type_):
        halves[:, 0], halves[:, 1] = values["low"].view(np.int64), values["high"]
    else:
        halves[:, 0], halves[:, 1] = values, values >> 63
    known = None
    if not valid.all():
        halves[~valid] = 0
        known = pa.array(valid).buffers()[1]
    wanted = pa.decimal128(type_.precision, type_.scale)
    return pa.Array.from_buffers(wanted, len(values), [known, pa.py_buffer(halves)])


def fits(values: Array, type_: Type) -> Mask:
    """Which of the whole numbers have no more digits than the type."""
    return within(values, type_.precision)
