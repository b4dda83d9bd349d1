"""count(*) and count(x)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import Aggregate, Invertible, Partial, State, add_runs
from mullion.language.types import BIGINT, BOOLEAN, Type
from mullion.language.vector import Vector


def always(values: npt.NDArray[np.generic], type_: Type) -> Vector:
    """A column without NULLs."""
    return Vector(type_, values, np.ones(len(values), np.bool_))


@dataclass(frozen=True)
class Count(Invertible):
    """How many values are not NULL."""

    kind = "count"

    @property
    def stored(self) -> tuple[Type, ...]:
        return (BIGINT,)

    def spark(self, text: str) -> tuple[str, ...]:
        return (f"count({text})",)

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        return (always(events.valid.astype(np.int64), BIGINT),)

    def load(self, stored: Sequence[Vector]) -> State:
        return (np.where(stored[0].valid, stored[0].values, 0),)

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        return (always(state[0], BIGINT),)

    def identity(self, length: int) -> State:
        return (np.zeros(length, np.int64),)

    def combine(self, a: State, b: State) -> State:
        return (a[0] + b[0],)

    def invert(self, a: State, b: State) -> State:
        return (a[0] - b[0],)

    def accumulate(self, state: State) -> State:
        return (np.concatenate([np.zeros(1, np.int64), np.cumsum(state[0])]),)

    def reduce(self, state: State, starts: npt.NDArray[np.intp]) -> State:
        return (add_runs(state[0], starts),)


class CountAggregate(Aggregate):
    name = "count"

    def result(self, argument: Type | None) -> Type:
        return BIGINT

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        return (Count(argument or BOOLEAN),)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        return states[0][0]
