"""Aggregates that users write in Python, and what makes them aggregates like all others.

A user's class says what a state is and how states are lifted, combined and lowered, over arrays of many states at once.
`aggregates.register` makes it known to SQL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mullion.aggregates.base import Aggregate, Invertible, Partial, State
from mullion.aggregates.count import Count
from mullion.aggregates.integer_states import always
from mullion.errors import AggregateError
from mullion.expressions.arrays import Array
from mullion.expressions.vector import Vector, dtype_of
from mullion.language.types import NAMES, Type


class UserAggregate(ABC):
    """An aggregate over numbers. Subclass it, then give the class to `mullion.register_aggregate`.

    Every method works on arrays: one value or one state in each place. Integers come as int64, whose products wrap
    around silently, all other numbers as float64. Combining must be associative and commutative, for events come in
    any order and in parts.

    >>> class GeometricMean(UserAggregate):
    ...     name = "geometric_mean"
    ...     fields = {"logarithms": "double", "n": "bigint"}
    ...     returns = "double"
    ...     identity = (0.0, 0)
    ...
    ...     def lift(self, values):
    ...         return np.log(values), np.ones(len(values), np.int64)
    ...
    ...     def combine(self, a, b):
    ...         return a[0] + b[0], a[1] + b[1]
    ...
    ...     def lower(self, logarithms, n):
    ...         return np.exp(logarithms / n)
    """

    name: ClassVar[str]
    """What queries call it."""
    fields: ClassVar[Mapping[str, str]]
    """The numbers of a state, by the names of their types: bigint, double, and the like."""
    returns: ClassVar[str]
    """The name of the type of the answer."""
    identity: ClassVar[tuple[Any, ...]]
    """The state of no values, a number for each field: combining with it changes nothing."""
    empty_is_null: ClassVar[bool] = True
    """Whether the answer over no values is NULL; otherwise it is what `lower` makes of the identity."""

    @abstractmethod
    def lift(self, values: Array) -> tuple[Array, ...]:
        """The state of each value by itself, an array for each field. NULLs have been dropped."""

    @abstractmethod
    def combine(self, a: State, b: State) -> tuple[Array, ...]:
        """The states of what is in a or in b, place by place."""

    @abstractmethod
    def lower(self, *fields: Array) -> Array:
        """The answer that each state stands for."""

    def invert(self, a: State, b: State) -> tuple[Array, ...]:
        """What must be combined with b to give a, exactly.

        Where there is one, windows are differences of running states. Leave it out if it would lose digits: then they
        are combined from a tree of states.
        """
        raise NotImplementedError


Maker = type[UserAggregate]


def named_type(name: str) -> Type:
    """A type that a field or an answer may have. Raises TypeError."""
    type_ = NAMES.get(name) if isinstance(name, str) else None
    if type_ is None or not (type_.is_integer or type_.is_fractional or type_.kind == "boolean"):
        raise TypeError(f"must be a number of fixed size, such as 'bigint' or 'double', or 'boolean', not {name!r}")
    return type_


def has_inverse(maker: Maker) -> bool:
    return maker.invert is not UserAggregate.invert


@dataclass(frozen=True)
class UserPartial(Partial):
    """The state that a user's class describes."""

    maker: Maker

    in_spark = False

    def __post_init__(self) -> None:
        # States are known by their kind, and each user's class is a kind of its own.
        object.__setattr__(self, "kind", f"user_{self.maker.name}")

    @property
    def stored(self) -> tuple[Type, ...]:
        return tuple(map(named_type, self.maker.fields.values()))

    def spark(self, text: str) -> tuple[str, ...]:
        raise AssertionError("Spark does not know aggregates of users")

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        valid = events.valid
        present = events.take(valid)
        known = present.values.astype(np.int64) if events.type.is_integer else present.to_doubles()
        lifted = self._called("lift", self.maker().lift, len(known), known)
        state = self.identity(len(events))
        for field, values in zip(state, lifted, strict=True):
            field[valid] = values
        return self.store(state, ())

    def load(self, stored: Sequence[Vector]) -> State:
        return tuple(np.where(s.valid, s.values, i) for s, i in zip(stored, self.identity(1), strict=True))

    def store(self, state: State, loaded: Sequence[Vector]) -> tuple[Vector, ...]:
        return tuple(always(field, type_) for field, type_ in zip(state, self.stored, strict=True))

    def identity(self, length: int) -> State:
        return tuple(
            np.full(length, i, dtype_of(type_)) for i, type_ in zip(self.maker.identity, self.stored, strict=True)
        )

    def combine(self, a: State, b: State) -> State:
        return self._called("combine", self.maker().combine, len(a[0]), a, b)

    def reduce(self, state: State, starts: npt.NDArray[np.intp]) -> State:
        """Neighbours of a run are combined by twos, then those, and so on: as many steps as the longest run has bits.

        Time: O(n) for n states, in O(log n) calls of `combine`.
        """
        length = np.diff(np.append(starts, len(state[0])))
        while len(starts) and length.max() > 1:
            place = np.arange(len(state[0])) - np.repeat(starts, length)
            pairs = np.flatnonzero((place % 2 == 0) & (place + 1 < np.repeat(length, length)))
            combined = self.combine(tuple(f[pairs] for f in state), tuple(f[pairs + 1] for f in state))
            state = tuple(f.copy() for f in state)
            for field, values in zip(state, combined, strict=True):
                field[pairs] = values
            state = tuple(f[place % 2 == 0] for f in state)
            length = (length + 1) // 2
            starts = np.cumsum(length) - length
        return state

    def _called(self, method: str, function: Callable[..., Any], length: int, *arguments: Any) -> State:
        """What a method of the user gives, as arrays of the types of the fields."""
        fields_given = called_by_user(self.maker, method, function, *arguments)
        if not isinstance(fields_given, tuple) or len(fields_given) != len(self.stored):
            raise AggregateError(f"{self.maker.name}: {method} must give a tuple of {len(self.stored)} arrays")
        fields = zip(self.maker.fields, fields_given, self.stored, strict=True)
        return tuple(checked(self.maker, f"field {name} of {method}", a, t, length) for name, a, t in fields)


@dataclass(frozen=True)
class InvertibleUserPartial(UserPartial, Invertible):
    """One whose class has an inverse."""

    def invert(self, a: State, b: State) -> State:
        return self._called("invert", self.maker().invert, len(a[0]), a, b)

    def accumulate(self, state: State) -> State:
        """Each state is combined with the one before it, then with the one two before, then four, and so on.

        Time: O(n log n) for n states, in O(log n) calls of `combine`.
        """
        prefixes = tuple(np.concatenate([i, f]) for i, f in zip(self.identity(1), state, strict=True))
        reach = 1
        while reach < len(prefixes[0]):
            longer = self.combine(tuple(f[:-reach] for f in prefixes), tuple(f[reach:] for f in prefixes))
            prefixes = tuple(np.concatenate([f[:reach], more]) for f, more in zip(prefixes, longer, strict=True))
            reach *= 2
        return prefixes


def partial_of(maker: Maker, argument: Type) -> UserPartial:
    return (InvertibleUserPartial if has_inverse(maker) else UserPartial)(argument, maker)


@dataclass(frozen=True)
class UserDefined(Aggregate):
    """A user's class as an aggregate that a query may write."""

    maker: Maker

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.maker.name)

    def result(self, argument: Type | None) -> Type:
        if argument is None or not argument.is_numeric:
            raise TypeError(f"needs a number{f', not {argument}' if argument else ''}")
        return named_type(self.maker.returns)

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        self.result(argument)
        assert argument is not None
        partial = partial_of(self.maker, argument)
        return (partial, Count(argument)) if self.maker.empty_is_null else (partial,)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        fields = [s.values for s in states[0]]
        result, length = self.result(argument), len(fields[0])
        answers = called_by_user(self.maker, "lower", self.maker().lower, *fields)
        values = checked(self.maker, "the answer of lower", answers, result, length)
        present = states[1][0].values > 0 if self.maker.empty_is_null else np.ones(length, np.bool_)
        return Vector(result, values, present)


def called_by_user(maker: Maker, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a method of the user gives. Bad numbers are not warned of: they are answers like others."""
    try:
        with np.errstate(all="ignore"):
            return function(*arguments)
    except Exception as error:
        raise AggregateError(f"{maker.name}: {method} failed: {type(error).__name__}: {error}") from error


def checked(maker: Maker, what: str, given: Any, type_: Type, length: int) -> Array:
    """An array of the user as one of the type."""
    array, dtype = np.asarray(given), np.dtype(dtype_of(type_))
    if array.shape != (length,):
        raise AggregateError(f"{maker.name}: {what} must be {length} numbers in a row, not of shape {array.shape}")
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise AggregateError(f"{maker.name}: {what} is {array.dtype}, which does not fit {type_}")
    return array.astype(dtype)
