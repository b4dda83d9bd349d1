"""Rewritten plans mean what the plans as written mean: the same rows with the same lifetimes, by the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from mullion.aggregates import REGISTRY
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.algebra.lookups import Lookup
from mullion.algebra.nodes import (
    Aggregated,
    AntiJoin,
    Difference,
    Distinct,
    Join,
    Node,
    Project,
    ResultWindow,
    Scan,
    TableLookup,
    Union,
    scans,
)
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Column, Window
from mullion.language.types import BIGINT, INT, TIMESTAMP
from mullion.options import Expiry
from mullion.planner.optimiser import optimise_together
from mullion.planner.relation_stats import Stats
from mullion.planner.rewrites import ALTERNATIVES, SIMPLIFYING
from mullion.planner.rewrites.rule import everywhere
from mullion.reference.relations import result_rows
from relational_plans import optimise, where

COLUMNS = (("ts", TIMESTAMP), ("a", INT), ("b", INT))
STREAMS = {name: Stream(name, COLUMNS, "ts") for name in ("r", "s", "q")}
NAMES = Table("names", (("id", INT), ("n", INT)), "csv")
LOOKUP = Lookup("names", ((Column("a"), Column("id")),), None, NAMES.columns)
TABLES = {"names": (NAMES, [{"id": 1, "n": 5}, {"id": 1, "n": 6}, {"id": 2, "n": 0}])}
VERSIONS = {"names": [(12, [{"id": 2, "n": 9}]), (20, [{"id": 0, "n": 1}, {"id": 2, "n": 9}])]}
COUNT = BoundAggregate("count", None, None, BIGINT, REGISTRY["count"])

WINDOWS = [
    Window(range=10),
    Window(range=4),
    Window(rows=3, slide_rows=1),
    Window(unbounded=True),
    Window(range=7, internal=True),
    Window(now=True),
]


@st.composite
def plans(draw: st.DrawFn, depth: int = 3) -> Node:
    """Relations with columns a and b, whatever is below."""
    kinds = ["scan", "filter", "join", "join", "negation", "negation", "distinct", "union", "difference", "lookup"]
    kind = draw(st.sampled_from(kinds if depth else kinds[:2]))
    if kind == "scan" or not depth:
        return Scan(draw(st.sampled_from(sorted(STREAMS))), draw(st.sampled_from(WINDOWS)), COLUMNS)
    below = draw(plans(depth - 1))
    if kind == "filter":
        return where(below, draw(st.sampled_from(["b > 1", "a = 1 OR b < 2", "a IS NULL", "a < 2 AND b <> 0"])))
    if kind == "distinct":
        return Distinct(_pair(below, "a", "b"))
    if kind == "lookup":
        looked_up = TableLookup(_pair(below, "a", "b"), LOOKUP, draw(st.booleans()))
        return where(looked_up, f"b > 0 AND `{LOOKUP.column('n')}` < 6") if draw(st.booleans()) else looked_up
    other = draw(plans(depth - 1))
    if kind == "negation":
        on = draw(st.sampled_from(["a", "b"]))
        return AntiJoin(below, other, (Column(on),), (Column("a"),))
    if kind == "union":
        return Union((_pair(below, "a", "b"), _pair(other, "a", "b")))
    if kind == "difference":
        return Difference(_pair(below, "a", "b"), _pair(other, "a", "b"))
    return draw(joins(below, other))


@st.composite
def joins(draw: st.DrawFn, below: Node, other: Node) -> Node:
    """A join, perhaps tested and filtered before its columns get names of one side."""
    joined: Node = Join((below, other), ((Column("a"),), (Column("a"),)))
    if draw(st.booleans()):
        on = draw(st.sampled_from(["0.a", "1.a", "0.b", "1.b"]))
        tested = Scan("q", draw(st.sampled_from(WINDOWS)), COLUMNS)
        joined = AntiJoin(joined, Distinct(tested) if draw(st.booleans()) else tested, (Column(on),), (Column("a"),))
    if draw(st.booleans()):
        text = draw(st.sampled_from(["`0.b` > 1 AND `1.b` < 3", "`0.b` < `1.b`", "`0.b` + `1.b` > 2 AND `0.a` = 1"]))
        joined = where(joined, text)
    named = _pair(joined, draw(st.sampled_from(["0.a", "1.a"])), draw(st.sampled_from(["0.b", "1.b"])))
    kind = draw(st.sampled_from(["as it is", "distinct", "counted", "again"]))
    if kind == "distinct":
        return Distinct(named)
    if kind == "again":
        again = draw(st.sampled_from([Window(range=5), Window(rows=2, slide_rows=1)]))
        return _pair(ResultWindow(named, again), "a", "b")
    if kind == "counted":
        counted = Aggregated(Distinct(named), ((Column("a"), INT),), (COUNT,), slide=3)
        return Project(counted, (("a", Column("#k0"), INT), ("b", Column("#k0"), INT)))
    return named


def _pair(node: Node, a: str, b: str) -> Project:
    return Project(node, (("a", Column(a), INT), ("b", Column(b), INT)))


@st.composite
def joins_of_negations(draw: st.DrawFn) -> Node:
    """Joins of negations, of which most rules have something to say."""
    external = [window for window in WINDOWS if not window.internal]
    leaf = st.builds(
        lambda stream, window: Scan(stream, window, COLUMNS), st.sampled_from("rsq"), st.sampled_from(external)
    )
    parts = []
    for _ in range(draw(st.integers(2, 3))):
        part: Node = draw(leaf)
        if draw(st.booleans()):
            part = AntiJoin(part, draw(leaf), (Column(draw(st.sampled_from("ab"))),), (Column("a"),))
        if draw(st.booleans()):
            part = _pair(part, "a", draw(st.sampled_from("ab")))
        parts.append(part)
    joined = _pair(Join(tuple(parts), ((Column("a"),),) * len(parts)), "1.a", "0.b")
    return draw(
        st.sampled_from(
            [
                joined,
                Distinct(joined),
                Aggregated(Distinct(joined), ((Column("b"), INT),), (COUNT,), slide=3),
                Union((AntiJoin(joined, parts[0], (Column("a"),), (Column("b"),)),) * 2),
                Distinct(
                    Union((joined, AntiJoin(_pair(parts[0], "a", "b"), parts[1], (Column("a"),), (Column("b"),))))
                ),
            ]
        )
    )


numbers = st.one_of(st.none(), st.integers(0, 2))
rows = st.builds(lambda ts, a, b: {"ts": ts, "a": a, "b": b}, st.integers(0, 25), numbers, st.integers(0, 3))
events = st.fixed_dictionaries({name: st.lists(rows, min_size=1, max_size=6) for name in STREAMS})
rates = st.sampled_from([0.1, 1.0, 100.0])
stats = st.builds(
    lambda r, s, q, values, meet: Stats(
        {"r": r, "s": s, "q": q},
        {(name, "a"): values for name in STREAMS},
        overlap={frozenset(pair): meet for pair in ("rs", "rq", "sq")},
    ),
    rates,
    rates,
    rates,
    st.sampled_from([1.0, 50.0, 1e5]),
    st.sampled_from([0.01, 1.0]),
)


def meaning(root: Node, given: Mapping[str, list[dict[str, Any]]]) -> list[tuple[Any, ...]]:
    rows = result_rows(Relation("q", "", root, slide=3), STREAMS, given, TABLES, VERSIONS)
    found = [(row.values, row.start, row.end) for row in rows]
    return sorted(found, key=repr)


def check_equal(plan: Node, other: Node, given: Mapping[str, list[dict[str, Any]]]) -> None:
    assert other.columns == plan.columns
    assert {s.stream for s in scans(other)} == {s.stream for s in scans(plan)}
    assert (plan.pattern is Pattern.STRICT) == (other.pattern is Pattern.STRICT)
    assert meaning(other, given) == meaning(plan, given)


@pytest.mark.slow
@settings(derandomize=True, max_examples=60, deadline=None)
@given(plans() | joins_of_negations(), events)
def test_every_rule_keeps_the_meaning_wherever_it_applies(
    plan: Node, given: Mapping[str, list[dict[str, Any]]]
) -> None:
    for rule in (*SIMPLIFYING, *ALTERNATIVES):
        for other in everywhere(plan, rule):
            event(rule.name)
            check_equal(plan, other, given)


@pytest.mark.slow
@settings(derandomize=True, max_examples=40, deadline=None)
@given(plans() | joins_of_negations(), events, stats, st.sampled_from(Expiry))
def test_the_plan_that_is_chosen_keeps_the_meaning(
    plan: Node, given: Mapping[str, list[dict[str, Any]]], stats: Stats, strategy: str
) -> None:
    chosen = optimise(plan, stats, strategy)
    check_equal(plan, chosen.root, given)
    if chosen.rejected:
        check_equal(plan, chosen.rejected[-1][0], given)
        assert chosen.cost < chosen.rejected[0][1]


@settings(derandomize=True, max_examples=20, deadline=None)
@given(plans(depth=2), events, stats)
def test_plans_that_are_chosen_together_keep_their_meaning(
    plan: Node, given: Mapping[str, list[dict[str, Any]]], stats: Stats
) -> None:
    queries = [plan, where(plan, "b > 1"), where(plan, "b > 2 AND a = 1")]
    for query, chosen in zip(queries, optimise_together(queries, stats), strict=True):
        check_equal(query, chosen.root, given)
