"""Makes a user's aggregate known to SQL, once its algebra holds on a sample."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from mullion.aggregates import REGISTRY
from mullion.aggregates.base import State
from mullion.aggregates.integer_states import always
from mullion.aggregates.user import (
    InvertibleUserPartial,
    Maker,
    UserAggregate,
    UserDefined,
    UserPartial,
    called_by_user,
    has_inverse,
    named_type,
    partial_of,
)
from mullion.errors import AggregateError
from mullion.expressions.functions import NAMES
from mullion.expressions.vector import Vector
from mullion.language.dialect import AGGREGATES, OPERATOR_ONLY, QUOTED_WHEN_RENDERED
from mullion.language.types import BIGINT, DOUBLE

SAMPLES = {
    DOUBLE: (0.1, 1e17, 3.25, 0.1, 7.0, 0.3),
    BIGINT: (1, 12, 2**40, 1, 7, 3),
}
"""Positive numbers, so that logarithms and roots have a say; sums of these doubles lose digits."""


def register_aggregate(maker: Maker) -> None:
    """Let queries call the aggregate by its name. Registering the very same class again does nothing.

    Raises AggregateError where the name is taken or none, a type is unknown, or the algebra does not hold: states must
    combine in any order, the identity must change nothing, and an inverse must take back exactly.
    """
    if not (isinstance(maker, type) and issubclass(maker, UserAggregate)) or inspect.isabstract(maker):
        missing = sorted(getattr(maker, "__abstractmethods__", ()))
        hint = f"it lacks {', '.join(missing)}" if missing else None
        raise AggregateError(f"{maker!r} is no complete subclass of UserAggregate", hint=hint)
    name = getattr(maker, "name", None)
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii() or name != name.lower():
        raise AggregateError(f"an aggregate's name must be a lower-case word, not {name!r}")
    known = REGISTRY.get(name)
    if isinstance(known, UserDefined) and known.maker is maker:
        return
    if name in AGGREGATES or known is not None:
        raise AggregateError(f"there is an aggregate {name} already", hint="choose another name")
    if name in NAMES or name in OPERATOR_ONLY or name in QUOTED_WHEN_RENDERED:
        raise AggregateError(f"{name} has a meaning in SQL already", hint="choose another name")
    _check_declarations(maker)
    called_by_user(maker, "making one without arguments", maker)
    for type_, values in SAMPLES.items():
        _check_algebra(partial_of(maker, type_), Vector.of(type_, values))
    REGISTRY[name] = UserDefined(maker)
    AGGREGATES[name] = name


def _check_declarations(maker: Maker) -> None:
    fields = getattr(maker, "fields", None)
    if not isinstance(fields, Mapping) or not fields:
        raise AggregateError(f"{maker.name}: fields must name the numbers of a state and their types")
    for what, type_name in (*((f"field {f}", t) for f, t in fields.items()), ("returns", _declared(maker, "returns"))):
        try:
            named_type(type_name)
        except TypeError as wrong:
            raise AggregateError(f"{maker.name}: {what} {wrong}") from None
    identity = _declared(maker, "identity")
    if not isinstance(identity, tuple) or len(identity) != len(fields):
        raise AggregateError(f"{maker.name}: identity must be a tuple of {len(fields)}, a number for each field")
    for number, (field, type_name) in zip(identity, fields.items(), strict=True):
        if not isinstance(number, int | float | np.number | np.bool_) or (
            named_type(type_name).is_integer and not float(number).is_integer()
        ):
            raise AggregateError(f"{maker.name}: {number!r} in identity is no {type_name} for field {field}")


def _declared(maker: Maker, attribute: str) -> Any:
    try:
        return getattr(maker, attribute)
    except AttributeError:
        raise AggregateError(f"{maker.name}: {attribute} is missing") from None


def _check_algebra(partial: UserPartial, values: Vector) -> None:
    maker = partial.maker
    partial.lift(values.take(slice(0)))
    state = partial.load(partial.lift(values))
    none = partial.identity(len(values))
    _same(maker, "identity must be neutral: combined with a state it", partial.combine(none, state), state)
    _same(maker, "identity must be neutral: a state combined with it", partial.combine(state, none), state)
    _same(maker, "identity must be neutral: combined with itself it", partial.combine(none, none), none)
    places = np.array(list(product(range(len(values)), repeat=3))).T
    a, b, c = (tuple(field[at] for field in state) for at in places)
    _same(maker, "combine must be commutative: b with a", partial.combine(b, a), partial.combine(a, b), a, b)
    left, right = partial.combine(partial.combine(a, b), c), partial.combine(a, partial.combine(b, c))
    _same(maker, "combine must be associative: (a with b) with c", left, right, a, b, c)
    if has_inverse(maker):
        assert isinstance(partial, InvertibleUserPartial)
        back = partial.invert(partial.combine(a, b), b)
        if not all(np.array_equal(x, y, equal_nan=True) for x, y in zip(back, a, strict=True)):
            hint = "doubles lose digits when they are added: keep whole numbers, or leave invert out"
            raise AggregateError(f"{maker.name}: invert must take back exactly what combine added", hint=hint)
    stored = partial.store(state, ())
    ones = (always(np.ones(len(values), np.int64), BIGINT),)
    for length in (len(values), 0):
        states = [tuple(v.take(slice(length)) for v in vectors) for vectors in (stored, ones)]
        UserDefined(maker).lower(partial.argument, states)


def _same(maker: Maker, what: str, result: State, wanted: State, *parts: State) -> None:
    """Equal, but for the last digits that doubles of the size of the parts have."""
    for i, (field, x, y) in enumerate(zip(maker.fields, result, wanted, strict=True)):
        with np.errstate(all="ignore"):
            slack = np.zeros(len(x)) if x.dtype.kind != "f" else 1e-9 * np.abs(y)
            for part in parts if x.dtype.kind == "f" else ():
                slack += 1e-12 * np.abs(part[i])
            same = (x == y) | ((x != x) & (y != y)) | (np.abs(x.astype(np.float64) - y) <= slack)
        if not same.all():
            at = int(np.flatnonzero(~same)[0])
            raise AggregateError(f"{maker.name}: {what} gives {field} = {x[at]}, not {y[at]}")
