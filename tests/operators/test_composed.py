"""DISTINCT, NOT EXISTS and EXCEPT ALL in plans with each other, with joins and filters, against the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.algebra.nodes import AntiJoin, Difference, Distinct, Filter, Join, Node, Project, Scan
from mullion.expressions.typing import resolve_predicate
from mullion.language.parse import parse_expression
from mullion.language.query import Column, Window
from mullion.language.types import BIGINT, DOUBLE, STRING
from networks import lives_of, reference_lives, same

COLUMNS = (("ts", BIGINT), ("k", BIGINT), ("f", DOUBLE), ("s", STRING))
K = (Column("k"),)
LAST = 100
STRATEGIES = ("upa", "nt", "scan")


def scan(stream: str, *, rows: int | None = None, length: int = 9) -> Scan:
    window = Window(range=length) if rows is None else Window(rows=rows, slide_rows=1)
    return Scan(stream, window, COLUMNS)


def only(node: Node, *names: str) -> Project:
    return Project(node, tuple((name.split(".")[-1], Column(name), node.types[name]) for name in names))


def large(node: Node) -> Filter:
    return Filter(node, resolve_predicate(parse_expression("k > 1"), node.types))


A, B = scan("a"), scan("b", length=5)
LAST_OF_A, LAST_OF_B = scan("a", rows=3), scan("b", rows=2)
NOT_B = AntiJoin(A, B, K, K)
JOINED = Join((A, B), (K, K))

PLANS = {
    "distinct": Distinct(only(A, "k")),
    "distinct of all types": Distinct(only(A, "k", "f", "s")),
    "distinct of rows": Distinct(only(LAST_OF_A, "k", "s")),
    "distinct of a filter of rows": Distinct(only(large(LAST_OF_A), "k")),
    "negation": NOT_B,
    "negation on texts and numbers": AntiJoin(A, B, (Column("s"), Column("f")), (Column("s"), Column("f"))),
    "negation of rows": AntiJoin(LAST_OF_A, LAST_OF_B, K, K),
    "negation of rows by time": AntiJoin(LAST_OF_A, B, K, K),
    "negation of filters": AntiJoin(large(A), large(LAST_OF_B), K, K),
    "negation over a join": AntiJoin(only(JOINED, "0.k", "1.s"), LAST_OF_A, K, K),
    "join over a negation": only(Join((NOT_B, scan("a", length=4)), (K, K)), "0.k", "1.s"),
    "negation of a negation": AntiJoin(A, NOT_B, K, K),
    "negation without the keys above": only(NOT_B, "s"),
    "distinct over a negation": Distinct(only(NOT_B, "k")),
    "exists": only(Join((A, Distinct(only(B, "k"))), (K, K)), "0.k", "0.s"),
    "difference": Difference(only(A, "k"), only(B, "k")),
    "difference of all types": Difference(only(A, "k", "f", "s"), only(B, "k", "f", "s")),
    "difference of rows": Difference(only(LAST_OF_A, "k"), only(LAST_OF_B, "k")),
    "difference over a negation": Difference(only(NOT_B, "k"), only(LAST_OF_B, "k")),
    "distinct over a difference": Distinct(Difference(only(A, "k"), only(B, "k"))),
}

EVENTS = st.lists(
    st.tuples(
        st.integers(0, 24),
        st.sampled_from([None, 1, 2, 3]),
        st.sampled_from([None, 0.0, -0.0, float("nan")]),
        st.sampled_from([None, "x", "y"]),
    ),
    min_size=3,
    max_size=12,
).map(lambda rows: [dict(zip(("ts", "k", "f", "s"), row, strict=True)) for row in sorted(rows, key=lambda r: r[0])])
STEPS = st.sets(st.integers(1, 40), max_size=6).map(lambda cuts: [*sorted(cuts), LAST])

Events = list[dict[str, Any]]


def positive(lives: Sequence[Any]) -> list[Any]:
    """Zeros of either sign are one value, and it does not matter which of them stands for it."""
    return same([(tuple(v + 0.0 if v == 0.0 else v for v in values), start, end) for values, start, end in lives])


@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=6)
@given(a=EVENTS, b=EVENTS, times=STEPS, restarts=st.booleans())
def test_as_the_reference_has_it(a: Events, b: Events, times: list[int], restarts: bool, name: str) -> None:
    events = {"a": a, "b": b}
    expected = positive(reference_lives(PLANS[name], events))
    for strategy in STRATEGIES:
        told = lives_of(PLANS[name], events, times, strategy=strategy, restarts=restarts)
        assert positive(told) == expected, strategy


def presence(lives: Sequence[Any]) -> set[Any]:
    return {(values, moment) for values, start, end in lives for moment in range(start, min(end, LAST))}


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=12)
@given(a=EVENTS, b=EVENTS, times=STEPS)
def test_distinct_over_a_join_has_the_same_values_at_all_moments(
    a: Events, b: Events, times: list[int], strategy: str
) -> None:
    """Where negative tuples tell of ends nobody knows which result of a join ends last: others may take over."""
    plan, events = Distinct(only(JOINED, "0.k")), {"a": a, "b": b}
    told, expected = lives_of(plan, events, times, strategy=strategy), reference_lives(plan, events)
    assert presence(told) == presence(expected)
    assert len(presence(told)) == sum(min(end, LAST) - start for _, start, end in told), "one row of a value at a time"
    if strategy != "nt":
        assert same(told) == same(expected)
