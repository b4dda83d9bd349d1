"""The contract of every partial and aggregate over every argument type. A new one in the registry inherits it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce as fold
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.algebra import AGGREGATES, PARTIALS, SIMPLE, VALUES, near, picked, readable, stored_values
from mullion.aggregates import REGISTRY, Invertible, Partial, State
from mullion.aggregates.spread import Moments
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.expressions.vector import Vector, arrow_type
from mullion.language.types import BIGINT, INT, Type
from mullion.reference.aggregates import aggregate as from_definition

every_partial = pytest.mark.parametrize("partial", PARTIALS.values(), ids=PARTIALS)
every_aggregate = pytest.mark.parametrize(("name", "type_"), AGGREGATES, ids=[f"{n}-{t}" for n, t in AGGREGATES])


def items(type_: Type, least: int = 0, most: int = 12) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from((*VALUES[type_], None)), min_size=least, max_size=most)


def lifted(partial: Partial, values: Sequence[Any]) -> tuple[tuple[Vector, ...], State]:
    stored = partial.lift(Vector.of(partial.argument, values))
    assert tuple(v.type for v in stored) == partial.stored
    return stored, partial.load(stored)


def shown(partial: Partial, state: State, loaded: Sequence[Vector]) -> list[tuple[Any, ...]]:
    """States as they are kept, without what means nothing: moments of no value."""
    kept = stored_values(partial, partial.store(state, loaded))
    if isinstance(partial, Moments):
        return [(n, mean if math.isfinite(squares) else math.nan, squares) if n else (0,) for n, mean, squares in kept]
    return readable(partial, kept)


def assert_near(partial: Partial, a: list[tuple[Any, ...]], b: list[tuple[Any, ...]], values: Sequence[Any]) -> None:
    """Moments of large numbers are compared by the digits that doubles have."""
    if not isinstance(partial, Moments):
        assert all(map(near, a, b)), (a, b)
        return
    size = max((abs(float(v)) for v in values if v is not None and math.isfinite(float(v))), default=0.0)
    for x, y in zip(a, b, strict=True):
        for p, q in zip(x, y, strict=True):
            assert near(p, q) or math.isclose(p, q, rel_tol=1e-9, abs_tol=1e-13 * (size + size * size)), (a, b)


@every_partial
@settings(max_examples=4)
@given(st.data())
def test_combining_is_a_commutative_monoid(partial: Partial, data: st.DataObject) -> None:
    values = data.draw(items(partial.argument, 3, 3))
    stored, state = lifted(partial, values)
    a, b, c = (picked(state, slice(i, i + 1)) for i in range(3))
    none = partial.identity(1)

    def alike(x: State, y: State) -> None:
        assert_near(partial, shown(partial, x, stored), shown(partial, y, stored), values)

    alike(partial.combine(none, a), a)
    alike(partial.combine(a, none), a)
    alike(partial.combine(none, none), none)
    alike(partial.combine(a, b), partial.combine(b, a))
    alike(partial.combine(partial.combine(a, b), c), partial.combine(a, partial.combine(b, c)))


@every_partial
def test_a_null_lifts_to_the_identity(partial: Partial) -> None:
    stored, state = lifted(partial, [None])
    assert shown(partial, state, stored) == shown(partial, partial.identity(1), stored)


@every_partial
@settings(max_examples=4)
@given(st.data())
def test_reducing_is_folding_by_combine(partial: Partial, data: st.DataObject) -> None:
    values = data.draw(items(partial.argument))
    stored, state = lifted(partial, values)
    cuts = data.draw(st.lists(st.integers(1, max(1, len(values) - 1)), unique=True, max_size=4))
    starts = np.array(sorted({0, *(c for c in cuts if c < len(values))} if values else ()), np.intp)
    reduced = partial.reduce(state, starts)
    bounds = [*starts.tolist(), len(values)]
    assert len(reduced[0]) == len(starts)
    for i, (low, high) in enumerate(pairwise(bounds)):
        whole = fold(partial.combine, (picked(state, slice(j, j + 1)) for j in range(low, high)), partial.identity(1))
        got = shown(partial, picked(reduced, slice(i, i + 1)), stored)
        assert_near(partial, got, shown(partial, whole, stored), values)


@every_partial
@settings(max_examples=4)
@given(st.data())
def test_what_is_kept_is_what_was_known(partial: Partial, data: st.DataObject) -> None:
    """store and load, through Arrow, change nothing: also not for what comes of it later."""
    values = data.draw(items(partial.argument))
    stored, state = lifted(partial, values)
    starts = np.arange(0, len(values), 2)
    kept = partial.store(partial.reduce(state, starts), stored)
    arrays = [v.to_arrow() for v in kept]
    assert [a.type for a in arrays] == [arrow_type(t) for t in partial.stored]
    again = tuple(Vector.from_arrow(pa.chunked_array([a]), t) for a, t in zip(arrays, partial.stored, strict=True))
    first = np.zeros(1 if len(starts) else 0, np.intp)
    whole = shown(partial, partial.reduce(partial.load(again), first), again)
    assert_near(partial, whole, shown(partial, partial.reduce(state, first), stored), values)


@pytest.mark.parametrize(
    "partial", [p for p in PARTIALS.values() if isinstance(p, Invertible)], ids=lambda p: f"{p.kind}-{p.argument}"
)
@settings(max_examples=4)
@given(st.data())
def test_inverting_takes_back_exactly(partial: Invertible, data: st.DataObject) -> None:
    values = data.draw(items(partial.argument, 2))
    _, state = lifted(partial, values)
    half = len(values) // 2
    a = partial.reduce(picked(state, slice(0, half)), np.array([0]))
    b = partial.reduce(picked(state, slice(half, None)), np.array([0]))
    back = partial.invert(partial.combine(a, b), b)
    assert [f.tolist() for f in back] == [f.tolist() for f in a]
    prefixes = partial.accumulate(state)
    assert [f[0] for f in prefixes] == [f[0] for f in partial.identity(1)]
    assert [f[half] for f in prefixes] == [f[0] for f in a]
    assert all(len(f) == len(values) + 1 for f in prefixes)


@every_aggregate
@settings(max_examples=4)
@given(st.data())
def test_lift_reduce_lower_is_the_reference(name: str, type_: Type, data: st.DataObject) -> None:
    aggregate = REGISTRY[name]
    try:
        result = aggregate.result(type_)
    except TypeError:
        with pytest.raises(TypeError):
            aggregate.partials(type_)
        return
    values = data.draw(items(type_, 1))
    states = []
    for partial in aggregate.partials(type_):
        stored, state = lifted(partial, values)
        kept = partial.store(partial.reduce(state, np.array([0])), stored)
        again = tuple(Vector.from_arrow(v.to_arrow(), v.type) for v in kept)
        states.append(partial.store(partial.combine(partial.identity(1), partial.load(again)), again))
    lowered = aggregate.lower(type_, states)
    assert lowered.type == result
    known = [v for v in values if v is not None]
    wanted = from_definition(BoundAggregate(name, None, type_, result, aggregate), values)
    got = lowered.to_list()[0]
    size = max((abs(float(v)) for v in known if type_.is_numeric and math.isfinite(v)), default=0.0)
    slack = 1e-13 * (size * size if name.startswith("var") else size)
    loose = isinstance(got, float) and isinstance(wanted, float) and math.isclose(got, wanted, abs_tol=slack)
    assert near(got, wanted) or loose, (got, wanted)
    lowered.to_arrow()


@pytest.mark.parametrize("name", SIMPLE)
def test_of_nothing_only_count_knows_something(name: str) -> None:
    states = []
    for partial in REGISTRY[name].partials(INT):
        stored = partial.lift(Vector.of(INT, []))
        states.append(partial.store(partial.identity(1), stored))
    assert REGISTRY[name].lower(INT, states).to_list() == [0 if name == "count" else None]


@pytest.mark.parametrize("name", sorted(set(SIMPLE) - {"count"}))
def test_an_argument_is_needed(name: str) -> None:
    with pytest.raises(TypeError, match="needs"):
        REGISTRY[name].result(None)


def test_the_average_of_many_small_negative_numbers_keeps_its_digits() -> None:
    """The two halves of a BIGINT sum nearly cancel here: 2^24 times -1."""
    aggregate = REGISTRY["avg"]
    states = []
    for partial in aggregate.partials(BIGINT):
        stored, state = lifted(partial, [-1])
        for _ in range(24):
            state = partial.combine(state, state)
        extra = lifted(partial, [-3])[1]
        states.append(partial.store(partial.combine(state, extra), stored))
    wanted = -(2**24 + 3) / (2**24 + 1)
    assert math.isclose(aggregate.lower(BIGINT, states).to_list()[0], wanted, rel_tol=1e-15)


def test_a_large_mean_does_not_hide_a_small_spread() -> None:
    values = [1e9 + x for x in (0.0, 0.25, 0.5, 0.75)] * 1000
    partial = PARTIALS["moments-double"]
    stored, state = lifted(partial, values)
    one_by_one = fold(partial.combine, (picked(state, slice(i, i + 1)) for i in range(len(values))))
    for whole, tolerance in ((partial.reduce(state, np.array([0])), 1e-12), (one_by_one, 1e-7)):
        spread = REGISTRY["var_pop"].lower(partial.argument, [partial.store(whole, stored)])
        assert math.isclose(spread.to_list()[0], 0.078125, rel_tol=tolerance)
