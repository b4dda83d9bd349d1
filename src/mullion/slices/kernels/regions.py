"""Into which region between the constants that predicates compare it with each value falls.

constants 3 and 8     regions of a value x: 0 is x < 3, 1 is x = 3, 2 is 3 < x < 8, 3 is x = 8, 4 is x > 8,
                      5 is NULL
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Array, Mask
from mullion.expressions.int128 import WIDE, same
from mullion.expressions.readonly import frozen
from mullion.expressions.vector import Vector
from mullion.planner.fragments import Attribute
from mullion.slices.kernels.region_search import find_regions
from mullion.slices.kernels.row_loops import note_present

SmallCodes = npt.NDArray[np.int32]


class RegionCodes(Protocol):
    """Where the regions of events come from."""

    def codes(self, attribute: Attribute) -> SmallCodes:
        """The region that each event's value falls into."""

    def numbered(self, attributes: Sequence[Attribute]) -> tuple[SmallCodes, Mask]:
        """Which combinations of regions occur, and the number of each event's among these."""


def regions_of(attribute: Attribute, values: Vector) -> SmallCodes:
    """The region that each value falls into."""
    out = np.empty(len(values), np.int32)
    fill_regions(attribute, values, out, np.zeros(attribute.regions, np.bool_))
    return out


def fill_regions(attribute: Attribute, values: Vector, out: Array, present: Mask) -> None:
    """The same, in numbers of any size that have room for it. The regions that occur are noted as present."""
    numbers, are_known = values.values, bool(values.valid.all())
    # What stands where a value is NULL occurs nowhere.
    noted = present if are_known else np.zeros_like(present)
    if values.type.kind == "decimal":
        _fill_decimal_regions(Vector.of(values.type, attribute.constants).values, numbers, out, noted)
    elif numbers.dtype == np.object_:
        out[:] = [_region_of(attribute.constants, value) for value in values.to_list()]
        note_regions(out, noted)
    elif numbers.dtype == np.bool_:
        both = regions_of(attribute, Vector(values.type, np.array([0, 1], np.int8), np.ones(2, np.bool_)))
        out[:] = both[numbers.astype(np.int8)]
        note_regions(out, noted)
    else:
        comparable = _comparable(numbers)
        constants = np.array(attribute.constants, np.int64 if comparable.dtype.kind == "i" else np.float64)
        find_regions(constants, comparable, out, noted)
    if not are_known:
        out[~values.valid] = attribute.unknown
        note_regions(out, present)


def note_regions(codes: Array, present: Mask) -> None:
    """Which regions occur."""
    (written,) = frozen(codes)
    note_present(written, present)


def _fill_decimal_regions(constants: Array, values: Array, out: Array, present: Mask) -> None:
    """Decimals as whole numbers, of 64 bits or of 128."""
    if values.dtype != WIDE:
        find_regions(constants, _comparable(values), out, present)
        return
    at = np.searchsorted(constants, values)
    out[:] = 2 * at
    if len(constants):
        out[(at < len(constants)) & same(constants[np.minimum(at, len(constants) - 1)], values)] += 1
    note_regions(out, present)


def _comparable(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The numbers in one of the three forms that the search is compiled for."""
    if numbers.dtype.kind == "f":
        wanted: Any = np.float64
    else:
        wanted = np.int32 if numbers.dtype.itemsize <= 4 else np.int64
    plain = np.ascontiguousarray(numbers, wanted).view()
    plain.flags.writeable = False
    return plain


def _region_of(constants: tuple[Any, ...], value: Any) -> int:
    if value is None:
        return 2 * len(constants) + 1
    at = bisect_left(constants, value)
    return 2 * at + (1 if at < len(constants) and constants[at] == value else 0)
