"""first(x) and last(x): the value of the earliest or the latest event of a window.

Events are ordered by event time, then by arrival: batch, file, then the row in it. As in Spark, a NULL is a value
like any other unless NULLs are ignored, written first(x, true) or first(x) IGNORE NULLS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import DISTRIBUTIVE, Aggregate, Partial, Places, State
from mullion.aggregates.integer_states import always
from mullion.aggregates.place_loops import earliest_of_runs
from mullion.expressions.arrays import Array
from mullion.expressions.readonly import frozen
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT, BOOLEAN, Type


@dataclass(frozen=True)
class End(Partial):
    """The event at one end of the order, and its value.

    A state is (present, time, part, arrival, row): rows point into the values that were loaded together, so that
    values of any type move as numbers. Stored, the row is the value itself.
    """

    in_spark = False
    takes_order = True
    sign: ClassVar[int]
    """1 to keep the event with the smallest place, -1 for the largest."""
    ignores_nulls: ClassVar[bool] = False

    @property
    def stored(self) -> tuple[Type, ...]:
        return BOOLEAN, BIGINT, BIGINT, BIGINT, self.argument

    def spark(self, text: str) -> tuple[str, ...]:
        raise AssertionError("Spark does not know the order of events")

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        raise AssertionError("events of no place have no order")

    def gather(self, events: Vector, starts: npt.NDArray[np.intp], places: Places | None = None) -> tuple[Vector, ...]:
        assert places is not None
        present = places.present & events.valid if self.ignores_nulls else places.present
        lifted = (always(present, BOOLEAN), *(always(p, BIGINT) for p in places[:3]), events)
        return self.store(self.reduce(self.load(lifted), starts), lifted)

    @property
    def is_dense(self) -> bool:
        """The rank of an event in the order of the stream is one number."""
        return True

    @property
    def is_numbered(self) -> bool:
        return True

    def load(self, stored: Sequence[Vector]) -> State:
        return self.placed(stored[0], stored[1:4], np.arange(len(stored[0])))

    def placed(self, present: Vector, places: Sequence[Vector], numbers: Array) -> State:
        """States with numbers that stand for their values."""
        return present.valid & present.values.astype(np.bool_), *(p.values * self.sign for p in places), numbers

    def with_places(self, state: State, value: Vector) -> tuple[Vector, ...]:
        """The kept form of states whose values are known."""
        return always(state[0], BOOLEAN), *(always(p * self.sign, BIGINT) for p in state[1:4]), value

    def of_rows(self, present: Array, row: Array, places: Places, events: Vector) -> tuple[Vector, ...]:
        """The kept form of states of which each is one event, if any."""
        loaded = (events,) * 5
        found = (place[row] * self.sign for place in places[:3])
        return self.store((present, *found, row), loaded)

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        present, *_, row = state
        values = loaded[4]
        if not len(values):
            absent = np.zeros(len(row), values.values.dtype)
            value = Vector(self.argument, absent, np.zeros(len(row), np.bool_))
        else:
            found = values.take(row)
            value = replace(found, valid=found.valid & present)
        return self.with_places(state, value)

    def identity(self, length: int) -> State:
        return np.zeros(length, np.bool_), *(np.zeros(length, np.int64) for _ in range(4))

    def combine(self, a: State, b: State) -> State:
        earlier = b[0] & (~a[0] | _before(b[1:4], a[1:4]))
        return tuple(np.where(earlier, y, x) for x, y in zip(a, b, strict=True))

    def reduce(self, state: State, starts: npt.NDArray[np.intp]) -> State:
        first = np.empty(len(starts), np.intp)
        present, time, part, arrival, begins = frozen(*state[:4], starts)
        earliest_of_runs(present, time, part, arrival, begins, first)
        return tuple(field[first] for field in state)


def _before(a: Sequence[Array], b: Sequence[Array]) -> npt.NDArray[np.bool_]:
    earlier: npt.NDArray[np.bool_] = a[2] < b[2]
    for x, y in ((a[1], b[1]), (a[0], b[0])):
        earlier = (x < y) | ((x == y) & earlier)
    return earlier


@dataclass(frozen=True)
class Earliest(End):
    kind = "first"
    sign = 1


@dataclass(frozen=True)
class Latest(End):
    kind = "last"
    sign = -1


@dataclass(frozen=True)
class EarliestValue(Earliest):
    kind = "first_not_null"
    ignores_nulls = True


@dataclass(frozen=True)
class LatestValue(Latest):
    kind = "last_not_null"
    ignores_nulls = True


@dataclass(frozen=True)
class EndAggregate(Aggregate):
    algebra = DISTRIBUTIVE
    casts_text = False
    keeps_nulls = True
    partial: ClassVar[type[End]]
    partial_without_nulls: ClassVar[type[End]]
    ignores_nulls: bool = False

    def with_parameters(self, parameters: tuple[Any, ...]) -> Aggregate:
        if not parameters:
            return self
        if len(parameters) > 1 or not isinstance(parameters[0], bool):
            raise TypeError("takes an argument and, if NULLs are to be passed over, true")
        return replace(self, ignores_nulls=parameters[0])

    def result(self, argument: Type | None) -> Type:
        if argument is None:
            raise TypeError("needs an argument")
        return argument

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        partial = self.partial_without_nulls if self.ignores_nulls else self.partial
        return (partial(self.result(argument)),)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        return states[0][4]


@dataclass(frozen=True)
class FirstAggregate(EndAggregate):
    name = "first"
    partial, partial_without_nulls = Earliest, EarliestValue


@dataclass(frozen=True)
class LastAggregate(EndAggregate):
    name = "last"
    partial, partial_without_nulls = Latest, LatestValue
