"""Which rows LIMIT takes of equal ones, and their order, is the same however the relation is computed."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from any_relation import NAMED, ORIGINS, STREAMS, TABLES, Example, Style, aggregates, events, rows, table_rows
from by_operators import bind_relation
from mullion import reference
from mullion.errors import MullionError
from mullion.language.parse import parse_query
from mullion.operators.planning import entering_plans
from mullion.options import Options
from mullion.planner.relation_stats import NO_STATS
from operators.test_relations_differential import (
    Manner,
    as_rows,
    assert_as_the_reference,
    comparable_value,
    manners,
    run,
    settled,
)


@st.composite
def tied(draw: Any) -> Example:
    """Relations at instants, in an order that leaves many rows equal."""
    origin, dice = draw(st.sampled_from(ORIGINS)), Random(draw(st.integers(0, 1 << 32)))
    style = Style(dice, draw(st.sampled_from((3, 5, 7))))
    text = style.one(rows, aggregates, distinct)(style, draw(st.integers(0, 2)))
    order = draw(st.sampled_from((" ORDER BY 1", " ORDER BY 1 DESC", " ORDER BY 2", " ORDER BY 2 DESC", "")))
    limited = f"{text}{order} LIMIT {draw(st.integers(1, 4))}"
    return Example(limited, draw(events(origin=origin)), {"named": (NAMED, draw(table_rows()))})


def distinct(style: Style, depth: int) -> str:
    """Values that may be dropped before a join or after it."""
    window = style.one("RANGE 9 us", "ROWS 3", "ROWS 5")
    joined = f"a [RANGE 9 us SLIDE {style.slide} us] x, b [{window}] y WHERE x.k = y.k"
    negated = " AND NOT EXISTS (SELECT 1 FROM c [RANGE 2 us] z WHERE z.k = x.k)" if depth else ""
    return f"SELECT DISTINCT x.v AS v, y.w AS w FROM {joined}{negated}"


def is_answered_at_instants(example: Example) -> bool:
    try:
        return bind_relation(parse_query(example.text), STREAMS, TABLES).slide is not None
    except MullionError:  # there is no second column, or LIMIT without SLIDE
        return False


@settings(max_examples=300)
@given(tied().filter(is_answered_at_instants), manners())
def test_ties_are_told_as_the_reference_has_them(example: Example, manner: Manner) -> None:
    assert_as_the_reference(example, manner)
    relation = bind_relation(parse_query(example.text), STREAMS, TABLES)
    wanted = reference.answer(relation, STREAMS, example.events, example.tables)
    nows = settled(example, relation, manner.nows)
    (chosen,) = entering_plans([relation], (), NO_STATS, Options(), may_shard=False)
    for plan in (relation.plan, chosen.root, *(root for root, _ in chosen.rejected)):
        answers = run(replace(relation, root=plan), example, Manner(nows, "upa", manner.restart))
        assert [*map(values, as_rows(answers))] == [*map(values, wanted.rows)], plan


def values(row: tuple[Any, ...]) -> list[Any]:
    return [*map(comparable_value, row)]
