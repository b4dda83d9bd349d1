"""decay(x, half_life): the sum of x in which an event counts half as much for every half-life of its age.

    value = sum of x * 2^-((t - ts) / half_life)      t: the window's end, ts: the event's time

A state is (sum, newest): the sum as it is at the newest event of the state. No weight is above 1, so nothing overflows
however long the stream is, and what underflows is too old to count. Two states are combined at the newer of their
times. For slices the binder brings the answer to the window's end: decayed_sum * 2^((decayed_until - window_end) /
half_life). Operators know the instants of their answers: decayed_now is the sum as it is then.

Requires: events with their time. Time: O(1) an event and a combine. Space: three numbers. Guarantee: the sum but for
rounding, a few units in the last place of the largest summand (golab 2.1.1 names time-decay; the scaled form is
forward decay, Cormode et al. 2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import Aggregate, Partial, Places, State, add_runs
from mullion.aggregates.integer_states import always
from mullion.expressions.arrays import Array
from mullion.expressions.vector import Vector
from mullion.instants import ORIGIN
from mullion.language.types import BIGINT, DOUBLE, Type


@dataclass(frozen=True)
class Decayed(Partial):
    """A state is (sum at the newest event, time of the newest event, number of events)."""

    half_life: int = 1
    kind = "decayed"
    in_spark = False
    takes_order = True

    @property
    def label(self) -> str:
        return f"{self.kind}_{self.half_life}"

    @property
    def stands_alone(self) -> bool:
        return True

    @property
    def stored(self) -> tuple[Type, ...]:
        return DOUBLE, BIGINT, BIGINT

    def spark(self, text: str) -> tuple[str, ...]:
        raise AssertionError("the kernel computes it")

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        raise AssertionError("events of no time have no age")

    def gather(self, events: Vector, starts: npt.NDArray[np.intp], places: Places | None = None) -> tuple[Vector, ...]:
        assert places is not None
        there = places.present & events.valid
        values = np.where(there, events.values, 0.0)
        state = values, np.where(there, places.time, ORIGIN), there.astype(np.int64)
        return self.store(self.reduce(state, starts), ())

    def load(self, stored: Sequence[Vector]) -> State:
        total, newest, number = stored
        return (
            np.where(total.valid, total.values, 0.0),
            np.where(newest.valid, newest.values, ORIGIN),
            np.where(number.valid, number.values, 0),
        )

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        total, newest, number = state
        return always(total, DOUBLE), always(newest, BIGINT), always(number, BIGINT)

    def identity(self, length: int) -> State:
        return np.zeros(length), np.full(length, ORIGIN), np.zeros(length, np.int64)

    def combine(self, a: State, b: State) -> State:
        newest = np.maximum(a[1], b[1])
        with np.errstate(invalid="ignore", over="ignore"):
            total = self._aged(a[0], newest - a[1]) + self._aged(b[0], newest - b[1])
        return total, newest, a[2] + b[2]

    def reduce(self, state: State, starts: npt.NDArray[np.intp]) -> State:
        total, times, number = state
        if not len(starts):
            return total[:0], times[:0], number[:0]
        newest = np.maximum.reduceat(times, starts)
        lengths = np.diff(np.append(starts, len(times)))
        aged = self._aged(total, np.repeat(newest, lengths) - times)
        with np.errstate(invalid="ignore", over="ignore"):
            return add_runs(aged, starts), newest, add_runs(number, starts)

    def _aged(self, total: Array, age: Array) -> Array:
        """What sums are after some time. An infinite one stays so."""
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            return np.where(np.isfinite(total), total * np.exp2(-age / self.half_life), total)


@dataclass(frozen=True)
class _Decaying(Aggregate):
    half_life: int = 1

    def with_parameters(self, parameters: tuple[Any, ...]) -> Aggregate:
        (half_life,) = parameters
        return replace(self, half_life=half_life)

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        return (Decayed(DOUBLE, self.half_life),)


@dataclass(frozen=True)
class DecayedSum(_Decaying):
    """The sum at the newest event."""

    name: ClassVar[str] = "decayed_sum"

    def result(self, argument: Type | None) -> Type:
        return DOUBLE

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        total, _, number = states[0]
        return Vector(DOUBLE, total.values, number.values > 0)


@dataclass(frozen=True)
class DecayedNow(DecayedSum):
    """The sum at the instant at which a group is looked at, where that is known: for operators."""

    name: ClassVar[str] = "decayed_now"

    def lower_at(self, states: Sequence[tuple[Vector, ...]], times: Array) -> Vector:
        total, newest, number = states[0]
        there = number.values > 0
        age = np.where(there, times - newest.values, 0)
        return Vector(DOUBLE, Decayed(DOUBLE, self.half_life)._aged(total.values, age), there)


@dataclass(frozen=True)
class DecayedUntil(_Decaying):
    """The time of the newest event, in microseconds."""

    name: ClassVar[str] = "decayed_until"

    def result(self, argument: Type | None) -> Type:
        return BIGINT

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        _, newest, number = states[0]
        return Vector(BIGINT, np.where(number.values > 0, newest.values, 0), number.values > 0)
