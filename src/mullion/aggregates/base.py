"""The algebra of aggregates: lift, combine, lower, and invert where it exists.

An average shows the parts: an event is *lifted* to (value, 1), states are *combined* by adding both fields, and a
state is *lowered* to sum / count. A state that can be taken back out of another is *inverted* by subtracting both.

Two families meet here. A `Partial` is a state that slices keep: a monoid over columns of numbers. An `Aggregate` is
what a user writes: it names the partials that it needs and lowers them. Aggregates over the same expression share
their partials: avg(x), sum(x) and count(x) of a thousand queries keep one sum and one count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Array
from mullion.expressions.vector import Vector
from mullion.language.types import Type

State = tuple[Array, ...]
"""The fields of many states side by side: arrays of one length, without NULLs."""


class Places(NamedTuple):
    """Where events stand in the order of the stream: event time, then arrival."""

    time: npt.NDArray[np.int64]
    part: npt.NDArray[np.int64]
    """The batch, and the file or partition in it."""
    arrival: npt.NDArray[np.int64]
    """The place within the part."""
    present: npt.NDArray[np.bool_]
    """Whether the event counts at all; FILTER leaves some out."""

    def take(self, index: Any) -> Places:
        return Places(*(column[index] for column in self))


@dataclass(frozen=True)
class Partial(ABC):
    """A state kept for every slice: a commutative monoid over the values of one expression.

    Events and kept states are `Vector`s of the types in `stored`. `load` turns them into a `State` to compute with;
    `store` turns one that was computed from them back.
    """

    argument: Type
    kind: ClassVar[str]
    in_spark: ClassVar[bool] = True
    """Whether Spark can compute it; otherwise only the kernel does."""
    is_heavy: ClassVar[bool] = False
    """Whether taking many states together at once costs far less than combining them two by two, as with sketches."""
    takes_order: ClassVar[bool] = False
    """Whether it needs the place of each event: then events come to `gather` with their `Places`."""

    @property
    def label(self) -> str:
        """What tells it from all other partials over the same expression."""
        return self.kind

    @property
    def opened_bytes(self) -> int:
        """About how many bytes a state takes while it is computed with, beside its stored columns: those of objects."""
        return 0

    @property
    def is_dense(self) -> bool:
        """Whether the fields of a state are numbers of fixed size that are added, or of which the least or the most is
        kept: what a compiled loop over events can do."""
        return False

    @property
    def stands_alone(self) -> bool:
        """Whether states mean the same wherever they were loaded, so that they can be kept and combined with others
        later, and finished without what they were loaded from."""
        return False

    @property
    def is_numbered(self) -> bool:
        """Whether states do not stand alone only because of their values: who keeps them can number these."""
        return False

    @property
    @abstractmethod
    def stored(self) -> tuple[Type, ...]:
        """The types of the columns that a kept state takes."""

    @abstractmethod
    def spark(self, text: str) -> tuple[str, ...]:
        """Spark SQL aggregates that give the stored columns over the expression `text`."""

    @abstractmethod
    def lift(self, events: Vector) -> tuple[Vector, ...]:
        """One state for each event; a NULL event lifts to the identity."""

    def gather(self, events: Vector, starts: npt.NDArray[np.intp], places: Places | None = None) -> tuple[Vector, ...]:
        """The kept state of each run of events; runs begin at `starts`. `places` are given to those that take order."""
        lifted = self.lift(events)
        return self.store(self.reduce(self.load(lifted), starts), lifted)

    @abstractmethod
    def load(self, stored: Sequence[Vector]) -> State: ...

    @abstractmethod
    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        """The kept form of states that were computed from `loaded`."""

    def finish(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        """What `Aggregate.lower` takes: the kept form, unless making that costs more than the answer."""
        return self.store(state, loaded)

    @abstractmethod
    def identity(self, length: int) -> State: ...

    @abstractmethod
    def combine(self, a: State, b: State) -> State: ...

    @abstractmethod
    def reduce(self, state: State, starts: npt.NDArray[np.intp]) -> State:
        """Combine each run of neighbours; runs begin at `starts`, the first of which is 0."""


class Invertible(Partial):
    """A partial that forms a group, exactly: subtracting loses nothing, so prefix states answer any window.

    A plain sum of doubles is none. It has an inverse on paper, but the difference of two large prefixes loses the
    digits of a small window, and one NaN would stay in every later prefix.
    """

    @abstractmethod
    def invert(self, a: State, b: State) -> State:
        """What must be combined with b to give a."""

    @abstractmethod
    def accumulate(self, state: State) -> State:
        """All prefixes: combine of the first 0, 1, .., n states."""


def has_prefixes(partial: Partial) -> TypeGuard[Invertible]:
    """Whether windows are differences of prefixes: there is an exact inverse, and a state is small enough to be kept
    for every prefix. Others with an inverse are subtracted only from what a window that slides holds."""
    return isinstance(partial, Invertible) and not partial.is_heavy


DISTRIBUTIVE, ALGEBRAIC, HOLISTIC = "distributive", "algebraic", "holistic"
"""Whether a state is the answer itself, some numbers of fixed size, or has no bound (li 3.2.1, after Gray)."""

FULL, PSEUDO, NONE = "full", "pseudo", "none"
"""Whether a window can be had from the one before by subtracting: with states of fixed size, with states that grow, or
not at all (li 3.2.2)."""


@dataclass(frozen=True)
class Aggregate(ABC):
    """A function that a query may write. A new kind adds one class; `aggregates.REGISTRY` finds it by its name.

    Constants that a query writes after the argument, as in percentile(x, 0.9), are fields of the aggregate.
    """

    name: ClassVar[str]
    algebra: ClassVar[str] = ALGEBRAIC
    casts_text: ClassVar[bool] = True
    """Whether a text argument is read as a number, as Spark does for arithmetic."""
    keeps_nulls: ClassVar[bool] = False
    """Whether a NULL is a value like any other, so that FILTER cannot turn what it drops into one."""
    is_exact: ClassVar[bool] = True
    """Whether the answer is right but for the last digits of doubles; otherwise the aggregate says how far it errs."""
    asks_for_value: ClassVar[bool] = False
    """Whether the first constant after the argument is a value of the argument's type."""
    columns: ClassVar[int] = 1
    """How many of its arguments are computed of every event; constants follow them. count takes any number."""
    from_values: ClassVar[bool] = False
    """Whether it is computed from how often each value occurs; see `aggregates.values`."""

    def with_parameters(self, parameters: tuple[Any, ...]) -> Aggregate:
        """The aggregate with the constants that were written after its argument. Raises TypeError."""
        if parameters:
            raise TypeError(f"takes one argument, not {1 + len(parameters)}")
        return self

    def differential(self, argument: Type | None) -> str:
        """How a window follows from the one before."""
        if self.from_values:
            return PSEUDO
        return FULL if all(isinstance(p, Invertible) for p in self.partials(argument)) else NONE

    @abstractmethod
    def result(self, argument: Type | None) -> Type:
        """The type of the answer, as Spark has it. Raises TypeError saying what is wrong with the argument."""

    @abstractmethod
    def partials(self, argument: Type | None) -> tuple[Partial, ...]: ...

    @abstractmethod
    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        """Answers from the stored or finished form of the partials' states, in the order of `partials`."""


def add_runs(values: Array, starts: npt.NDArray[np.intp]) -> Array:
    return np.add.reduceat(values, starts) if len(starts) else values[:0]
