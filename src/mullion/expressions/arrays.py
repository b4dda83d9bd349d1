"""The arrays that modules hand to each other, by what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]
"""Any values."""
Whole = npt.NDArray[np.int64]
"""Whole numbers."""
Real = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
"""Which of some rows."""
Index = npt.NDArray[np.intp]
"""Places of rows in an array, in any order."""
Unsigned = np.uint64
"""A place in an array, in compiled loops: of a signed one they ask at every access whether it counts from the end."""
Times = npt.NDArray[np.int64]
"""Instants in microseconds of event time, or the sentinels of `mullion.instants`."""
Codes = npt.NDArray[np.int64]
"""Small numbers that stand for values; see `expressions.coding`."""
Counts = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int64]
"""The identities of rows: n x k numbers of events."""


def grown(array: Whole, size: int, filler: int) -> Whole:
    """The array with room for at least `size` rows, so that appending costs constant time a row."""
    if size <= len(array):
        return array
    larger = np.empty((max(size, 2 * len(array), 16), *array.shape[1:]), np.int64)
    larger[: len(array)], larger[len(array) :] = array, filler
    return larger


def packed(array: Whole, staying: Index) -> Whole:
    """The rows that stay, in front of those of which nothing is known any more. The room is kept for rows to come,
    unless it is far too much.

    >>> packed(np.array([4, 5, 6]), np.array([1, 2]))[:2].tolist()
    [5, 6]
    """
    if ROOMY * len(staying) < len(array):
        return array.take(staying, axis=0)
    array[: len(staying)] = array.take(staying, axis=0)
    return array


ROOMY = 4
"""An array has far too much room when this is how many times its rows would fit."""


def objects(items: Sequence[Any]) -> Array:
    """An array of Python objects, one for each item, also where items are lists."""
    array: Array = np.empty(len(items), np.object_)
    array[:] = items
    return array


def numbers(table: pa.Table, name: str) -> Whole:
    """A column of whole numbers without NULLs."""
    return np.asarray(table.column(name).to_numpy(), np.int64)
