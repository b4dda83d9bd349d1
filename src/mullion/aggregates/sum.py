"""sum(x)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import DISTRIBUTIVE, Aggregate, Partial, State
from mullion.aggregates.count import Count
from mullion.aggregates.exact_sums import CoarseSum, Residue, total_of_doubles
from mullion.aggregates.integer_states import WholeNumbers, always
from mullion.expressions.arrays import Array
from mullion.expressions.decimals import NARROW_DIGITS, as_stored, is_wide
from mullion.expressions.int128 import WIDE, from_halves, within
from mullion.expressions.readonly import frozen
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT, DOUBLE, Type, decimal
from mullion.loops import loop


class SumInLimbs(WholeNumbers):
    """An exact sum of whole numbers in limbs of 32 bits, so that an overflow is seen and not wrapped.

    Each value is split into limbs, of which the first is signed and the others are not; each limb is summed in int64.
    What is kept has all but the first carried into the one before, so int64 holds at least 2^31 events of one slice in
    one batch and then 2^31 such states: |limb| < 2^32 for each but the first, and where that leaves 63 bits the sum
    has long left the type of the answer.
    """

    @property
    @abstractmethod
    def limbs(self) -> int:
        """How many it takes: one where 2^31 values cannot leave 63 bits."""

    @property
    def stored(self) -> tuple[Type, ...]:
        return (BIGINT,) * self.limbs

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        return tuple(always(np.where(events.valid, limb, 0), BIGINT) for limb in _split(events.values, self.limbs))

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        return super().store(_carried(state), loaded)

    def narrowed(self, state: State) -> State:
        """Two limbs as one number: `total` takes either."""
        if len(state) != 2:
            return state
        high, low = state
        joined = np.empty(len(high), np.int64)
        largest = join_limbs(high, low, joined)
        return (joined,) if _has_room(largest, len(high)) else state

    def write(self, parts: Sequence[State], out: npt.NDArray[np.int64]) -> int:
        if len(self.stored) != 2:
            return super().write(parts, out)
        largest, at = 0, 0
        for part in parts:
            high, low = frozen(*part)
            found = join_limbs(high, low, out[0, at : at + len(high)])
            largest, at = -1 if found < 0 or largest < 0 else max(found, largest), at + len(high)
        return 1 if _has_room(largest, at) else super().write(parts, out)


@dataclass(frozen=True)
class SumOfIntegers(SumInLimbs):
    """An exact sum of integers."""

    kind = "sum_integer"

    @property
    def limbs(self) -> int:
        return 2 if self.argument == BIGINT else 1

    def spark(self, text: str) -> tuple[str, ...]:
        if self.argument == BIGINT:
            return f"sum(shiftright({text}, 32))", f"sum({text} & 4294967295L)"
        return (f"sum({text})",)

    def total(self, stored: Sequence[Vector]) -> tuple[Array, npt.NDArray[np.bool_]]:
        """The sums, and which of them fit BIGINT."""
        if len(stored) == 1:
            return stored[0].values, np.ones(len(stored[0]), np.bool_)
        high, low = _carried([field.values for field in stored])
        fits = (high >= -(2**31)) & (high < 2**31)
        return (high << 32) | low, fits

    def as_doubles(self, stored: Sequence[Vector]) -> Array:
        """The sums as doubles, also of those that do not fit BIGINT."""
        if len(stored) == 1:
            return stored[0].values.astype(np.float64)
        high, low = _carried([field.values for field in stored])
        return high.astype(np.float64) * 2.0**32 + low.astype(np.float64)


@dataclass(frozen=True)
class SumOfDecimals(SumInLimbs):
    """An exact sum of decimals, as whole numbers of their last digit."""

    kind = "sum_decimal"

    @property
    def in_spark(self) -> bool:  # type: ignore[override]
        """A sum of longer decimals could leave 38 digits in Spark and come back in another batch."""
        return self.argument.precision <= NARROW_DIGITS

    @property
    def limbs(self) -> int:
        return 1 if self.argument.precision <= ONE_LIMB_DIGITS else 4 if is_wide(self.argument) else 2

    def spark(self, text: str) -> tuple[str, ...]:
        """Spark adds up to 10^10 decimals of 18 digits without loss; `div` rounds towards zero, so that both limbs of a
        negative sum are negative."""
        total = f"(sum({text}) * CAST(1{'0' * self.argument.scale} AS DECIMAL({self.argument.scale + 1}, 0)))"
        if self.limbs == 1:
            return (f"CAST({total} AS BIGINT)",)
        return f"({total} div 4294967296BD)", f"CAST({total} % 4294967296BD AS BIGINT)"

    def total(self, stored: Sequence[Vector]) -> Vector:
        """The sums, NULL where they left their type."""
        type_ = decimal(min(38, self.argument.precision + 10), self.argument.scale)
        fields = [field.values for field in stored]
        if len(fields) == 1:
            return Vector(type_, as_stored(fields[0], type_), within(fields[0], type_.precision))
        *higher, high, low = _carried(fields)
        if higher:
            held = (higher[0] >= -(2**31)) & (higher[0] < 2**31)
            top = (higher[0] << 32) | higher[1]
        else:
            held, top, high = np.ones(len(low), np.bool_), high >> 32, high & LIMB
        sums = from_halves(top, ((high << 32) | low).view(np.uint64))
        return Vector(type_, as_stored(sums, type_), held & within(sums, type_.precision))


LIMB = 0xFFFFFFFF


@loop
def join_limbs(high: Array, low: Array, out: Array) -> int:
    """Two limbs as one number. Returns a number that is one below how far the higher ones are from 0, at least; or -1
    where a lower one is not carried: then the numbers mean nothing."""
    least, most, least_low, most_low = 0, 0, 0, 0
    for i in range(len(high)):  # to the end in any case: loops that may stop go one by one
        least, most = min(least, high[i]), max(most, high[i])
        least_low, most_low = min(least_low, low[i]), max(most_low, low[i])
        out[i] = (high[i] << 32) + low[i]
    if least_low < -LIMB or most_low > LIMB:
        return -1
    return max(-(least + 1), most)  # the least number has no opposite


def _has_room(largest: int, states: int) -> bool:
    """Whether the sum of so many joined limbs stays within 63 bits, given what `join_limbs` found."""
    return largest >= 0 and (largest + 2) * max(1, states) < 2**30


ONE_LIMB_DIGITS = 9
"""2^31 numbers of so many digits stay far below 2^63."""


def _split(values: Array, limbs: int) -> list[Array]:
    if values.dtype == WIDE:
        high, low = values["high"], values["low"].astype(np.int64)
        return [high >> 32, high & LIMB, (low >> 32) & LIMB, low & LIMB]
    values = values.astype(np.int64, copy=False)
    return [values] if limbs == 1 else [values >> 32, values & LIMB]


def _carried(limbs: Sequence[Array]) -> State:
    """All limbs but the first within 32 bits: else large limbs of unlike signs would lose the digits of a small sum."""
    carried, carry = [], None
    for limb in reversed(limbs[1:]):
        whole = limb if carry is None else limb + carry
        carried.append(whole & LIMB)
        carry = whole >> 32
    return limbs[0] if carry is None else limbs[0] + carry, *reversed(carried)


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
        return Vector(total.type, total.values, present & total.valid)
