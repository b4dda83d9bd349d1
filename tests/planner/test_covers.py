"""Covers of predicates: the example of golab 8.3.3, and random predicates against the events that satisfy them."""

from __future__ import annotations

from collections import Counter
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, INT, STRING, TIMESTAMP
from mullion.planner.covers import Combining, Cover, combining
from mullion.planner.plan import Grouping
from mullion.planner.rules import make_plan
from mullion.reference.expressions import values_of

PACKETS = Stream("p", (("ts", TIMESTAMP), ("host", INT), ("proto", INT), ("usr", STRING), ("size", BIGINT)), "ts")


def grouping_of(*wheres: str, items: str = "sum(size) AS v") -> Grouping:
    texts = [
        f"SELECT {items} FROM p [RANGE 10 s SLIDE 1 s]{f' WHERE {where}' if where else ''} GROUP BY host"
        for where in wheres
    ]
    queries = [bind(parse_query(text, name=f"q{i}"), {"p": PACKETS}) for i, text in enumerate(texts)]
    (grouping,) = make_plan(PACKETS, queries).answering
    return grouping


def covers_of(kind: Combining, *wheres: str) -> dict[str, tuple[set[str], set[str]]]:
    """By the predicates as they were written."""
    grouping = grouping_of(*wheres)
    name = {int(slot): where for slot, where in zip(grouping.slot_of, wheres, strict=True)}
    return {
        name[slot]: ({name[i] for i in cover.added}, {name[i] for i in cover.taken})
        for slot, cover in grouping.covers.of(kind).items()
    }


TCP, UDP, EITHER = "proto = 6", "proto = 17", "proto = 6 OR proto = 17"
USER, TCP_OR_USER = "usr = 'U'", "proto = 6 OR usr = 'U'"


def test_the_example_of_the_thesis() -> None:
    """Q1 and Q2 are a disjoint cover of Q3, Q4 and Q5 one of Q6 that is not disjoint."""
    sums, tops = (TCP, UDP, EITHER), (TCP, USER, TCP_OR_USER)
    assert covers_of(Combining.SUBTRACTING, *sums) == {EITHER: ({TCP, UDP}, set())}
    assert covers_of(Combining.ANY, *tops) == {TCP_OR_USER: ({TCP, USER}, set())}
    assert covers_of(Combining.DISJOINT, *tops) == covers_of(Combining.SUBTRACTING, *tops) == {}
    assert covers_of(Combining.ANY, TCP, EITHER) == covers_of(Combining.ANY, UDP, TCP_OR_USER) == {}


def test_a_supercover_less_its_surplus() -> None:
    sets = ("proto < 9", "proto < 3", "proto >= 3 AND proto < 9", "proto < 5", "proto >= 5 AND proto < 9")
    found = covers_of(Combining.SUBTRACTING, *sets)
    assert {len(taken) for _, taken in found.values()} == {0, 1}
    assert all(not taken for _, taken in covers_of(Combining.DISJOINT, *sets).values())


def test_the_rest_of_a_conjunction_must_be_the_same() -> None:
    own = tuple(f"({where}) AND usr = 'U'" for where in (TCP, UDP, EITHER))
    assert covers_of(Combining.DISJOINT, *own) == {own[2]: ({own[0], own[1]}, set())}
    assert covers_of(Combining.DISJOINT, own[0], UDP, EITHER, own[2]) == {}


@pytest.mark.parametrize(
    ("items", "kind"),
    [
        ("sum(size) AS v, count(*) AS n, avg(size) AS m", Combining.SUBTRACTING),
        ("max(size) AS v, min(usr) AS w", Combining.ANY),
        ("max(size) AS v, count(size) AS n", Combining.DISJOINT),
        ("sum(size * 0.5D) AS v", Combining.DISJOINT),
        ("first(size) AS v", None),
        ("count(DISTINCT size) AS v, sum(size) AS n", None),
    ],
)
def test_what_may_overlap_and_be_subtracted(items: str, kind: Combining | None) -> None:
    (query,) = grouping_of(TCP, items=items).queries
    assert combining(query.template.aggregates) == kind


ATOMS = ("proto = 1", "proto = 2", "proto < 2", "proto >= 2", "proto <> 1", "proto IS NULL", "usr = 'a'", "usr > 'a'")
combined = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        inner.map("NOT ({})".format),
        st.tuples(inner, st.sampled_from(("AND", "OR")), inner).map(lambda parts: "({}) {} ({})".format(*parts)),
    ),
    max_leaves=3,
)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(combined, min_size=2, max_size=9, unique=True), st.sampled_from(list(Combining)), st.booleans())
def test_covers_hold_exactly_the_events_of_what_they_cover(wheres: list[str], kind: Combining, whole: bool) -> None:
    grouping = grouping_of(*wheres, *([""] if whole else []))
    events = [(proto, usr) for proto in (0, 1, 2, 3, None) for usr in ("", "a", "b", None)]
    columns = (("proto", INT), ("usr", STRING))
    selected = [
        {
            i
            for i, holds in enumerate([True] * len(events) if where is None else values_of(where, columns, events))
            if holds
        }
        for where, _ in grouping.slots
    ]
    covers = grouping.covers.of(kind)
    for slot, cover in covers.items():
        held = Counter(i for part in cover.added for i in selected[part])
        held.subtract(i for part in cover.taken for i in selected[part])
        assert {i for i, times in held.items() if times} == selected[slot]
        assert kind is Combining.ANY or set(held.values()) <= {0, 1}
        assert kind is Combining.SUBTRACTING or not cover.taken
        assert not covers.keys() & set(cover.slots)


@pytest.mark.slow
def test_thousands_of_predicates_are_planned_soon() -> None:
    """A chain of ranges, none of which is covered, and a union of the last two."""
    wheres = (
        [f"size < {i}" for i in range(1000)] + [f"proto = {i}" for i in range(1000)] + ["proto = 998 OR proto = 999"]
    )
    grouping = grouping_of(*wheres)
    begin = process_time()
    found = grouping.covers.of(Combining.SUBTRACTING)
    assert list(found.values()) == [Cover((1998, 1999))]
    assert process_time() - begin < 2.0
