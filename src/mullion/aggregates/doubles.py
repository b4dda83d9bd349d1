"""Sums of doubles that do not depend on the order of adding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import Array, Partial, State, add_runs
from mullion.aggregates.whole import WholeNumbers, always
from mullion.language.types import BIGINT, DOUBLE, Type
from mullion.language.vector import Vector

LARGEST_SPLIT = 2.0**40
COARSE, FINE = 2.0**10, 2.0**-16
CARRY = 26
"""2^26 fine units make a coarse one."""


@dataclass(frozen=True)
class CoarseSum(WholeNumbers):
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


@dataclass(frozen=True)
class Residue(Partial):
    """What `CoarseSum` leaves of a sum of doubles: their lowest bits, and whole the values that it cannot hold (from
    2^40 up, infinities, NaN). Not invertible: a NaN would stay in every later prefix."""

    kind = "sum_residue"

    @property
    def is_dense(self) -> bool:
        return True

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


def total_of_doubles(states: Sequence[tuple[Vector, ...]]) -> Array:
    (coarse, fine), (residue,) = states[0], states[1]
    return join(coarse.values, fine.values, residue.values)
