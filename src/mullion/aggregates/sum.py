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
        high, low = self._carried(stored)
        fits = (high >= -(2**31)) & (high < 2**31)
        return (high << 32) | low, fits

    def as_doubles(self, stored: Sequence[Vector]) -> Array:
        """The sums as doubles, also of those that do not fit BIGINT."""
        if len(stored) == 1:
            return stored[0].values.astype(np.float64)
        high, low = self._carried(stored)
        return high.astype(np.float64) * 2.0**32 + low.astype(np.float64)

    @staticmethod
    def _carried(stored: Sequence[Vector]) -> tuple[Array, Array]:
        """Both halves, the low one within 32 bits: else two large halves of unlike signs would lose the digits of a
        small sum."""
        return stored[0].values + (stored[1].values >> 32), stored[1].values & 0xFFFFFFFF


LARGEST_SPLIT = 2.0**40
COARSE, FINE = 2.0**10, 2.0**-16
CARRY = 26
"""2^26 fine units make a coarse one."""


@dataclass(frozen=True)
class CoarseSum(Invertible):
    """The part of a sum of doubles that is exact: whole multiples of 2^10, and of 2^-16 below it.

    Plain sums of doubles depend on the order in which they are added, so sharing a slice with other queries would
    change the last digits of an answer. A double below 2^40 is therefore split without rounding into

        |---- coarse, 30 bits ----|---- fine, 26 bits ----|-- residue: what is left of its 53 bits --|
       2^40                     2^10                    2^-16

    and coarse and fine parts are added as whole numbers, which have no order and can be subtracted again. Thousands of
    millions of them fit. See `Residue` for the rest.
    """

    kind = "sum_coarse"

    @property
    def stored(self) -> tuple[Type, ...]:
        return BIGINT, BIGINT

    def spark(self, text: str) -> tuple[str, ...]:
        coarse, fine, _ = split_text(text)
        return f"CAST(sum({coarse}) * {1 / COARSE!r}D AS BIGINT)", f"CAST(sum({fine}) * {1 / FINE!r}D AS BIGINT)"

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        coarse, fine, _ = split(events)
        return always(coarse, BIGINT), always(fine, BIGINT)

    def load(self, stored: Sequence[Vector]) -> State:
        return tuple(np.where(s.valid, s.values, 0) for s in stored)

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        return tuple(always(s, BIGINT) for s in state)

    def identity(self, length: int) -> State:
        return np.zeros(length, np.int64), np.zeros(length, np.int64)

    def combine(self, a: State, b: State) -> State:
        return a[0] + b[0], a[1] + b[1]

    def invert(self, a: State, b: State) -> State:
        return a[0] - b[0], a[1] - b[1]

    def accumulate(self, state: State) -> State:
        return tuple(np.concatenate([np.zeros(1, np.int64), np.cumsum(s)]) for s in state)

    def reduce(self, state: State, starts: npt.NDArray[np.intp]) -> State:
        return tuple(add_runs(s, starts) for s in state)


@dataclass(frozen=True)
class Residue(Partial):
    """What `CoarseSum` leaves of a sum of doubles: their lowest bits, and whole the values that it cannot hold (from
    2^40 up, infinities, NaN). Not invertible: a NaN would stay in every later prefix."""

    kind = "sum_residue"

    @property
    def stored(self) -> tuple[Type, ...]:
        return (DOUBLE,)

    def spark(self, text: str) -> tuple[str, ...]:
        return (f"sum({split_text(text)[2]})",)

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        return (always(split(events)[2], DOUBLE),)

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


def split(events: Vector) -> tuple[Array, Array, Array]:
    """Doubles as coarse and fine whole numbers and a residue, without rounding.

    >>> [part.tolist() for part in split(Vector.of(DOUBLE, [2000.5, -0.25, 1e300]))]
    [[2, 0, 0], [-3112960, -16384, 0], [0.0, 0.0, 1e+300]]
    """
    numbers = np.where(events.valid, events.values, 0).astype(np.float64)
    fits = np.abs(numbers) < LARGEST_SPLIT
    small = np.where(fits, numbers, 0.0)
    coarse = np.rint(small / COARSE)
    rest = small - coarse * COARSE
    fine = np.rint(rest / FINE)
    return coarse.astype(np.int64), fine.astype(np.int64), np.where(fits, rest - fine * FINE, numbers)


def split_text(text: str) -> tuple[str, str, str]:
    """`split` in Spark SQL, coarse and fine still as doubles.

    Adding and subtracting 1.5 * 2^52 units rounds to whole units, which is far quicker than a cast for every event, and
    doubles that are whole multiples of a unit add up exactly. Only the first step is conditional, so that Spark's
    generated code evaluates what the three have in common once.
    """
    fits = f"abs({text}) < {LARGEST_SPLIT!r}D"
    small = f"(CASE WHEN {fits} THEN {text} ELSE 0D END)"
    coarse = _rounded_text(small, COARSE)
    fine = _rounded_text(f"({small} - {coarse})", FINE)
    return coarse, fine, f"({small} - {coarse} - {fine} + (CASE WHEN {fits} THEN 0D ELSE {text} END))"


def _rounded_text(text: str, unit: float) -> str:
    shift = 1.5 * 2.0**52 * unit
    return f"({text} + {shift!r}D - {shift!r}D)"


def join(coarse: Array, fine: Array, residue: Array) -> Array:
    """The double nearest to coarse * 2^10 + fine * 2^-16 + residue.

    The two whole numbers are brought to their one form first, so that equal sums give equal bits.
    """
    coarse, fine = coarse + (fine >> CARRY), fine & (2**CARRY - 1)
    high, low = coarse * COARSE, fine * FINE
    with np.errstate(invalid="ignore", over="ignore"):
        total = high + low
        back = total - high
        return total + ((high - (total - back)) + (low - back) + residue)


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
        return _objects(items), np.where(stored[1].valid, stored[1].values, 0)

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        scale, limit = self.argument.scale, 10**38
        items = [Decimal(int(v)).scaleb(-scale, WIDE) if abs(v) < limit else None for v in state[0]]
        lost = np.fromiter((item is None for item in items), np.int64, len(items))
        return Vector.of(self.stored[0], items), always(state[1] + lost, BIGINT)

    def identity(self, length: int) -> State:
        return _objects([0] * length), np.zeros(length, np.int64)

    def combine(self, a: State, b: State) -> State:
        return a[0] + b[0], a[1] + b[1]

    def invert(self, a: State, b: State) -> State:
        return a[0] - b[0], a[1] - b[1]

    def accumulate(self, state: State) -> State:
        sums = np.concatenate([_objects([0]), np.add.accumulate(state[0])])
        return sums, np.concatenate([np.zeros(1, np.int64), np.cumsum(state[1])])

    def reduce(self, state: State, starts: npt.NDArray[np.intp]) -> State:
        return add_runs(state[0], starts), add_runs(state[1], starts)

    def total(self, stored: Sequence[Vector]) -> Vector:
        """The sums, NULL where they left their type."""
        sums, lost = stored
        limit = Decimal(10) ** (min(38, self.argument.precision + 10) - self.argument.scale)
        fits = np.fromiter((v is not None and v.copy_abs() < limit for v in sums.values), np.bool_, len(sums))
        return Vector(sums.type, sums.values, sums.valid & fits & (lost.values == 0))


def _objects(items: list[int]) -> Array:
    array: Array = np.empty(len(items), np.object_)
    array[:] = items
    return array


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


def total_of_doubles(states: Sequence[tuple[Vector, ...]]) -> Array:
    (coarse, fine), (residue,) = states[0], states[1]
    return join(coarse.values, fine.values, residue.values)


class SumAggregate(Aggregate):
    name = "sum"

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
