"""The contract of first and last: a monoid over events that know their place in the stream."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.algebra import VALUES, near, picked, stored_values
from mullion.aggregates import REGISTRY, State
from mullion.aggregates.base import Places
from mullion.aggregates.first_last import Earliest, EarliestValue, End, Latest, LatestValue
from mullion.expressions.vector import Vector, arrow_type
from mullion.language.types import BIGINT, BOOLEAN, INT, STRING, Type

ENDS = [end(type_) for end in (Earliest, Latest, EarliestValue, LatestValue) for type_ in VALUES]
every_end = pytest.mark.parametrize("end", ENDS, ids=[f"{e.kind}-{e.argument}" for e in ENDS])

Event = tuple[int, int, int, Any]
"""Time, batch, place within the batch, value."""


def events(type_: Type, least: int = 0) -> st.SearchStrategy[list[Event]]:
    """Few different times and batches, so that ties are frequent; no two events have the same place."""
    small = st.integers(-2, 2)
    event = st.tuples(small, st.integers(0, 2), st.integers(0, 9), st.sampled_from((*VALUES[type_], None)))
    return st.lists(event, min_size=least, max_size=12, unique_by=lambda e: e[:3])


def gathered(end: End, given_events: list[Event], starts: list[int]) -> tuple[Vector, ...]:
    columns = [np.array([e[i] for e in given_events], np.int64) for i in range(3)]
    values = Vector.of(end.argument, [e[3] for e in given_events])
    return end.gather(values, np.array(starts, np.intp), Places(*columns, np.ones(len(given_events), np.bool_)))


def one_by_one(end: End, given_events: list[Event]) -> tuple[tuple[Vector, ...], State]:
    """A state for each event."""
    stored = gathered(end, given_events, list(range(len(given_events))))
    return stored, end.load(stored)


def slowly(end: End, run: list[Event]) -> tuple[Any, ...]:
    """Whether there is such an event, its place and its value, by looking at each."""
    known = [e for e in run if e[3] is not None or not end.ignores_nulls]
    if not known:
        return (False,)
    return True, *(min if isinstance(end, Earliest) else max)(known, key=lambda e: e[:3])


def shown(end: End, stored: tuple[Vector, ...]) -> list[tuple[Any, ...]]:
    """States without the place and value of no event."""
    return [state if state[0] else (False,) for state in stored_values(end, stored)]


@every_end
@settings(max_examples=4)
@given(st.data())
def test_gathering_finds_the_event_at_the_end_of_each_run(end: End, data: st.DataObject) -> None:
    given_events = data.draw(events(end.argument))
    cuts = data.draw(st.sets(st.integers(0, len(given_events)), max_size=3))
    starts = sorted({0, *cuts} - {len(given_events)}) if given_events else []
    stored = gathered(end, given_events, starts)
    assert tuple(v.type for v in stored) == end.stored == (BOOLEAN, BIGINT, BIGINT, BIGINT, end.argument)
    found = shown(end, stored)
    wanted = [slowly(end, given_events[a:b]) for a, b in pairwise([*starts, len(given_events)])] if starts else []
    assert len(found) == len(wanted)
    assert all(map(near, found, wanted)), (found, wanted)
    lowered = REGISTRY[end.kind.partition("_")[0]].lower(end.argument, [stored])
    assert lowered.type == end.argument
    assert all(map(near, lowered.to_list(), [w[4] if w[0] else None for w in wanted]))


@every_end
@settings(max_examples=4)
@given(st.data())
def test_combining_is_a_commutative_monoid(end: End, data: st.DataObject) -> None:
    stored, state = one_by_one(end, data.draw(events(end.argument, 3)))
    a, b, c = (picked(state, slice(i, i + 1)) for i in range(3))
    none = end.identity(1)

    def alike(x: State, y: State) -> None:
        assert all(map(near, shown(end, end.store(x, stored)), shown(end, end.store(y, stored)))), (x, y)

    alike(end.combine(none, a), a)
    alike(end.combine(a, none), a)
    alike(end.combine(none, none), none)
    alike(end.combine(a, b), end.combine(b, a))
    alike(end.combine(end.combine(a, b), c), end.combine(a, end.combine(b, c)))


@every_end
@settings(max_examples=4)
@given(st.data())
def test_what_is_kept_goes_on_as_if_never_stored(end: End, data: st.DataObject) -> None:
    """Halves that were kept, through Arrow, and combined are the whole: also where the halves overlap in time."""
    given_events = data.draw(events(end.argument, 2))
    kept = gathered(end, given_events, [0, len(given_events) // 2])
    arrays = [v.to_arrow() for v in kept]
    assert [a.type for a in arrays] == [arrow_type(t) for t in end.stored]
    again = tuple(Vector.from_arrow(pa.chunked_array([a]), t) for a, t in zip(arrays, end.stored, strict=True))
    state = end.load(again)
    wanted = slowly(end, given_events)
    reduced = shown(end, end.store(end.reduce(state, np.array([0])), again))
    combined = shown(end, end.store(end.combine(picked(state, [0]), picked(state, [1])), again))
    assert near(reduced[0], wanted), (reduced, wanted)
    assert near(combined[0], wanted), (combined, wanted)


@pytest.mark.parametrize(
    ("given_events", "first", "last"),
    [
        pytest.param([(2, 0, 0, "late"), (1, 1, 0, "early")], "early", "late", id="time before batch"),
        pytest.param([(1, 1, 0, "later"), (1, 0, 7, "sooner")], "sooner", "later", id="batch before arrival"),
        pytest.param([(1, 0, 1, "second"), (1, 0, 0, "first")], "first", "second", id="arrival"),
        pytest.param([(1, 0, 0, None), (2, 0, 0, "a"), (3, 0, 0, None)], None, None, id="a NULL is a value"),
        pytest.param([(-(2**62), 0, 0, "a"), (2**62, 0, 0, "b")], "a", "b", id="far apart"),
    ],
)
def test_ties_go_by_arrival(given_events: list[Event], first: str | None, last: str | None) -> None:
    for order in (given_events, given_events[::-1]):
        assert gathered(Earliest(STRING), order, [0])[4].to_list() == [first]
        assert gathered(Latest(STRING), order, [0])[4].to_list() == [last]


def test_nulls_may_be_passed_over() -> None:
    given_events: list[Event] = [(1, 0, 0, None), (2, 0, 0, "a"), (3, 0, 0, "b"), (4, 0, 0, None)]
    assert gathered(EarliestValue(STRING), given_events, [0])[4].to_list() == ["a"]
    assert gathered(LatestValue(STRING), given_events, [0])[4].to_list() == ["b"]
    absent = gathered(LatestValue(STRING), given_events, [0, 3])
    assert absent[0].to_list() == [True, False]
    assert absent[4].to_list() == ["b", None]


@pytest.mark.parametrize("type_", [INT, STRING], ids=str)
def test_of_no_events_nothing_is_known(type_: Type) -> None:
    end = Earliest(type_)
    empty = gathered(end, [], [])
    assert [len(v) for v in empty] == [0] * 5
    stored = end.store(end.identity(2), empty)
    assert REGISTRY["first"].lower(type_, [stored]).to_list() == [None, None]


def test_nan_and_zeros_come_back_as_they_were() -> None:
    end = Latest(Type("double"))
    stored = gathered(end, [(1, 0, 0, 0.5), (2, 0, 0, math.nan), (3, 0, 0, -0.0)], [0, 2])
    found = stored[4].to_list()
    assert math.isnan(found[0]) and math.copysign(1, found[1]) == -1


def test_ignoring_nulls_is_written_true() -> None:
    for name in ("first", "last"):
        assert REGISTRY[name].with_parameters((True,)).partials(INT)[0] in ENDS
        assert REGISTRY[name].with_parameters(()).partials(INT) != REGISTRY[name].with_parameters((True,)).partials(INT)
        for wrong in ((1,), (True, True), ("true",)):
            with pytest.raises(TypeError, match="passed over"):
                REGISTRY[name].with_parameters(wrong)
