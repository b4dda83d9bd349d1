"""sum(x)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import DISTRIBUTIVE, Aggregate, Invertible, Partial, State, add_runs
from mullion.aggregates.count import Count
from mullion.aggregates.exact_sums import CoarseSum, Residue, total_of_doubles
from mullion.aggregates.integer_states import WholeNumbers, always
from mullion.expressions.arrays import Array, objects
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT, DOUBLE, Type, decimal

WIDE = Context(prec=80)
"""Decimal arithmetic that never rounds a sum of 38-digit decimals."""


@dataclass(frozen=True)
class SumOfIntegers(WholeNumbers):
    """An exact integer sum in two halves, so that an overflow of BIGINT is seen and not wrapped.

    Each value is split into its high 32 bits (signed) and low 32 bits (unsigned); both halves are summed in int64. What
    is kept has its low half carried into the high one, so int64 holds at least 2^31 events of one slice in one batch
    and then 2^31 such states: 0 <= low < 2^32 for each, and where high leaves 63 bits the sum has long left BIGINT.
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

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        return super().store(state if len(state) == 1 else self._carried(*state), loaded)

    def total(self, stored: Sequence[Vector]) -> tuple[Array, npt.NDArray[np.bool_]]:
        """The sums, and which of them fit BIGINT."""
        if len(stored) == 1:
            return stored[0].values, np.ones(len(stored[0]), np.bool_)
        high, low = self._carried(stored[0].values, stored[1].values)
        fits = (high >= -(2**31)) & (high < 2**31)
        return (high << 32) | low, fits

    def as_doubles(self, stored: Sequence[Vector]) -> Array:
        """The sums as doubles, also of those that do not fit BIGINT."""
        if len(stored) == 1:
            return stored[0].values.astype(np.float64)
        high, low = self._carried(stored[0].values, stored[1].values)
        return high.astype(np.float64) * 2.0**32 + low.astype(np.float64)

    @staticmethod
    def _carried(high: Array, low: Array) -> tuple[Array, Array]:
        """Both halves, the low one within 32 bits: else two large halves of unlike signs would lose the digits of a
        small sum."""
        return high + (low >> 32), low & 0xFFFFFFFF


@dataclass(frozen=True)
class SumOfDecimals(Invertible):
    """An exact decimal sum, as Python integers of the unscaled value, and how many kept sums left 38 digits.

    What left them cannot be kept, so a window that holds such a slice has no sum; Spark's answer is NULL as well.
    """

    kind = "sum_decimal"

    @property
    def stored(self) -> tuple[Type, ...]:
        return decimal(38, self.argument.scale), BIGINT

    def spark(self, text: str) -> tuple[str, ...]:
        total = f"sum(CAST({text} AS {self.stored[0]}))"
        return total, f"CASE WHEN count({text}) > 0 AND {total} IS NULL THEN 1L ELSE 0L END"

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        none_lost = always(np.zeros(len(events), np.int64), BIGINT)
        return Vector(self.stored[0], events.values, events.valid), none_lost

    def load(self, stored: Sequence[Vector]) -> State:
        scale = self.argument.scale
        items = [int(v.scaleb(scale, WIDE)) if v is not None else 0 for v in stored[0].to_list()]
        return objects(items), np.where(stored[1].valid, stored[1].values, 0)

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        scale, limit = self.argument.scale, 10**38
        items = [Decimal(int(v)).scaleb(-scale, WIDE) if abs(v) < limit else None for v in state[0]]
        lost = np.fromiter((item is None for item in items), np.int64, len(items))
        return Vector.of(self.stored[0], items), always(state[1] + lost, BIGINT)

    def identity(self, length: int) -> State:
        return objects([0] * length), np.zeros(length, np.int64)

    def combine(self, a: State, b: State) -> State:
        return a[0] + b[0], a[1] + b[1]

    def invert(self, a: State, b: State) -> State:
        return a[0] - b[0], a[1] - b[1]

    def accumulate(self, state: State) -> State:
        sums = np.concatenate([objects([0]), np.add.accumulate(state[0])])
        return sums, np.concatenate([np.zeros(1, np.int64), np.cumsum(state[1])])

    def reduce(self, state: State, starts: npt.NDArray[np.intp]) -> State:
        return add_runs(state[0], starts), add_runs(state[1], starts)

    def total(self, stored: Sequence[Vector]) -> Vector:
        """The sums, NULL where they left their type."""
        sums, lost = stored
        limit = Decimal(10) ** (min(38, self.argument.precision + 10) - self.argument.scale)
        fits = np.fromiter((v is not None and v.copy_abs() < limit for v in sums.values), np.bool_, len(sums))
        return Vector(sums.type, sums.values, sums.valid & fits & (lost.values == 0))


def sum_partials(argument: Type | None) -> tuple[Partial, ...]:
    """The partials that a sum over the type is made of."""
    if argument is None:
        raise TypeError("needs an argument")
    if argument.is_integer:
        return (SumOfIntegers(argument),)
    if argument.is_fractional:
        return CoarseSum(argument), Residue(argument)
    if argument.kind == "decimal":
        return (SumOfDecimals(argument),)
    raise TypeError(f"needs a number, not {argument}")


class SumAggregate(Aggregate):
    name = "sum"
    algebra = DISTRIBUTIVE

    def result(self, argument: Type | None) -> Type:
        partial = sum_partials(argument)[0]
        if isinstance(partial, SumOfDecimals):
            return decimal(min(38, partial.argument.precision + 10), partial.argument.scale)
        return BIGINT if isinstance(partial, SumOfIntegers) else DOUBLE

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        partials = sum_partials(argument)
        return *partials, Count(partials[0].argument)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        partial, present = sum_partials(argument)[0], states[-1][0].values > 0
        if isinstance(partial, SumOfIntegers):
            sums, fits = partial.total(states[0])
            return Vector(BIGINT, sums, present & fits)
        if not isinstance(partial, SumOfDecimals):
            return Vector(DOUBLE, total_of_doubles(states), present)
        total = partial.total(states[0])
        return Vector(self.result(argument), total.values, present & total.valid)
