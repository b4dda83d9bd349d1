"""Relations with SLIDE AT MOST whose periods are stretched in some steps: at the instants that are left they answer
what SLIDE does, and what stands beside them with SLIDE answers all of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import any_relation
from any_relation import STREAMS, TABLES, Example
from by_operators import bind_relation
from mullion import reference
from mullion.algebra.nodes import has_total
from mullion.algebra.relation import Relation
from mullion.expressions.vector import Vector
from mullion.instants import EVER_BEFORE, THE_END
from mullion.language.parse import parse_query
from mullion.operators.answering import Answering
from mullion.operators.network import StepEvents
from mullion.planner.answer_schema import answer_schema
from neighbours import aggregate_of_join, varied
from operators.test_relations_differential import as_rows, comparable, saved, settled

Steps = Sequence[tuple[int, int]]
"""Up to when each step goes, and of how many instants it is answered at one."""


def told(
    relations: Sequence[Relation], example: Example, steps: Steps, restarts: frozenset[int]
) -> dict[str, pa.Table]:
    """The answers of all steps, and of the end, to relations that share what they can."""
    answering, found = Answering(), {own.name: [answer_schema(own).empty_table()] for own in relations}
    plans = {relation.name: relation.plan for relation in relations}
    answering.set_relations(relations, plans)
    timed = {name: [e for e in example.events[name] if e["ts"] is not None] for name in relations[0].streams}
    newest = max((e["ts"] for of_stream in timed.values() for e in of_stream), default=None)
    before = EVER_BEFORE
    for number, (now, stretch) in enumerate((*steps, (THE_END, 8))):
        if number in restarts:
            state, answering = answering.state(), Answering()
            answering.set_relations(relations, plans)
            answering.restore({owner: saved(parts) for owner, parts in state.items()})
        events = {name: _between(name, own, before, now) for name, own in timed.items()}
        answers = answering.step(
            events,
            before,
            now,
            lambda name: _table(example, name),
            newest=newest,
            ended=now == THE_END,
            stretch=stretch,
        )
        for of_query in answers:
            for name, rows in of_query:
                found[name].append(rows)
        before = now
    return {name: pa.concat_tables(tables) for name, tables in found.items()}


def _between(name: str, events: Sequence[Mapping[str, Any]], low: int, high: int) -> StepEvents:
    known = sorted((e for e in events if low <= e["ts"] < high), key=lambda e: e["ts"])
    rows = pa.table({c: Vector.of(t, [e[c] for e in known]).to_arrow() for c, t in STREAMS[name].columns})
    return StepEvents(rows, np.array([e["ts"] for e in known], np.int64))


def _table(example: Example, name: str) -> pa.Table:
    table, rows = example.tables[name]
    return pa.table({c: Vector.of(t, [row[c] for row in rows]).to_arrow() for c, t in table.columns})


def chosen(relation: Relation, steps: Steps, instants: set[int]) -> set[int]:
    """Of the instants that SLIDE answers, those that the steps leave."""
    left, slide = set(), relation.slide
    assert slide is not None
    for (low, _), (high, stretch) in pairwise([(EVER_BEFORE, 1), *steps, (THE_END, 1)]):
        left |= {t for t in instants if low < t <= high and (t - relation.offset) // slide % stretch == 0}
    return left


def check(relations: Sequence[Relation], example: Example, steps: Steps, restarts: frozenset[int]) -> None:
    found = told(relations, example, steps, restarts)
    for relation in relations:
        every = reference.answer(relation, STREAMS, example.events, example.tables)
        rows, instants = as_rows(found[relation.name]), {row[1] for row in every.rows}
        if relation.at_most:
            left = chosen(relation, steps, instants)
            if has_total(relation.plan):
                # What waits for a later event is put off by the step that answers it, too.
                answered = {row[1] for row in rows}
                calmest = chosen(relation, [(now, 8) for now, _ in steps], instants)
                assert calmest <= answered <= left
                left = answered
            every = reference.answer_at(relation, STREAMS, example.events, left, example.tables)
        assert comparable(rows, every.names) == comparable(every.rows, every.names), relation.text


@st.composite
def steps_of(draw: Any, example: Example, relations: Sequence[Relation]) -> Any:
    nows = draw(st.lists(st.integers(-1, 30), min_size=2, max_size=9))
    allowed = sorted(set.intersection(*(set(settled(example, relation, nows)) for relation in relations)))
    return [(now, draw(st.sampled_from((1, 2, 4, 8)))) for now in allowed]


def periodic(dice: Random) -> str:
    """A relation with windows that slide, of which all rows are told at each instant."""
    style = any_relation.Style(dice, dice.choice((1, 1, 2, 3)))
    depth = dice.choice((0, 1, 1, 2))
    if dice.random() < 0.1:
        return any_relation.promising(style)
    if dice.random() < 0.5:
        text = any_relation.aggregates(style, depth)
        return f"WSTREAM ({text}) {dice.choice(('[ROWS 3]', '[RANGE 9 us]'))}" if dice.random() < 0.2 else text
    text = any_relation.rows(style, depth)
    return f"RSTREAM ({text} ORDER BY k, v LIMIT {dice.randint(1, 4)})" if dice.random() < 0.2 else text


def bound(text: str, name: str, *, at_most: bool = True) -> Relation:
    """With SLIDE AT MOST, if it has windows that slide. So do texts that say ROWS with a SLIDE in time, which cannot be
    written with AT MOST: that is only for the sake of a simple sentence."""
    relation = bind_relation(parse_query(text, name=name), STREAMS, TABLES)
    return replace(relation, at_most=at_most and relation.slide is not None)


dices = st.integers(0, 2**32 - 1).map(Random)
restarts = st.frozensets(st.integers(0, 6), max_size=3)


@settings(max_examples=150)
@given(st.data(), dices)
def test_any_relation_answers_as_the_reference_does_at_the_instants_that_are_left(data: Any, dice: Random) -> None:
    relation = bound(periodic(dice), "q")
    tables = {"named": (any_relation.NAMED, data.draw(any_relation.table_rows()))}
    example = Example("", data.draw(any_relation.events()), tables)
    check([relation], example, data.draw(steps_of(example, [relation])), data.draw(restarts))


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data(), dices)
def test_those_that_share_a_join_are_put_off_by_themselves(data: Any, dice: Random) -> None:
    """Of windows of other lengths, with other conditions, with other aggregates, with AT MOST and without."""
    text = aggregate_of_join(dice).replace("SLIDE 5 us", "SLIDE 1 us")
    asked = [text, *(varied(dice, text) if dice.random() < 0.6 else text for _ in range(dice.randint(1, 4)))]
    asked = [own.replace(" AS n", " AS n, count(x.k) AS c", dice.randint(0, 1)) for own in asked]
    relations = [bound(own, f"q{i}", at_most=dice.random() < 0.6) for i, own in enumerate(asked)]
    example = Example("", data.draw(any_relation.events()), {})
    check(relations, example, data.draw(steps_of(example, relations)), data.draw(restarts))
