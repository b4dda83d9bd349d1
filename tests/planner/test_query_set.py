"""What is found of a set of queries, as columns, is what each of them says."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mullion.instants import EVERYTHING
from mullion.language.query import Column, Period
from mullion.language.types import BIGINT, STRING
from mullion.planner.predicate_slot import Slots
from mullion.planner.query_set import QuerySet
from mullion.planner.sliced import AnswerTemplate, SlicedAggregation

TEMPLATES = [AnswerTemplate((type_,), (), (), (), None, (), None) for type_ in (STRING, BIGINT, STRING)]
times = st.none() | st.integers(-50, 50)
queries = st.builds(
    SlicedAggregation,
    name=st.text("abc", max_size=2),
    text=st.just(""),
    stream=st.just("s"),
    window=st.builds(Period, st.integers(1, 9) | st.just(EVERYTHING), st.integers(1, 9), st.integers(0, 3)),
    predicate=st.sampled_from([None, Column("p"), Column("q")]),
    keys=st.sampled_from([(), (Column("k"),)]),
    template=st.sampled_from(TEMPLATES),
    start=times,
    stop=times,
    at_most=st.none() | st.just(6),
    tag=st.sampled_from(["", "", "1", "2"]),
    backfill=st.booleans(),
)


@given(st.lists(queries, max_size=6))
def test_columns_are_what_each_query_says(several: list[SlicedAggregation]) -> None:
    found = QuerySet.of(several)
    assert found == tuple(several) and QuerySet.of(found) is found
    assert found.names == [q.name for q in several]
    assert found.windows.tolist() == [list(q.window) for q in several]
    assert found.is_bounded.tolist() == [q.start is not None or q.stop is not None for q in several]
    assert found.is_scheduled.tolist() == [q.at_most is not None for q in several]
    assert found.has_keys.tolist() == [bool(q.keys) for q in several]
    assert found.never_stops.tolist() == [q.stop is None for q in several]
    assert found.starts_anywhere.tolist() == [q.start is None for q in several]
    plain = [not q.keys and q.at_most is None and q.window.range >= q.window.slide for q in several]
    assert found.is_plain.tolist() == plain
    assert found.any_endless == any(q.window.range == EVERYTHING for q in several)
    numbers, different = found.templates
    assert [different[number] for number in numbers.tolist()] == [q.template for q in several]
    assert len(set(different)) == len(different)


@given(st.lists(queries, max_size=6))
def test_slots_are_those_of_each_query(several: list[SlicedAggregation]) -> None:
    """Those with a condition first; a newcomer has two, and its number is that of its own."""
    number, slots = QuerySet.of(several).slots
    assert [slots[own] for own in number.tolist()] == [q.slot for q in several]
    assert set(slots) == {slot for q in several for slot in q.slots} and len(set(slots)) == len(slots)
    assert [slot.condition is not None for slot in slots] == sorted([s.condition is not None for s in slots])[::-1]
    assert slots.predicates == tuple(s.condition for s in slots if s.condition is not None)
    assert slots.bits == slots[: len(slots.predicates)] and slots.names == tuple(s.name for s in slots)
    assert all(slots.numbers[slot] == at for at, slot in enumerate(slots))
    sent = pickle.loads(pickle.dumps(slots))
    assert isinstance(sent, Slots) and sent == slots


def test_a_worker_gets_the_queries_and_finds_the_rest_itself() -> None:
    own = QuerySet([SlicedAggregation("q", "", "s", Period(3, 2), None, (), TEMPLATES[0])])
    assert np.array_equal(own.windows, [[3, 2, 0]])
    sent = pickle.loads(pickle.dumps(own))
    assert isinstance(sent, QuerySet) and sent == own and not vars(sent)
