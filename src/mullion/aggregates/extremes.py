"""min(x) and max(x) of anything that has an order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import DISTRIBUTIVE, Aggregate, Partial, State
from mullion.aggregates.count import Count
from mullion.expressions.arrays import Array
from mullion.expressions.coding.dictionary import ordered_codes
from mullion.expressions.decimals import NARROW_DIGITS, as_stored
from mullion.expressions.int128 import WIDE, narrowed, within
from mullion.expressions.vector import Vector, constant, dtype_of
from mullion.language.types import Type

LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
SIGN = np.int64(HIGHEST)


def float_order(values: Array) -> npt.NDArray[np.int64]:
    """Whole numbers in the order of the doubles: -0.0 equals 0.0 and NaN is the largest, as Spark orders them."""
    wide = values.astype(np.float64) + 0.0
    wide[np.isnan(wide)] = np.nan
    bits = wide.view(np.int64)
    return bits ^ ((bits >> 63) & SIGN)


def float_from_order(order: npt.NDArray[np.int64], dtype: npt.DTypeLike) -> Array:
    with np.errstate(over="ignore"):
        return (order ^ ((order >> 63) & SIGN)).view(np.float64).astype(dtype)


@dataclass(frozen=True)
class Extreme(Partial):
    """The smallest or the largest value.

    States are compared as whole numbers: numbers, times and truth values by themselves, doubles by the order of
    their bits, and strings and binaries by their rank among all that are loaded together. So are decimals of more than
    18 digits, unless all of them fit into 64 bits.
    """

    def __post_init__(self) -> None:
        if self.argument.kind in ("interval", "void"):
            raise TypeError(f"cannot order {self.argument}")

    @property
    def stored(self) -> tuple[Type, ...]:
        return (self.argument,)

    @property
    def is_dense(self) -> bool:
        return True

    @staticmethod
    def _by_rank(column: Vector) -> bool:
        if column.values.dtype == WIDE:
            return not (within(column.values, NARROW_DIGITS) | ~column.valid).all()
        return column.values.dtype == np.object_

    @property
    def stands_alone(self) -> bool:
        """Ranks mean something only among the values that were loaded together."""
        return dtype_of(self.argument) not in (np.object_, WIDE)

    @property
    def is_numbered(self) -> bool:
        return not self.stands_alone

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        return (events,)

    def load(self, stored: Sequence[Vector]) -> State:
        column = stored[0]
        absent = self.identity(1)[0][0]
        if self.argument.is_fractional:
            return (np.where(column.valid, float_order(column.values), absent),)
        if self._by_rank(column):
            return (np.where(column.valid, self._ranked(column)[0], absent),)
        numbers = narrowed(column.values).astype(np.int64, copy=False)
        return (numbers if column.valid.all() else np.where(column.valid, numbers, absent),)

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        order = state[0]
        valid = order != self.identity(1)[0][0]
        if not self.stands_alone and self._by_rank(loaded[0]):
            if not valid.any():
                return (constant(self.argument, None, len(order)),)
            different = self._ranked(loaded[0])[1]
            ranks = order if valid.all() else np.where(valid, order, 0)
            return (Vector(self.argument, different.values[ranks], valid, (ranks, different)),)
        if self.argument.is_fractional:
            return (Vector(self.argument, float_from_order(order, dtype_of(self.argument)), valid),)
        if self.argument.kind == "decimal":
            return (Vector(self.argument, as_stored(order, self.argument), valid),)
        return (Vector(self.argument, order.astype(dtype_of(self.argument), copy=False), valid),)

    def _ranked(self, column: Vector) -> tuple[Array, Vector]:
        """The rank of each value, and the values by rank."""
        if column.coded is None:
            return ordered_codes(column.to_arrow(), self.argument)
        codes, different = column.coded
        ranks, values = ordered_codes(different.to_arrow(), self.argument)
        return ranks[codes], values


@dataclass(frozen=True)
class Smallest(Extreme):
    kind = "min"

    def spark(self, text: str) -> tuple[str, ...]:
        return (f"min({text})",)

    def identity(self, length: int) -> State:
        return (np.full(length, HIGHEST, np.int64),)

    def combine(self, a: State, b: State) -> State:
        return (np.minimum(a[0], b[0]),)

    def reduce(self, state: State, starts: npt.NDArray[np.intp]) -> State:
        return (np.minimum.reduceat(state[0], starts) if len(starts) else state[0][:0],)


@dataclass(frozen=True)
class Largest(Extreme):
    kind = "max"

    def spark(self, text: str) -> tuple[str, ...]:
        return (f"max({text})",)

    def identity(self, length: int) -> State:
        return (np.full(length, LOWEST, np.int64),)

    def combine(self, a: State, b: State) -> State:
        return (np.maximum(a[0], b[0]),)

    def reduce(self, state: State, starts: npt.NDArray[np.intp]) -> State:
        return (np.maximum.reduceat(state[0], starts) if len(starts) else state[0][:0],)


class _ExtremeAggregate(Aggregate):
    partial: type[Extreme]

    def result(self, argument: Type | None) -> Type:
        return self.partials(argument)[0].argument

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        if argument is None:
            raise TypeError("needs an argument")
        return self.partial(argument), Count(argument)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        value, present = states[0][0], states[1][0].values > 0
        return replace(value, valid=present)


class MinAggregate(_ExtremeAggregate):
    name = "min"
    algebra = DISTRIBUTIVE
    casts_text = False
    partial = Smallest


class MaxAggregate(_ExtremeAggregate):
    name = "max"
    algebra = DISTRIBUTIVE
    casts_text = False
    partial = Largest
