"""approx_percentile(x, p [, accuracy]): a value with about the share p of the values below or at it."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from mullion.aggregates.base import Aggregate, Partial, State
from mullion.aggregates.keys import PresentValues
from mullion.aggregates.sketched import OPENED, Sketched, library
from mullion.aggregates.values import a_share
from mullion.expressions.arrays import Array, Index, objects
from mullion.expressions.int128 import integers_of
from mullion.expressions.vector import Vector
from mullion.language.types import BINARY, Type
from mullion.plural import plural

USUAL = 100
"""The accuracy unless told: a rank error of 1 / 100."""
MOST_SIZE = 65_535
"""The largest k that KLL takes."""

DOUBLE_BYTES = 8

EXACT_DIGITS, WIDE_DIGITS = 15, 18
"""Decimals of so many digits are whole numbers below 2^53, and below 2^60."""

SMALLEST_BITS = np.int64(1 << 52)
LARGEST_BITS = np.int64(0x7FEF_FFFF_FFFF_FFFF)
"""The bits of the smallest and of the largest positive double that is neither zero, subnormal nor infinite."""
REACH = LARGEST_BITS - SMALLEST_BITS
"""Whole numbers up to this size, of either sign, have a double of their own."""

DIGITS = Context(prec=80)
SHIFT = 10**38
"""Added to longer whole numbers, so that their digits, 39 of each, have the order of the numbers."""


@dataclass(frozen=True)
class Quantiles(Sketched):
    """Levels of values that each stand for twice as many as those of the level below: a full level is sorted and every
    other value of it moves up (Karnin, Lang, Liberty, Optimal Quantile Approximation in Streams, FOCS 2016; made by
    Apache DataSketches).

    A sketch holds doubles. Values that a double cannot hold are turned into doubles of the same order, and back:

        double, float        themselves; NaN, the largest, in a sketch of its own
        tinyint .. int, date, decimals of up to 15 digits    the whole number
        bigint, timestamps   the double with that number of bits; the few beyond it, below and above, in sketches of
                             their own
        decimals of up to 18 digits                          the same; these are never beyond it
        longer decimals      their digits, in a sketch of texts, which is far slower

    Requires: an order of the values.
    Time: O(log k) a value, O(k) a merge.
    Space: about 3 k values.
    Guarantee: for any p, the rank of the answer differs from p by at most 2.3 / k^0.97 of all values with a probability
    of 99 %, whatever was merged in what order. Up to k values, p = 0 and p = 1 are answered exactly.
    """

    kind = "kll"
    size: int = 0

    def __post_init__(self) -> None:
        if not (self.argument.is_numeric or self.argument.kind in ("date", "timestamp", "timestamp_ntz")):
            raise TypeError(f"needs a number, a date or a timestamp, not {self.argument}")

    @property
    def label(self) -> str:
        return f"kll{self.size}"

    @property
    def is_wide(self) -> bool:
        """Whether doubles take the values by their bits."""
        digits = self.argument.precision
        return self._is_long or (self.argument.kind == "decimal" and EXACT_DIGITS < digits <= WIDE_DIGITS)

    @property
    def _is_long(self) -> bool:
        return self.argument.kind in ("bigint", "timestamp", "timestamp_ntz")

    @property
    def holds_text(self) -> bool:
        return self.argument.kind == "decimal" and self.argument.precision > WIDE_DIGITS

    @property
    def stored(self) -> tuple[Type, ...]:
        """A sketch for each part of the order, from the lowest to the highest."""
        return (BINARY,) * (2 if self.argument.is_fractional else 3 if self._is_long else 1)

    @property
    def opened_bytes(self) -> int:
        """A sketch that was made of two has room for its first level, however few values it holds; there may be such a
        sketch for each that was kept, and for each two of them."""
        return OPENED * len(self.stored) + 2 * DOUBLE_BYTES * self.size

    def build(self, events: Vector, starts: Index) -> State:
        values, bounds = PresentValues.of(events, starts)
        cuts = list(pairwise(bounds))
        fields = []
        for inside, data in self._parts(values):
            if not inside.any():
                fields.append(self.identity(len(starts))[0])
            elif inside.all():
                fields.append(objects([self._of(data[low:high]) for low, high in cuts]))
            else:
                fields.append(objects([self._of(data[low:high][inside[low:high]]) for low, high in cuts]))
        return tuple(fields)

    def _parts(self, values: Array) -> Iterator[tuple[Array, Array]]:
        """For each part of the order, which values lie in it, and all values as what its sketch takes."""
        everywhere = np.ones(len(values), np.bool_)
        if self.argument.is_fractional:
            missing = np.isnan(values)
            yield ~missing, values.astype(np.float64) + 0.0
            yield missing, np.zeros(len(values))
            return
        if self.holds_text:
            yield everywhere, objects([f"{number + SHIFT:039d}" for number in integers_of(values)])
            return
        if not self.is_wide:
            yield everywhere, values.astype(np.float64)
            return
        low, high = values < -REACH, values > REACH
        if self._is_long:
            yield low, np.where(low, values + (REACH + 1), 0).astype(np.float64)
        yield ~(low | high), _double(np.where(low | high, 0, values))
        if self._is_long:
            yield high, np.where(high, values - (REACH + 1), 0).astype(np.float64)

    def _value(self, part: int, sketched: Any) -> Any:
        """The value that a part's sketch took as `sketched`."""
        if self.argument.is_fractional:
            return math.nan if part else sketched
        if self.holds_text:
            whole = int(sketched) - SHIFT
        elif not self.is_wide:
            whole = int(sketched)
        elif self._is_long and part != 1:
            whole = int(sketched) + int(REACH + 1) * (part - 1)
        else:
            whole = _from_double(sketched)
        return _decimal(whole, self.argument.scale) if self.argument.kind == "decimal" else whole

    def _of(self, data: Array) -> Any:
        if not len(data):
            return None
        if self.holds_text:
            sketch = library().kll_items_sketch(self.size)
            for datum in data:
                sketch.update(datum)
        else:
            sketch = library().kll_doubles_sketch(self.size)
            sketch.update(data)
        return sketch

    def merged(self, sketches: Sequence[Any]) -> Any:
        whole = copy.copy(sketches[0])
        for sketch in sketches[1:]:
            whole.merge(sketch)
        return whole

    def read(self, written: bytes) -> Any:
        if self.holds_text:
            return library().kll_items_sketch.deserialize(written, library().PyStringsSerDe())
        return library().kll_doubles_sketch.deserialize(written)

    def write(self, sketch: Any) -> bytes:
        return bytes(sketch.serialize(library().PyStringsSerDe()) if self.holds_text else sketch.serialize())

    def quantile(self, sketches: Sequence[Any], share: float) -> Any:
        """The smallest value with at least the share of all values below or at it; None of no values."""
        total = sum(0 if sketch is None else sketch.n for sketch in sketches)
        place = max(1, math.ceil(Fraction(repr(share)) * total))
        before = 0
        for part, sketch in enumerate(sketches):
            if sketch is None:
                continue
            if place <= before + sketch.n:
                return self._value(part, _at(sketch, place - before))
            before += sketch.n
        return None


def _at(sketch: Any, place: int) -> Any:
    """About the value at a place, counted from 1; ends are kept apart from all others, and exact."""
    if place == 1:
        return sketch.get_min_value()
    if place == sketch.n:
        return sketch.get_max_value()
    return sketch.get_quantile((place - 0.5) / sketch.n, True)


def _double(whole: Array) -> Array:
    """Doubles in the order of whole numbers within REACH, one for each."""
    sizes = (np.abs(whole) + SMALLEST_BITS).view(np.float64)
    return np.where(whole < 0, -sizes, sizes)


def _from_double(double: float) -> int:
    size = int(np.float64(abs(double)).view(np.int64)) - int(SMALLEST_BITS)
    return -size if double < 0 else size


def _decimal(whole: int, scale: int) -> Decimal:
    return Decimal(whole).scaleb(-scale, DIGITS)


@dataclass(frozen=True)
class ApproxPercentile(Aggregate):
    """The optional third argument is the accuracy: a rank error of 1 / accuracy, 1 / 100 unless told."""

    name = "approx_percentile"
    is_exact = False
    share: float = math.nan
    accuracy: int = USUAL

    def with_parameters(self, parameters: tuple[Any, ...]) -> Aggregate:
        if len(parameters) not in (1, 2):
            wanted = "an argument, a share between 0 and 1 and, if wanted, an accuracy"
            raise TypeError(f"takes {wanted}, not {plural(1 + len(parameters), 'argument')}")
        accuracy = parameters[1] if len(parameters) == 2 else USUAL
        if not isinstance(accuracy, int) or isinstance(accuracy, bool) or accuracy < 1:
            raise TypeError(f"needs an accuracy that is a whole number greater than zero, not {accuracy}")
        size_for(accuracy)
        return replace(self, share=a_share(parameters[0]), accuracy=accuracy)

    def _partial(self, argument: Type | None) -> Quantiles:
        if argument is None:
            raise TypeError("needs an argument")
        return Quantiles(argument, size_for(self.accuracy))

    def result(self, argument: Type | None) -> Type:
        return self._partial(argument).argument

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        return (self._partial(argument),)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        partial = self._partial(argument)
        rows = zip(*(partial.opened(column) for column in states[0]), strict=True)
        return Vector.of(partial.argument, [partial.quantile(sketches, self.share) for sketches in rows])


@lru_cache
def size_for(accuracy: int) -> int:
    """The smallest k whose rank error is at most 1 / accuracy with a probability of 99 %."""

    def error(size: int) -> float:
        return float(library().kll_doubles_sketch.get_normalized_rank_error(size, False))

    if error(MOST_SIZE) > 1 / accuracy:
        raise TypeError(f"has an accuracy of {int(1 / error(MOST_SIZE))} at most, not {accuracy}")
    low, high = 8, MOST_SIZE
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if error(middle) <= 1 / accuracy else (middle + 1, high)
    return low
