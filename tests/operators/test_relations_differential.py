"""Queries over relations from their texts to their answers, without Spark: whatever the steps, the strategy and the
restarts, they are those of the slow reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_relation import STREAMS, TABLES, Example, examples
from by_operators import bind_relation
from mullion import reference
from mullion.algebra.nodes import TableLookup, nodes
from mullion.algebra.relation import Relation
from mullion.expressions.vector import Vector
from mullion.instants import EVER_BEFORE, THE_END
from mullion.kernels.lookup import prepare
from mullion.language.parse import parse_query
from mullion.operators.base import Parts
from mullion.operators.network import Network, StepEvents
from mullion.operators.result import Result
from mullion.planner.answer_schema import answer_schema
from mullion.reference.aggregates import canonical_value
from mullion.storage.files import serialised

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Manner:
    """How a run goes about it. Every choice must give the same answers."""

    nows: tuple[int, ...] = ()
    """Up to when input becomes known, one step after the other, before all of it is."""
    strategy: str = "upa"
    restart: bool = False


def run(relation: Relation, example: Example, manner: Manner) -> pa.Table:
    """The answers by operators."""
    machine, told, before = _Machine(relation, manner.strategy, example), [], EVER_BEFORE
    for now in (*manner.nows, THE_END):
        if manner.restart:
            machine = machine.restarted()
        told.append(machine.step(before, now))
        before = now
    return pa.concat_tables(told)


class _Machine:
    """The network and the result of a query."""

    def __init__(self, relation: Relation, strategy: str, example: Example) -> None:
        self.relation, self.strategy, self.example = relation, strategy, example
        self.network = Network(strategy)
        self.network.set_roots([relation.plan])
        self.result = Result(relation, relation.plan.pattern, answer_schema(relation))
        self._look_up()

    def _look_up(self) -> None:
        for node in nodes(self.relation.plan):
            if isinstance(node, TableLookup):
                table, rows = self.example.tables[node.lookup.table]
                columns = {name: Vector.of(t, [row[name] for row in rows]).to_arrow() for name, t in table.columns}
                self.network.operator(node).table_changed(prepare(node.lookup, pa.table(columns)), EVER_BEFORE)

    def step(self, before: int, now: int) -> pa.Table:
        events = {name: self._events(name, before, now) for name in self.relation.streams}
        deltas = self.network.advance(events, now)
        self.result.apply(deltas[self.relation.plan])
        self.result.widen(self.network.came(self.relation.plan))
        times = [
            event["ts"]
            for name in self.relation.streams
            for event in self.example.events[name]
            if event["ts"] is not None
        ]
        return self.result.answers(now, last=max(times, default=None), ended=now == THE_END)

    def _events(self, name: str, before: int, now: int) -> StepEvents:
        stream = STREAMS[name]
        timed = [event for event in self.example.events[name] if event["ts"] is not None]
        known = [event for event in sorted(timed, key=lambda event: event["ts"]) if before <= event["ts"] < now]
        rows = pa.table({c: Vector.of(t, [event[c] for event in known]).to_arrow() for c, t in stream.columns})
        return StepEvents(rows, np.array([event["ts"] for event in known], np.int64))

    def restarted(self) -> _Machine:
        machine = _Machine(self.relation, self.strategy, self.example)
        machine.network.restore({name: saved(parts) for name, parts in self.network.parts().items()})
        machine._look_up()
        machine.result.restore(saved(self.result.parts()))
        return machine


def saved(parts: Parts) -> Parts:
    return {name: [pa.ipc.open_stream(serialised(t)).read_all() for t in tables] for name, tables in parts.items()}


def as_rows(answers: pa.Table) -> Rows:
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in answers.columns]
    return list(zip(*(c.to_pylist() for c in columns), strict=True)) if len(answers) else []


def comparable(rows: Sequence[tuple[Any, ...]], names: Sequence[str], without: Sequence[str] = ()) -> Counter[Any]:
    """The rows as a multiset; doubles but for their last digits."""
    kept = [i for i, name in enumerate(names) if name not in without]
    return Counter(tuple(comparable_value(row[i]) for i in kept) for row in rows)


def comparable_value(value: Any) -> Any:
    return round(value, 9) + 0.0 if isinstance(value, float) and value == value else canonical_value(value)


@st.composite
def manners(draw: Any) -> Any:
    nows = draw(st.lists(st.integers(-1, 40), max_size=6))
    strategy = draw(st.sampled_from(("upa", "upa", "nt", "scan")))
    return Manner(tuple(sorted(set(nows))), strategy, draw(st.booleans()))


def settled(example: Example, relation: Relation, nows: Sequence[int]) -> tuple[int, ...]:
    """The steps that streams allow: what is known of one reaches up to its newest event."""
    newest = [[e["ts"] for e in example.events[name] if e["ts"] is not None] for name in relation.streams]
    if not all(newest):
        return ()
    origin, high = min(map(min, newest)), min(map(max, newest))
    return tuple(origin + now for now in nows if origin + now <= high)


@pytest.mark.slow
@given(examples(), manners())
def test_operators_answer_as_the_reference_does(example: Example, manner: Manner) -> None:
    assert_as_the_reference(example, manner)


def assert_as_the_reference(example: Example, manner: Manner) -> None:
    relation = bind_relation(parse_query(example.text), STREAMS, TABLES)
    expected = reference.answer(relation, STREAMS, example.events, example.tables)
    nows = settled(example, relation, manner.nows)
    answers = run(relation, example, Manner(nows, manner.strategy, manner.restart))
    assert tuple(answers.schema.names) == expected.names
    # Under negative tuples windows promise no ends, so nobody knows of them when rows come.
    without = ("expires_at",) if manner.strategy == "nt" else ()
    found = comparable(as_rows(answers), expected.names, without)
    assert found == comparable(expected.rows, expected.names, without)
    instants = [row[1] for row in as_rows(answers)]
    assert instants == sorted(instants)
