"""States of whole numbers that are added: the simplest group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import Invertible, State, add_runs
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT, Type


def always(values: npt.NDArray[np.generic], type_: Type) -> Vector:
    """A column without NULLs."""
    return Vector(type_, values, np.ones(len(values), np.bool_))


class WholeNumbers(Invertible):
    """Any number of BIGINT fields, each added by itself. Kinds say what they lift and how Spark computes it."""

    @property
    def is_dense(self) -> bool:
        return True

    @property
    def stands_alone(self) -> bool:
        return True

    def narrowed(self, state: State) -> State:
        """The same in fewer fields, where the sum of any of these states has room in them."""
        return state

    def write(self, parts: Sequence[State], out: npt.NDArray[np.int64]) -> int:
        """Write the fields of states, one part of them after the other, into the first rows of `out`: fewer fields
        where they are `narrowed`. Returns how many rows that takes."""
        for at in range(len(self.stored)):
            np.concatenate([part[at] for part in parts], out=out[at])
        return len(self.stored)

    def load(self, stored: Sequence[Vector]) -> State:
        return tuple(s.values if s.valid.all() else np.where(s.valid, s.values, 0) for s in stored)

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
