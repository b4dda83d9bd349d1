"""What all sketches have in common: small summaries that merge, kept as bytes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from mullion.aggregates.base import Partial, Places, State
from mullion.expressions.arrays import Array, Index, objects
from mullion.expressions.vector import Vector
from mullion.language.types import BINARY, Type

OPENED = 600
"""Bytes of a sketch that is opened, beside its values: the object, its arrays, and its place among others."""


@dataclass(frozen=True)
class Sketched(Partial):
    """A state of sketches, one for each stored column: bytes when kept, objects when computed with.

    No values make no sketch: None, kept as NULL, is the identity. A sketch is never changed once it stands in a state,
    so that states may hold the same one.
    """

    in_spark = False
    is_heavy = True

    @property
    def stored(self) -> tuple[Type, ...]:
        return (BINARY,)

    @property
    def opened_bytes(self) -> int:
        return OPENED * len(self.stored)

    @abstractmethod
    def build(self, events: Vector, starts: Index) -> State:
        """The sketches of each run of events."""

    @abstractmethod
    def merged(self, sketches: Sequence[Any]) -> Any:
        """A new sketch of all that two or more have seen."""

    @abstractmethod
    def read(self, written: bytes) -> Any: ...

    @abstractmethod
    def write(self, sketch: Any) -> bytes: ...

    def spark(self, text: str) -> tuple[str, ...]:
        raise AssertionError(f"Spark does not make a {self.kind}")

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        return self.gather(events, np.arange(len(events)))

    def gather(self, events: Vector, starts: Index, places: Places | None = None) -> tuple[Vector, ...]:
        return self.store(self.build(events, starts), ())

    def load(self, stored: Sequence[Vector]) -> State:
        return tuple(self.opened(column) for column in stored)

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        return tuple(
            _column(objects([None if sketch is None else self.write(sketch) for sketch in field])) for field in state
        )

    def finish(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        return tuple(map(_column, state))

    def opened(self, column: Vector) -> Array:
        """The sketches of a column, be they kept ones or finished ones. Rows that share their bytes share a sketch."""
        sketches: dict[int, Any] = {}
        for item, valid in zip(column.values, column.valid, strict=True):
            if valid and id(item) not in sketches:
                sketches[id(item)] = self.read(item) if isinstance(item, bytes) else item
        known = zip(column.values, column.valid, strict=True)
        return objects([sketches[id(item)] if valid else None for item, valid in known])

    def identity(self, length: int) -> State:
        return tuple(np.full(length, None, np.object_) for _ in self.stored)

    def combine(self, a: State, b: State) -> State:
        return tuple(
            objects([self._whole((x, y)) for x, y in zip(left, right, strict=True)])
            for left, right in zip(a, b, strict=True)
        )

    def reduce(self, state: State, starts: Index) -> State:
        return tuple(
            objects([self._whole(field[low:high]) for low, high in runs_of(starts, len(field))]) for field in state
        )

    def _whole(self, sketches: Sequence[Any] | Array) -> Any:
        present = [sketch for sketch in sketches if sketch is not None]
        return self.merged(present) if len(present) > 1 else present[0] if present else None


def library() -> Any:
    """Apache DataSketches. No module holds its names: of what is still held when Python ends, the bindings complain on
    stderr."""
    import datasketches

    return datasketches


def runs_of(starts: Index, length: int) -> Iterator[tuple[int, int]]:
    """Where each run begins and ends."""
    return pairwise([*starts.tolist(), length])


def _column(items: Array) -> Vector:
    return Vector(BINARY, items, np.fromiter((item is not None for item in items), np.bool_, len(items)))
