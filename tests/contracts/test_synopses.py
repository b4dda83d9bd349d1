"""The contract of every synopsis, with every partial that it accepts."""

from __future__ import annotations

from contextlib import nullcontext
from math import log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.algebra import PARTIALS, VALUES, near, picked, readable, stored_values
from mullion.aggregates import Invertible, Partial, State
from mullion.aggregates.base import Places
from mullion.aggregates.count import Count
from mullion.aggregates.extremes import Largest
from mullion.aggregates.first_last import Earliest, EarliestValue, End, Latest, LatestValue
from mullion.expressions.vector import Vector
from mullion.language.types import INT
from mullion.planner.plan import StateColumn
from mullion.planner.synopsis_choice import fewest_by_accesses
from mullion.slices.base import Synopsis
from mullion.slices.running import Running
from mullion.slices.sequence import SYNOPSES


def takes(synopsis: type[Synopsis], partial: Partial) -> bool:
    """Prefixes are subtracted, so they need an inverse; the others take anything."""
    return synopsis is not Running or isinstance(partial, Invertible)


MADE = [(s, p) for s in SYNOPSES.values() for p in PARTIALS.values() if takes(s, p)]


def seen(partial: Partial, state: State) -> list[tuple[Any, ...]]:
    return readable(partial, stored_values(partial, partial.store(state, ())))


def subjects() -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("synopsis", "partial"), MADE, ids=[f"{s.name}-{p.kind}-{p.argument}" for s, p in MADE]
    )


@subjects()
@settings(max_examples=4)
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


ENDS = (Earliest, EarliestValue, Latest, LatestValue)


@pytest.mark.slow
@pytest.mark.parametrize("synopsis", [s for s in SYNOPSES.values() if takes(s, Latest(INT))])
@pytest.mark.parametrize("kind", ENDS, ids=[kind.kind for kind in ENDS])
@given(st.data())
def test_a_range_keeps_the_order_of_events(synopsis: type[Synopsis], kind: type[End], data: st.DataObject) -> None:
    """First and last are not lifted event by event, so they are made of events with their places."""
    events = data.draw(st.lists(st.tuples(st.none() | st.integers(0, 9), st.integers(0, 3)), max_size=30))
    pairs = data.draw(st.lists(st.tuples(*[st.integers(0, len(events))] * 2), max_size=10))
    partial, every = kind(INT), np.arange(len(events))
    time = np.array([t for _, t in events], np.int64)
    places = Places(time, np.zeros(len(events), np.int64), every, np.ones(len(events), np.bool_))
    stored = partial.gather(Vector.of(INT, [v for v, _ in events]), every, places)
    low, high = np.array(pairs, np.intp).reshape(-1, 2).T
    made = synopsis(partial, partial.load(stored))  # type: ignore[call-arg]
    found = partial.store(made.between(low, high), stored)[4].to_list()
    for (a, b), got in zip(pairs, found, strict=True):
        inside = [(events[i][1], i) for i in range(a, b) if not (kind.ignores_nulls and events[i][0] is None)]
        at = (min if kind.sign > 0 else max)(inside, default=None)
        assert got == (None if at is None else events[at[1]][0])


@pytest.mark.parametrize("synopsis", SYNOPSES.values(), ids=SYNOPSES)
def test_one_nan_stays_in_its_windows(synopsis: type[Synopsis]) -> None:
    for partial in PARTIALS.values():
        if partial.argument.kind != "double" or not takes(synopsis, partial):
            continue
        stored = partial.lift(Vector.of(partial.argument, [1.0, float("nan"), 2.0, 3.0]))
        made = synopsis(partial, partial.load(stored))  # type: ignore[call-arg]
        after = partial.store(made.between(np.array([2]), np.array([4])), stored)
        assert all(v.to_list()[0] == v.to_list()[0] for v in after)


@pytest.mark.parametrize("partial", PARTIALS.values(), ids=PARTIALS)
def test_running_refuses_what_has_no_inverse(partial: Partial) -> None:
    """And the planner chooses it for those that have one, and for no others."""
    invertible = isinstance(partial, Invertible)
    with nullcontext() if invertible else pytest.raises(TypeError, match="needs an inverse"):
        Running(partial, partial.identity(3))
    assert (StateColumn.of(partial, None).synopsis == "running") == (invertible and not partial.is_heavy)


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
    built = 10_000 if name == "folded" else 0  # when windows ask for it, and not before
    assert tree.operations - before <= len(low) * (2 * log2(360) + 1) + built


def test_equal_windows_are_folded_once() -> None:
    tree = SYNOPSES["folded"](Largest(INT), (np.arange(1000),))
    low, high = np.array([100] * 50), np.array([460] * 50)
    assert tree.between(low, high)[0].tolist() == [459] * 50
    assert tree.operations <= 360, "state by state, as there are no intervals yet"
    tree.between(np.arange(900), np.full(900, 1000))
    before = tree.operations
    assert tree.between(low, high)[0].tolist() == [459] * 50
    assert tree.operations - before <= 2 * log2(360) + 1


def test_intervals_are_built_when_windows_have_looked_at_twice_the_states() -> None:
    tree = SYNOPSES["folded"](Largest(INT), (np.arange(1024),))
    for low in range(0, 1024, 8):
        tree.between(np.array([low, low + 1]), np.array([low + 8, low + 9]).clip(max=1024))
    assert states_kept(tree) == 1024
    tree.between(np.array([0, 1]), np.array([2, 3]))
    assert states_kept(tree) == 2 * 1024 - 1


def test_what_is_heavy_is_folded() -> None:
    chosen = {name: StateColumn.of(partial, None).synopsis for name, partial in PARTIALS.items()}
    heavy = {name for name, partial in PARTIALS.items() if partial.is_heavy}
    assert heavy == {name for name, synopsis in chosen.items() if synopsis == "folded"}
    assert {"hll-string", "kll-double", "frequent-date", "top_lists-int"} <= heavy
    assert chosen["max-int"] == "interval" and chosen["count-int"] == "running"


def test_one_walk_answers_all_windows_of_an_end() -> None:
    """At most b accesses for all windows of an end together, however many they are, and nothing to build."""
    intervals = 360
    for end in (360, 1000, 10_000):
        for number in (1, 7, 360):
            basic = SYNOPSES["basic interval"](Largest(INT), (np.arange(10_000),))
            assert basic.operations == 0
            low = end - np.linspace(1, intervals, number).astype(np.intp)[::-1]
            assert basic.between(low, np.full(number, end))[0].tolist() == [end - 1] * number
            assert basic.operations == (1 if number == 1 else intervals)


def test_windows_of_several_ends_take_a_walk_each() -> None:
    basic = SYNOPSES["basic interval"](Count(INT), (np.ones(100, np.int64),))
    low, high = np.array([10, 40, 0, 50, 90, 45, 7]), np.array([60, 60, 20, 60, 90, 60, 5])
    assert basic.between(low, high)[0].tolist() == [50, 20, 20, 10, 0, 15, 0]
    assert basic.operations == 50 + 20


def test_equal_windows_are_walked_once() -> None:
    basic = SYNOPSES["basic interval"](Count(INT), (np.ones(100, np.int64),))
    assert basic.between(np.full(9, 10), np.full(9, 60))[0].tolist() == [50] * 9
    assert basic.operations == 50


def test_long_walks_are_taken_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mullion.slices.basic_interval.MOST_ACCESSES", 10)
    basic = SYNOPSES["basic interval"](Largest(INT), (np.arange(100),))
    low, high = np.array([0, 95, 3, 20, 4]), np.array([99, 99, 7, 99, 4])
    assert basic.between(low, high)[0].tolist() == [98, 98, 6, 98, np.iinfo(np.int64).min]
    assert basic.operations == 99 + 4


def test_accesses_break_even_at_b_over_log_b() -> None:
    """From about b / log2 b windows of an end on, a walk takes fewer accesses than a tree (golab 8.3.1)."""
    intervals, end = 1024, 4096
    states = (np.arange(8192),)
    for number, walk_wins in ((fewest_by_accesses(intervals) // 2, False), (2 * fewest_by_accesses(intervals), True)):
        tree, basic = SYNOPSES["interval"](Largest(INT), states), SYNOPSES["basic interval"](Largest(INT), states)
        before = tree.operations
        low = end + 1 - np.linspace(intervals // 2, intervals, number).astype(np.intp)
        high = np.full(number, end + 1)
        assert tree.between(low, high)[0].tolist() == basic.between(low, high)[0].tolist()
        assert (basic.operations < tree.operations - before) == walk_wins


@pytest.mark.parametrize("name", SYNOPSES)
def test_space_is_what_the_paper_says(name: str) -> None:
    """A basic interval synopsis keeps n states, half of what a tree keeps; prefixes are one more than states."""
    states = (np.arange(1 << 12),)
    made = SYNOPSES[name](Count(INT), states)
    if name == "folded":  # whose tree is built when windows ask for it
        made.between(np.arange(3), np.full(3, 1 << 12))
    kept = {"running": 4097, "interval": 2 * 4096 - 1, "basic interval": 4096, "folded": 2 * 4096 - 1}[name]
    assert states_kept(made) == kept


def states_kept(synopsis: Synopsis) -> int:
    """The length of all arrays that a synopsis refers to."""

    def length(value: object) -> int:
        if isinstance(value, list | tuple):
            return sum(map(length, value))
        return len(value) if isinstance(value, np.ndarray) else 0

    return sum(map(length, vars(synopsis).values()))
