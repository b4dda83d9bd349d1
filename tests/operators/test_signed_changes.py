"""Changes with a sign add up to the relation, also for a query that enters late: whoever folds them needs no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from any_relation import NAMED, ORIGINS, STREAMS, TABLES, Example, Style, events, rows, table_rows
from by_operators import bind_relation
from mullion import reference
from mullion.algebra.relation import Relation
from mullion.language.parse import parse_query
from mullion.planner.answer_schema import has_sign
from operators.test_relations_differential import (
    Manner,
    as_rows,
    assert_as_the_reference,
    comparable_value,
    manners,
    run,
    settled,
)
from strategies import timestamp


@st.composite
def late(draw: Any) -> Example:
    """Rows that are told as they change, by a query that enters late, perhaps with its past."""
    origin, dice = draw(st.sampled_from(ORIGINS)), Random(draw(st.integers(0, 1 << 32)))
    text = rows(Style(dice, None), draw(st.integers(0, 2)))
    past = draw(st.sampled_from(("", " BACKFILL")))
    start = timestamp(origin + draw(st.integers(-2, 20)))
    given_events = draw(events(origin=origin))
    return Example(
        f"CREATE QUERY q START AT {start}{past} AS {text}", given_events, {"named": (NAMED, draw(table_rows()))}
    )


def folded(changes: list[dict[str, Any]]) -> Iterator[tuple[int, Counter[Any]]]:
    """What adds up until each instant."""
    there = Counter[Any]()
    for instant in sorted({change["window_end"] for change in changes}):
        for change in changes:
            if change["window_end"] == instant:
                there[seen(change)] += change["sign"]
        assert min(there.values()) >= 0, f"taken back at {instant}, and never told"
        yield instant, +there


def seen(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(
        comparable_value(value) for name, value in row.items() if name not in ("window_start", "window_end", "sign")
    )


def wholes(example: Example) -> dict[int, Counter[Any]]:
    """The relation at each of its changes since the query entered."""
    head, _, text = example.text.partition(" AS ")
    whole = bind_relation(parse_query(f"{head} AS RSTREAM ({text})"), STREAMS, TABLES)
    found = dict[int, Counter[Any]]()
    answer = reference.answer(whole, STREAMS, example.events, example.tables)
    for row in answer.rows:
        told = dict(zip(answer.names, row, strict=True))
        found.setdefault(told["window_end"], Counter())[seen(told)] += 1
    return found


def entering(relation: Relation) -> int | None:
    if relation.after is not None:
        return relation.after + 1
    return None if relation.start is None else relation.start + (relation.longest or 0)


@settings(max_examples=150)
@given(late(), manners())
def test_what_is_told_adds_up_to_the_relation(example: Example, manner: Manner) -> None:
    relation = bind_relation(parse_query(example.text), STREAMS, TABLES)
    assume(has_sign(relation))
    assert_as_the_reference(example, manner)
    changes = run(relation, example, Manner(settled(example, relation, manner.nows), "upa", manner.restart))
    told = [dict(zip(changes.column_names, row, strict=True)) for row in as_rows(changes)]
    sums, right = dict(folded(told)), wholes(example)
    for instant in sums.keys() - {entering(relation)} | right.keys():
        until = max((at for at in sums if at <= instant), default=None)
        assert right.get(instant, Counter()) == (Counter() if until is None else sums[until]), instant
