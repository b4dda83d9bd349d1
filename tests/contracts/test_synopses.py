"""The contract of every synopsis, with every partial that it accepts."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.algebra import PARTIALS, VALUES, near, picked, readable, stored_values
from mullion.aggregates import Invertible, Partial, State
from mullion.aggregates.count import Count
from mullion.aggregates.extremes import Largest
from mullion.language.types import INT
from mullion.language.vector import Vector
from mullion.planner.plan import StateColumn
from mullion.windows.base import Synopsis
from mullion.windows.sequence import SYNOPSES

MADE = [(s, p) for s in SYNOPSES.values() for p in PARTIALS.values() if s.accepts(p)]


def seen(partial: Partial, state: State) -> list[tuple[Any, ...]]:
    return readable(partial, stored_values(partial, partial.store(state, ())))


def subjects() -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("synopsis", "partial"), MADE, ids=[f"{s.name}-{p.kind}-{p.argument}" for s, p in MADE]
    )


@subjects()
@settings(max_examples=8)
@given(st.data())
def test_a_range_is_what_recomputing_gives(synopsis: type[Synopsis], partial: Partial, data: st.DataObject) -> None:
    plain = [v for v in VALUES[partial.argument] if v == v and v not in (float("inf"), float("-inf"))]
    values = data.draw(st.lists(st.sampled_from((*plain, None)), max_size=40))
    pairs = data.draw(st.lists(st.tuples(*[st.integers(0, len(values))] * 2), max_size=10))
    stored = partial.lift(Vector.of(partial.argument, values))
    state = partial.load(stored)
    low, high = np.array(pairs, np.intp).reshape(-1, 2).T
    found = synopsis(partial, state).between(low, high)  # type: ignore[call-arg]
    assert len(found[0]) == len(pairs)
    if partial.is_heavy:
        wholes = [partial.reduce(picked(state, slice(a, max(a, b))), np.arange(int(a < b))) for a, b in pairs]
        whole = [row for w in wholes for row in seen(partial, w if len(w[0]) else partial.identity(1))]
        assert all(map(near, seen(partial, found), whole))
        return
    size = max((abs(float(v)) for v in plain if partial.argument.is_numeric), default=0.0)
    for i, (a, b) in enumerate(pairs):
        whole = partial.identity(1)
        if a < b:
            whole = partial.reduce(picked(state, slice(a, b)), np.array([0]))
        for got, right in zip(found, whole, strict=True):
            x, y = got[i].item() if hasattr(got[i], "item") else got[i], right[0]
            assert near(x, y) or np.isclose(float(x), float(y), rtol=1e-9, atol=1e-12 * (size + size * size))


@pytest.mark.parametrize("synopsis", SYNOPSES.values(), ids=SYNOPSES)
def test_one_nan_stays_in_its_windows(synopsis: type[Synopsis]) -> None:
    for partial in PARTIALS.values():
        if partial.argument.kind != "double" or not synopsis.accepts(partial):
            continue
        stored = partial.lift(Vector.of(partial.argument, [1.0, float("nan"), 2.0, 3.0]))
        made = synopsis(partial, partial.load(stored))  # type: ignore[call-arg]
        after = partial.store(made.between(np.array([2]), np.array([4])), stored)
        assert all(v.to_list()[0] == v.to_list()[0] for v in after)


@pytest.mark.parametrize("partial", PARTIALS.values(), ids=PARTIALS)
def test_running_refuses_what_has_no_inverse(partial: Partial) -> None:
    running = SYNOPSES["running"]
    assert running.accepts(partial) == isinstance(partial, Invertible)
    assert SYNOPSES["interval"].accepts(partial)
    if not isinstance(partial, Invertible):
        with pytest.raises(TypeError, match="needs an inverse"):
            running(partial, partial.identity(3))


def test_prefixes_of_a_maximum_would_answer_wrongly() -> None:
    """Why an inverse is needed: of the prefix maxima 9, 9, 9 nothing tells that the last two values are 1 and 2."""
    values = np.array([9, 1, 2])
    assert np.maximum.accumulate(values)[-1] == 9
    assert SYNOPSES["interval"](Largest(INT), (values,)).between(np.array([1]), np.array([3]))[0].tolist() == [2]


def test_operations_of_a_window() -> None:
    """A window of 360 states takes two nodes a level in a tree of intervals, and one difference of prefixes."""
    states = (np.arange(10_000),)
    tree, prefixes = SYNOPSES["interval"](Largest(INT), states), SYNOPSES["running"](Count(INT), states)
    assert tree.operations < 10_000
    assert prefixes.operations == 10_000
    for low in range(0, 9000, 37):
        at = np.array([low])
        before = tree.operations, prefixes.operations
        assert tree.between(at, at + 360)[0].tolist() == [low + 359]
        assert prefixes.between(at, at + 360)[0].tolist() == [sum(range(low, low + 360))]
        assert tree.operations - before[0] <= 2 * log2(360) + 1
        assert prefixes.operations - before[1] == 1


@pytest.mark.parametrize("name", ["interval", "folded"])
def test_all_windows_at_once_take_no_more(name: str) -> None:
    low = np.arange(0, 9000, 37)
    tree = SYNOPSES[name](Largest(INT), (np.arange(10_000),))
    before = tree.operations
    assert tree.between(low, low + 360)[0].tolist() == (low + 359).tolist()
    assert tree.operations - before <= len(low) * (2 * log2(360) + 1)


def test_equal_windows_are_folded_once() -> None:
    tree = SYNOPSES["folded"](Largest(INT), (np.arange(1000),))
    before = tree.operations
    assert tree.between(np.array([100] * 50), np.array([460] * 50))[0].tolist() == [459] * 50
    assert tree.operations - before <= 2 * log2(360) + 1


def test_what_is_heavy_is_folded() -> None:
    chosen = {name: StateColumn.of(partial, None).synopsis for name, partial in PARTIALS.items()}
    heavy = {name for name, partial in PARTIALS.items() if partial.is_heavy}
    assert heavy == {name for name, synopsis in chosen.items() if synopsis == "folded"}
    assert {"hll-string", "kll-double", "frequent-date", "top_lists-int"} <= heavy
    assert chosen["max-int"] == "interval" and chosen["count-int"] == "running"
