"""approx_count_distinct(x [, rsd]): about how many different values there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from mullion.aggregates.base import Aggregate, Partial, State
from mullion.aggregates.integer_states import always
from mullion.aggregates.keys import Present, text_of
from mullion.aggregates.sketched import Sketched, library
from mullion.expressions.arrays import Index, objects
from mullion.expressions.vector import Vector, dtype_of
from mullion.language.types import BIGINT, Type

LEAST, USUAL, MOST = 7, 12, 21
"""The logarithms of how many registers a sketch may have; the usual one has a standard error of 1.6 %."""


@dataclass(frozen=True)
class HyperLogLog(Sketched):
    """2^size registers, each of which keeps the longest row of leading zeros among the hashes that fell to it; few
    values are kept as they are (Flajolet et al., HyperLogLog, AofA 2007; made by Apache DataSketches).

    Requires: a commutative, idempotent merge, the larger of two registers: a value seen twice counts once.
    Time: O(1) for a different value of a slice, O(2^size) a merge.
    Space: 2^size bytes, less for few values.
    Guarantee: a relative standard error of 1.04 / sqrt(2^size). Up to 3/32 2^size values the number is right unless two
    hashes collide, which happens to few sets in ten thousand. The number does not depend on how values were cut into
    slices or in which order they came.
    """

    kind = "hll"
    size: int = USUAL

    @property
    def label(self) -> str:
        return f"hll{self.size}"

    def build(self, events: Vector, starts: Index) -> State:
        values, bounds = Present.of(events, starts)
        data = self._data(values)
        return (objects([self._of(set(data[low:high])) for low, high in pairwise(bounds)]),)

    def _of(self, data: set[Any]) -> Any:
        if not data:
            return None
        sketch = library().hll_sketch(self.size, library().HLL_8)
        for datum in data:
            sketch.update(datum)
        return sketch

    def _data(self, values: Any) -> list[Any]:
        """What is hashed: whole numbers and doubles by themselves, anything else as text that is never empty, because
        sketches pass over empty text."""
        if np.dtype(dtype_of(self.argument)).kind in "OV":
            text = text_of(self.argument)
            return ["=" + text(value) for value in always(values, self.argument).to_list()]
        if self.argument.is_fractional:
            wide = values.astype(np.float64) + 0.0
            wide[np.isnan(wide)] = np.nan
            return list(wide.tolist())
        return list(values.astype(np.int64).tolist())

    def merged(self, sketches: Sequence[Any]) -> Any:
        return _union(self.size, sketches).get_result(library().HLL_8)

    def read(self, written: bytes) -> Any:
        return library().hll_sketch.deserialize(written)

    def write(self, sketch: Any) -> bytes:
        return bytes(sketch.serialize_compact())

    def estimate(self, sketch: Any) -> int:
        """A sketch that saw its values one by one could tell a little more than merged ones. It is merged with itself,
        so that the number is the same for both."""
        return 0 if sketch is None else round(_union(self.size, (sketch, sketch)).get_estimate())


def _union(size: int, sketches: Sequence[Any]) -> Any:
    union = library().hll_union(size)
    for sketch in sketches:
        union.update(sketch)
    return union


@dataclass(frozen=True)
class ApproxCountDistinct(Aggregate):
    """The optional second argument is the relative standard error, 0.016 unless told."""

    name = "approx_count_distinct"
    casts_text = False
    is_exact = False
    size: int = USUAL

    def with_parameters(self, parameters: tuple[Any, ...]) -> Aggregate:
        if not parameters:
            return self
        if len(parameters) > 1:
            raise TypeError(f"takes an argument and a relative standard error, not {1 + len(parameters)} arguments")
        return replace(self, size=size_for(parameters[0]))

    def result(self, argument: Type | None) -> Type:
        if argument is None:
            raise TypeError("needs an argument")
        return BIGINT

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        if argument is None:
            raise TypeError("needs an argument")
        return (HyperLogLog(argument, self.size),)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        assert argument is not None
        partial = HyperLogLog(argument, self.size)
        sketches = partial.opened(states[0][0])
        return always(np.fromiter(map(partial.estimate, sketches), np.int64, len(sketches)), BIGINT)


def size_for(error: Any) -> int:
    """The smallest sketch whose relative standard error is at most this."""
    try:
        wanted = float(error)
    except (TypeError, ValueError):
        wanted = math.nan
    if isinstance(error, bool) or not 0 < wanted < 1:
        raise TypeError(f"needs a relative standard error between 0 and 1, not {error}")
    for size in range(LEAST, MOST + 1):
        if 1.04 / math.sqrt(2**size) <= wanted:
            return size
    raise TypeError(f"has a relative standard error of {1.04 / math.sqrt(2**MOST):.5f} at best, not {error}")
