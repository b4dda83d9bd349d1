"""sum(x), exact for integers and decimals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import Aggregate, Array, Invertible, Partial, State, add_runs
from mullion.aggregates.count import Count, always
from mullion.language.types import BIGINT, DOUBLE, Type, decimal
from mullion.language.vector import Vector

WIDE = Context(prec=80)
"""Decimal arithmetic that never rounds a sum of 38-digit decimals."""


@dataclass(frozen=True)
class SumOfIntegers(Invertible):
    """An exact integer sum in two halves, so that an overflow of BIGINT is seen and not wrapped.

    Each value is split into its high 32 bits (signed) and low 32 bits (unsigned); both halves are summed in int64,
    which holds two thousand million of them.
    """

    kind = "sum_integer"

    @property
    def stored(self) -> tuple[Type, ...]:
        return (BIGINT, BIGINT) if self.argument == BIGINT else (BIGINT,)

    def spark(self, text: str) -> tuple[str, ...]:
        if self.argument == BIGINT:
            return f"sum(shiftright({text}, 32))", f"sum({text} & 4294967295L)"
        return (f"sum({text})",)

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        values = np.where(events.valid, events.values, 0).astype(np.int64)
        if self.argument == BIGINT:
            return always(values >> 32, BIGINT), always(values & 0xFFFFFFFF, BIGINT)
        return (always(values, BIGINT),)

    def load(self, stored: Sequence[Vector]) -> State:
        return tuple(np.where(s.valid, s.values, 0) for s in stored)

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        return tuple(always(s, BIGINT) for s in state)

    def identity(self, length: int) -> State:
        return tuple(np.zeros(length, np.int64) for _ in self.stored)

    def combine(self, a: State, b: State) -> State:
        return tuple(x + y for x, y in zip(a, b, strict=True))

    def invert(self, a: State, b: State) -> State:
        return tuple(x - y for x, y in zip(a, b, strict=True))

    def accumulate(self, state: State) -> State:
        return tuple(np.concatenate([np.zeros(1, np.int64), np.cumsum(s)]) for s in state)

    def reduce(self, state: State, starts: npt.NDArray[np.intp]) -> State:
        return tuple(add_runs(s, starts) for s in state)

    def total(self, stored: Sequence[Vector]) -> tuple[Array, npt.NDArray[np.bool_]]:
        """The sums, and which of them fit BIGINT."""
        if len(stored) == 1:
            return stored[0].values, np.ones(len(stored[0]), np.bool_)
        high = stored[0].values + (stored[1].values >> 32)
        fits = (high >= -(2**31)) & (high < 2**31)
        return (high << 32) | (stored[1].values & 0xFFFFFFFF), fits


@dataclass(frozen=True)
class SumOfDoubles(Partial):
    """A floating sum; see `Invertible` for why it is not one."""

    kind = "sum_double"

    @property
    def stored(self) -> tuple[Type, ...]:
        return (DOUBLE,)

    def spark(self, text: str) -> tuple[str, ...]:
        return (f"sum(CAST({text} AS DOUBLE))",)

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        return (always(np.where(events.valid, events.values, 0).astype(np.float64), DOUBLE),)

    def load(self, stored: Sequence[Vector]) -> State:
        return (np.where(stored[0].valid, stored[0].values, 0.0),)

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        return (always(state[0], DOUBLE),)

    def identity(self, length: int) -> State:
        return (np.zeros(length, np.float64),)

    def combine(self, a: State, b: State) -> State:
        with np.errstate(invalid="ignore", over="ignore"):
            return (a[0] + b[0],)

    def reduce(self, state: State, starts: npt.NDArray[np.intp]) -> State:
        with np.errstate(invalid="ignore", over="ignore"):
            return (add_runs(state[0], starts),)


@dataclass(frozen=True)
class SumOfDecimals(Invertible):
    """An exact decimal sum, as Python integers of the unscaled value."""

    kind = "sum_decimal"

    @property
    def stored(self) -> tuple[Type, ...]:
        return (decimal(38, self.argument.scale),)

    def spark(self, text: str) -> tuple[str, ...]:
        return (f"sum(CAST({text} AS {self.stored[0]}))",)

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        return (Vector(self.stored[0], events.values, events.valid),)

    def load(self, stored: Sequence[Vector]) -> State:
        scale = self.argument.scale
        items = [int(v.scaleb(scale, WIDE)) if v is not None else 0 for v in stored[0].to_list()]
        return (_objects(items),)

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        scale, limit = self.argument.scale, 10**38
        items = [Decimal(int(v)).scaleb(-scale, WIDE) if abs(v) < limit else None for v in state[0]]
        return (Vector.of(self.stored[0], items),)

    def identity(self, length: int) -> State:
        return (_objects([0] * length),)

    def combine(self, a: State, b: State) -> State:
        return (a[0] + b[0],)

    def invert(self, a: State, b: State) -> State:
        return (a[0] - b[0],)

    def accumulate(self, state: State) -> State:
        return (np.concatenate([_objects([0]), np.add.accumulate(state[0])]),)

    def reduce(self, state: State, starts: npt.NDArray[np.intp]) -> State:
        return (add_runs(state[0], starts),)


def _objects(items: list[int]) -> Array:
    array: Array = np.empty(len(items), np.object_)
    array[:] = items
    return array


def sum_partial(argument: Type | None) -> Partial:
    if argument is None:
        raise TypeError("needs an argument")
    if argument.is_integer:
        return SumOfIntegers(argument)
    if argument.is_fractional:
        return SumOfDoubles(argument)
    if argument.kind == "decimal":
        return SumOfDecimals(argument)
    raise TypeError(f"needs a number, not {argument}")


class SumAggregate(Aggregate):
    name = "sum"

    def result(self, argument: Type | None) -> Type:
        partial = sum_partial(argument)
        if isinstance(partial, SumOfDecimals):
            return decimal(min(38, partial.argument.precision + 10), partial.argument.scale)
        return BIGINT if isinstance(partial, SumOfIntegers) else DOUBLE

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        partial = sum_partial(argument)
        return partial, Count(partial.argument)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        partial, present = sum_partial(argument), states[1][0].values > 0
        if isinstance(partial, SumOfIntegers):
            sums, fits = partial.total(states[0])
            return Vector(BIGINT, sums, present & fits)
        result, total = self.result(argument), states[0][0]
        if isinstance(partial, SumOfDecimals):
            limit = Decimal(10) ** (result.precision - result.scale)
            fits = np.fromiter((v is not None and abs(v) < limit for v in total.values), np.bool_, len(total))
            present = present & total.valid & fits
        return Vector(result, total.values, present)
