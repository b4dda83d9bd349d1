"""Random queries over relations are ones that the language has, of every kind, and most have an answer."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings

from any_relation import KEYS, NAMED, STREAMS, TABLES, VALUES, Example, examples, relation
from by_operators import bind_relation
from mullion import reference
from mullion.algebra.nodes import nodes
from mullion.algebra.relation import Relation
from mullion.algebra.update_pattern import Pattern
from mullion.expressions.vector import arrow_type
from mullion.language.parse import parse_query
from mullion.planner.answer_schema import answer_schema
from mullion.reference import Answer
from mullion.reference.registry import is_strict

KINDS = (
    "Scan",
    "TableLookup",
    "Filter",
    "Project",
    "Join",
    "Distinct",
    "AntiJoin",
    "Difference",
    "Union",
    "Aggregated",
)
OUTPUTS = ("rstream", "istream", "dstream", "wstream")


def bound(example: Example) -> Relation:
    return bind_relation(parse_query(example.text), STREAMS, TABLES)


def answer(example: Example) -> Answer:
    return reference.answer(bound(example), STREAMS, example.events, example.tables)


def thrown(seed: int) -> Example:
    """A query, over twelve events of each stream."""
    dice = Random(seed)
    text = relation(dice, seed % 3)
    happened = {}
    for name, stream in STREAMS.items():
        made = [(dice.randrange(26), dice.choice(KEYS), dice.choice(VALUES)) for _ in range(12)]
        happened[name] = [dict(zip(stream.types, row, strict=True)) for row in made]
    return Example(text, happened, {"named": (NAMED, [{"id": 1, "name": "x", "level": 1.0}])})


@pytest.mark.slow
def test_they_are_of_every_kind_and_most_have_an_answer() -> None:
    seen: Counter[str] = Counter()
    for example in map(thrown, range(150)):
        asked = bound(example)
        if answer(example).rows:
            seen.update({type(node).__name__ for node in nodes(asked.root)})
            seen["continuous " * (asked.slide is None) + asked.output] += 1
            seen["answered"] += 1
    wanted = (*KINDS, *OUTPUTS, *(f"continuous {output}" for output in (*OUTPUTS, "changes")))
    assert not [kind for kind in wanted if seen[kind] < 3], seen
    assert seen["answered"] > 100, seen


@settings(max_examples=40)
@given(examples())
def test_the_planner_knows_the_columns(example: Example) -> None:
    schema, found = answer_schema(bound(example)), answer(example)
    assert schema.names == list(found.names)
    assert schema.types == list(map(arrow_type, found.types))


@settings(max_examples=40)
@given(examples())
def test_the_planner_knows_as_well_which_ends_are_not_known(example: Example) -> None:
    for node in nodes(bound(example).root):
        assert is_strict(node) == (node.pattern is Pattern.STRICT), example.text
