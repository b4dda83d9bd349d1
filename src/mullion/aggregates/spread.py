"""Variances and standard deviations, by central moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import Aggregate, Partial, State, add_runs
from mullion.aggregates.integer_states import always
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT, DOUBLE, Type


@dataclass(frozen=True)
class Moments(Partial):
    """(count, mean, sum of squared distances from the mean), merged by Chan's formula.

    Sums of squares would be simpler and could be inverted, but lose all digits when the mean is large against the
    spread.
    """

    kind = "moments"

    @property
    def stands_alone(self) -> bool:
        return True

    @property
    def stored(self) -> tuple[Type, ...]:
        return BIGINT, DOUBLE, DOUBLE

    def spark(self, text: str) -> tuple[str, ...]:
        number = f"CAST({text} AS DOUBLE)"
        return f"count({text})", f"avg({number})", f"var_pop({number}) * count({text})"

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        numbers = np.where(events.valid, events.to_doubles(), 0.0)
        squares = np.where(np.isfinite(numbers), 0.0, np.nan)
        return (
            always(events.valid.astype(np.int64), BIGINT),
            always(numbers, DOUBLE),
            always(squares, DOUBLE),
        )

    def load(self, stored: Sequence[Vector]) -> State:
        return tuple(np.where(s.valid, s.values, 0) for s in stored)

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        return always(state[0], BIGINT), always(state[1], DOUBLE), always(state[2], DOUBLE)

    def identity(self, length: int) -> State:
        return np.zeros(length, np.int64), np.zeros(length), np.zeros(length)

    def combine(self, a: State, b: State) -> State:
        count = a[0] + b[0]
        divisor = np.where(count > 0, count, 1)
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.where((a[0] > 0) & (b[0] > 0), b[1] - a[1], 0.0)
            mean = np.where(a[0] > 0, a[1] + apart * (b[0] / divisor), b[1])
            return count, mean, a[2] + b[2] + apart * apart * (a[0] / divisor) * b[0]

    def reduce(self, state: State, starts: npt.NDArray[np.intp]) -> State:
        count = add_runs(state[0], starts)
        divisor = np.where(count > 0, count, 1)
        lengths = np.diff(np.append(starts, len(state[0])))
        with np.errstate(invalid="ignore", over="ignore"):
            shift = np.repeat(state[1][starts] if len(starts) else state[1][:0], lengths)
            mean = add_runs((state[1] - shift) * state[0], starts) / divisor
            apart = state[1] - shift - np.repeat(mean, lengths)
            squares = add_runs(np.where(state[0] > 0, state[2] + state[0] * apart * apart, 0.0), starts)
            return count, mean + (state[1][starts] if len(starts) else 0.0), squares


class _SpreadAggregate(Aggregate):
    sample: bool
    root: bool

    def result(self, argument: Type | None) -> Type:
        self.partials(argument)
        return DOUBLE

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        if argument is None or not argument.is_numeric:
            raise TypeError(f"needs a number{f', not {argument}' if argument else ''}")
        return (Moments(argument),)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        count, squares = states[0][0].values, states[0][2].values
        divisor = count - 1 if self.sample else count
        present = divisor > 0
        with np.errstate(invalid="ignore"):
            spread = squares / np.where(present, divisor, 1)
            return Vector(DOUBLE, np.sqrt(spread) if self.root else spread, present)


class VarPopAggregate(_SpreadAggregate):
    name, sample, root = "var_pop", False, False


class VarSampAggregate(_SpreadAggregate):
    name, sample, root = "var_samp", True, False


class StddevPopAggregate(_SpreadAggregate):
    name, sample, root = "stddev_pop", False, True


class StddevSampAggregate(_SpreadAggregate):
    name, sample, root = "stddev_samp", True, True
