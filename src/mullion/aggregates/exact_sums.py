"""Sums of doubles that do not depend on the order of adding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import Partial, State, add_runs
from mullion.aggregates.integer_states import WholeNumbers, always
from mullion.expressions.arrays import Array
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT, DOUBLE, Type

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

    and coarse and fine parts are added as whole numbers, which have no order and can be subtracted again. See `Residue`
    for the rest.

    How many fit: |coarse| <= 2^30 and |fine| <= 2^25, and what is kept has its fine part carried into the coarse one.
    So int64 holds the sums of 2^32 events next to 2^40, or 2^52 next to 2^20, and prefixes may run over: a difference
    that fits is right. Spark adds them as doubles, exactly up to 2^53 units: 2^23 events next to 2^40 in one slice of a
    batch. Beyond that it rounds, as a plain sum would from the start.
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

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        return super().store(_carried(state[0], state[1]), loaded)


@dataclass(frozen=True)
class Residue(Partial):
    """What `CoarseSum` leaves of a sum of doubles: their lowest bits, and whole the values that it cannot hold (from
    2^40 up, infinities, NaN). Not invertible: a NaN would stay in every later prefix."""

    kind = "sum_residue"

    @property
    def is_dense(self) -> bool:
        return True

    @property
    def stands_alone(self) -> bool:
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
            return (_add_in_blocks(state[0], starts),)


BLOCK = 1 << 12
"""Residues of at most 2^-17 that are multiples of 2^-58 add up exactly as doubles: to 2^-5, or 2^53 multiples."""


def _add_in_blocks(values: Array, starts: npt.NDArray[np.intp]) -> Array:
    """Sums of runs of doubles, of blocks first: a block adds up exactly, or nearly, and blocks are few. One sum from
    end to end would err by up to n 2^-53 of itself, 1e-9 for ten million events."""
    lengths = np.diff(np.append(starts, len(values)))
    blocks = -(-lengths // BLOCK)
    if blocks.max(initial=0) <= 1:
        return add_runs(values, starts)
    first = np.cumsum(blocks) - blocks
    within = np.arange(blocks.sum()) - np.repeat(first, blocks)
    return _add_in_blocks(add_runs(values, np.repeat(starts, blocks) + within * BLOCK), first)


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


def _carried(coarse: Array, fine: Array) -> tuple[Array, Array]:
    """The one form of a sum: fine from 0 to below a coarse unit."""
    return coarse + (fine >> CARRY), fine & (2**CARRY - 1)


def nearest_double(coarse: Array, fine: Array, residue: Array) -> Array:
    """The double nearest to coarse * 2^10 + fine * 2^-16 + residue.

    The two whole numbers are brought to their one form first, so that equal sums give equal bits.
    """
    coarse, fine = _carried(coarse, fine)
    high, low = coarse * COARSE, fine * FINE
    with np.errstate(invalid="ignore", over="ignore"):
        total = high + low
        back = total - high
        return total + ((high - (total - back)) + (low - back) + residue)


def total_of_doubles(states: Sequence[tuple[Vector, ...]]) -> Array:
    (coarse, fine), (residue,) = states[0], states[1]
    return nearest_double(coarse.values, fine.values, residue.values)
