"""The contract of every kind of node. A new kind in the registry inherits it, and fails it without an example."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from random import Random

import pytest

import any_relation
from any_relation import STREAMS, TABLES
from by_operators import bind_relation
from mullion.algebra.column_names import names_in
from mullion.algebra.lookups import READ, Lookup
from mullion.algebra.nodes import (
    KINDS,
    PHYSICAL,
    Aggregated,
    Bounded,
    Difference,
    Distinct,
    JoinSynopsis,
    JoinView,
    Node,
    Offering,
    Project,
    Promising,
    ResultWindow,
    TableLookup,
    Union,
    nodes,
    scans,
)
from mullion.algebra.nodes.join_view import HIDDEN_START
from mullion.algebra.nodes.promising import ESTIMATE
from mullion.algebra.update_pattern import Pattern
from mullion.expressions.vector import arrow_type
from mullion.language.parse import parse_query
from mullion.language.query import Budget, Call, Column
from mullion.language.shedding import JoinMemory
from mullion.language.types import INT
from mullion.operators.network import Network
from mullion.operators.registry import IMPLEMENTATIONS
from mullion.operators.structures import Structures
from mullion.options import Expiry
from mullion.planner.operator_cost import CostModel
from mullion.planner.relation_stats import NO_STATS
from mullion.planner.shared_joins import share_joins
from mullion.reference.registry import MEANINGS, as_inputs, is_strict
from mullion.reference.relations import result_rows
from networks import columns_of
from relational_plans import join, scan, unless, where, window

LIMITED = {name: replace(stream, memory=JoinMemory(rows=2, marks=True)) for name, stream in STREAMS.items()}
STYLES = [any_relation.Style(Random(seed), (None, 3)[seed % 2]) for seed in range(8)]
BOUND = [bind_relation(parse_query(any_relation.bounded(style)), LIMITED, TABLES) for style in STYLES]
BOUND += [
    bind_relation(parse_query(any_relation.relation(Random(seed), seed % 3)), STREAMS, TABLES) for seed in range(120)
]
BOUND += [bind_relation(parse_query(any_relation.bounded(style)), STREAMS, TABLES) for style in STYLES * 4]
PLANS = [asked.plan for asked in BOUND]
SHARED = list(share_joins(PLANS).plans.values())
EXAMPLES: dict[type[Node], list[Node]] = {}
for example in dict.fromkeys(node for plan in (*PLANS, *SHARED) for node in nodes(plan)):
    EXAMPLES.setdefault(type(example), []).append(example)
COMPUTED = Project(scan("r"), (("x", Call("negative", (Column("b"),)), INT),))
EXAMPLES[Project].insert(0, COMPUTED)

for example in dict.fromkeys(below for node in list(chain(*EXAMPLES.values())) for below in node.operator_inputs):
    if type(example) in PHYSICAL.values():
        EXAMPLES.setdefault(type(example), []).append(example)

every_kind = pytest.mark.parametrize("kind", (KINDS | PHYSICAL).values(), ids=KINDS | PHYSICAL)
every_strategy = pytest.mark.parametrize("strategy", list(Expiry))


def examples(kind: type[Node]) -> list[Node]:
    assert kind in EXAMPLES, f"no random query has a {kind.__name__}: teach tests/any_relation.py to write one"
    return EXAMPLES[kind][:60]


@every_kind
def test_columns_are_what_the_operator_delivers(kind: type[Node]) -> None:
    structures = Structures(Expiry.PATTERN_AWARE)
    for node in examples(kind):
        assert node.types == dict(node.columns) and len(node.types) == len(node.columns) > 0
        schema = structures.operator(node).schema
        assert [(field.name, field.type) for field in schema] == [(n, arrow_type(t)) for n, t in node.columns]


@every_kind
def test_nodes_stand_on_their_inputs_and_on_others_like_them(kind: type[Node]) -> None:
    for node in examples(kind):
        assert node.with_inputs(node.inputs) is node
        copies = tuple(pickle.loads(pickle.dumps(below)) for below in node.inputs)
        again = node.with_inputs(copies)
        assert again == node
        assert all(new is copy for new, copy in zip(again.inputs, copies, strict=True))
        assert set(node.origins) <= set(node.inputs)


@every_kind
def test_nodes_are_values(kind: type[Node]) -> None:
    for node in examples(kind):
        hash(node)
        copy = pickle.loads(pickle.dumps(node))
        assert "_hash" not in vars(copy)
        assert copy == node and hash(copy) == hash(node) and copy.name == node.name
        assert node != node.text


@every_kind
def test_texts_tell_different_nodes_apart(kind: type[Node]) -> None:
    found = examples(kind)
    assert len({node.text for node in found}) == len({node.name for node in found}) == len(set(found))
    for node in found:
        assert node.explained.strip() == node.explained != ""
        assert node.name.startswith(f"{node.kind_name().lower()}-")
        assert all(below.text in node.text for below in node.inputs)


@every_kind
def test_rows_leave_in_a_known_way(kind: type[Node]) -> None:
    for node in examples(kind):
        assert isinstance(node.pattern, Pattern) and isinstance(node.kept_as, Pattern)
        strict = as_inputs if kind in PHYSICAL.values() else is_strict
        assert (node.pattern is Pattern.STRICT) == strict(node)
        assert not node.is_internal or node.pattern is Pattern.MONOTONIC
        assert node.life is None or node.pattern is Pattern.WEAKEST
        assert {where for where, _ in node.windows()} <= set(nodes(node))


@every_kind
@every_strategy
def test_flows_and_costs_are_numbers(kind: type[Node], strategy: str) -> None:
    model = CostModel(NO_STATS, strategy)
    costs = []
    for node in examples(kind):
        flow, cost = model.flow(node), model.operator(node)
        assert 0 <= flow.rate < math.inf and 0 < flow.life < math.inf and 0 <= flow.premature <= 1
        assert min(cost.processing, cost.state, cost.negatives) >= 0 and cost.total < math.inf
        costs.append(cost.total)
    assert max(costs) > 0


@every_kind
def test_what_is_needed_is_there(kind: type[Node]) -> None:
    for node in examples(kind):
        for needed in (set(), set(list(node.types)[:1]), set(node.types)):
            asked = node.needs(needed)
            assert len(asked) == len(node.operator_inputs)
            for below, names in zip(node.operator_inputs, asked, strict=True):
                assert {name for name in names if not name.startswith(HIDDEN_START)} <= {*below.types, READ}
        for below, expr in node.conditions():
            assert names_in(expr) <= set(below.types)


@every_kind
def test_columns_are_traced_to_windows(kind: type[Node]) -> None:
    for node in examples(kind):
        for name in node.types:
            origin = node.traced(Column(name))
            assert origin is None or (origin[0] in scans(node) and names_in(origin[1]) <= set(origin[0].types))


@every_kind
def test_events_are_split_everywhere_or_nowhere(kind: type[Node]) -> None:
    for node in examples(kind):
        ways = [node.split_by((Column(name),)) for name in node.types]
        for keys in (*ways, node.split_where_rows_meet()):
            if keys is not None:
                assert set(keys) == set(scans(node))
                by_stream = {(scan.stream, own) for scan, own in keys.items()}
                assert len(by_stream) == len({scan.stream for scan in keys})
                assert all(names_in(*own) <= set(scan.types) for scan, own in keys.items())


@every_kind
def test_there_is_an_operator_and_a_meaning(kind: type[Node]) -> None:
    assert kind in IMPLEMENTATIONS and (kind in MEANINGS) == (kind in KINDS.values())


@pytest.mark.slow
@every_strategy
def test_operators_that_hold_rows_say_where(strategy: str) -> None:
    dice = Random(1)
    events = {
        name: sorted(
            ({"ts": dice.randrange(20), "k": dice.choice((1, 2)), value: 1.0} for _ in range(12)),
            key=lambda row: row["ts"],
        )
        for name, value in any_relation.VALUE.items()
    }
    columns = {name: stream.columns for name, stream in STREAMS.items()}
    silent = 0
    for plan in PLANS[:40]:
        if any(isinstance(node, TableLookup) for node in nodes(plan)):
            continue
        network = Network(strategy)
        network.set_roots([plan])
        network.advance({name: columns_of(columns, events, name, -99, 15) for name in columns}, 15)
        for working in network.working.values():
            assert not working.operator.rows_held or working.operator.structures(), type(working.operator)
            silent += not working.operator.structures()
    assert silent


def test_meanings_have_the_columns_of_their_nodes() -> None:
    events = {name: [{"ts": 1, "k": 1, value: 1.0}] for name, value in any_relation.VALUE.items()}
    found = 0
    for asked in BOUND[:60]:
        if not any(isinstance(node, TableLookup) for node in nodes(asked.root)):
            rows = result_rows(asked, STREAMS, events)
            assert {len(row.values) for row in rows} <= {len(asked.plan.columns)}
            found += len(rows)
    assert found


def by_hand() -> Iterator[Node]:
    """One of every kind, and of every physical node."""
    r, s = scan("r"), scan("s")
    names = Lookup("names", ((Column("a"), Column("id")),), None, (("id", INT),))
    yield from (r, where(r, "b > 1"), Project(r, (("x", Column("b"), INT),)), join(r, s), unless(r, s), Distinct(r))
    yield from (Difference(r, s), Union((r, s)), Aggregated(r, ((Column("a"), INT),), (), slide=60_000_000))
    yield from (JoinView(join(r, s), (60_000_000, 1_000_000)), TableLookup(r, names), ResultWindow(r, window("ROWS 3")))
    yield Promising(join(r, s), "desc", (Column(ESTIMATE), Column("b")), Budget(rows=9), 0.5, ((7,), (8,)))
    yield Bounded(join(r, s), (3, None), (True, False), aggregated=True)
    yield Promising(where(r, "b > 1"), "asc", (Column(ESTIMATE),), Budget(), 0.5, ((7,),), 99, Column("a"))
    yield from (Offering(join(r, s)), JoinSynopsis(join(r, s), ((Column("0.a"), INT),), (0, 1_000_000)))


NAMES = {
    "joinsynopsis-689b036148240c981ef5",
    "offering-34bca7487033a3e8ed9d",
    "scan-908da3d4d0bfed83c205",
    "filter-9e72379906c0b02ba047",
    "project-344eb2da24ab94abe5c6",
    "join-61b369ff2f6858644d71",
    "negation-c5e8e784f02071aa1058",
    "distinct-b03382a03ab13f6a363a",
    "difference-66528d8e079b734fbb52",
    "union-d49896e7545ef958509f",
    "aggregated-190408c677d6cf46f0e9",
    "restricted-593534184da2bc6f6b62",
    "lookedup-47399632aa2e472ae432",
    "rewindowed-cf8587da6caf699838b8",
    "promising-19d4722d868047179e50",
    "promising-29a9ed14099d1e39b982",
    "bounded-966ebb51b2f742ff420f",
}
"""By which checkpoints know these nodes. State is found by them: they must never change."""


def test_checkpoints_know_nodes_by_their_names() -> None:
    found = {node.name for node in by_hand()}
    assert {type(node) for node in by_hand()} == {*KINDS.values(), *PHYSICAL.values()}
    assert found == NAMES
