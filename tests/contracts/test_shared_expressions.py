"""Equal expressions stay equal, and are one object, whatever way they come."""

from __future__ import annotations

import gc
import pickle
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_slices import bind
from mullion.binding import selecting
from mullion.expressions.pool import Pool
from mullion.expressions.shared import shared
from mullion.language.parse import parse_expression, parse_query
from mullion.language.query import Call, Column, Literal, walk
from mullion.language.render import render
from mullion.language.types import DOUBLE
from strategies import ABOVE, EXACT, KEYS, ROUNDED, SIMPLE, TRADES, queries, settings_of_time

TEXTS = (
    *SIMPLE,
    *KEYS,
    *EXACT,
    *ROUNDED,
    *ABOVE,
    "count(*) FILTER (WHERE a LIKE 'x') = -0.0D",
    "CAST(a AS INT) IS NULL",
)


@pytest.mark.parametrize("text", TEXTS)
def test_an_expression_equals_the_one_read_from_its_own_text(text: str) -> None:
    first = parse_expression(text)
    again = parse_expression(render(first))
    assert first == again and hash(first) == hash(again)
    assert {first: 1}[again] == 1
    assert shared(first) is shared(again)


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_shared_is_equal_and_has_no_place(text: str) -> None:
    expr = parse_expression(text)
    kept = shared(expr)
    assert kept == expr and hash(kept) == hash(expr) and render(kept) == render(expr)
    assert all(node.place is None for node in walk(kept))
    assert shared(kept) is kept


@pytest.mark.parametrize("text", TEXTS)
def test_a_hash_does_not_travel(text: str) -> None:
    """Hashes of strings differ between processes."""
    expr = parse_expression(text)
    hash(expr)
    travelled = pickle.loads(pickle.dumps(expr))
    assert not hasattr(travelled, "_hash")
    assert travelled == expr and hash(travelled) == hash(expr)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_query_bound_from_its_own_text_holds_the_same_objects(data: st.DataObject) -> None:
    text = data.draw(settings_of_time.flatmap(queries))
    first = bind(parse_query(text), {"trades": TRADES})
    again = bind(parse_query(first.text), {"trades": TRADES})
    assert again == first and hash(again) == hash(first)
    assert again.template is first.template and again.predicate is first.predicate
    assert all(a is b for a, b in zip(first.event_expressions(), again.event_expressions(), strict=True))
    kept = [e for e in (first.predicate, *first.event_expressions()) if e is not None]
    assert all(node.place is None for expr in kept for node in walk(expr))


def test_what_nobody_holds_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the last SELECTs, which the binder remembers."""
    monkeypatch.setattr(selecting, "SELECTS", selecting.Selects())
    text = "SELECT sum(price * 123454321) AS total FROM trades [RANGE '10 s' SLIDE '5 s'] WHERE volume > 123454321"
    query = bind(parse_query(text, name="q"), {"trades": TRADES})
    assert query.predicate is not None
    watched = [weakref.ref(node) for expr in query.event_expressions() for node in walk(expr) if isinstance(node, Call)]
    watched += [weakref.ref(query.predicate), weakref.ref(query.template)]
    assert all(node() is not None for node in watched)
    del query
    monkeypatch.undo()
    gc.collect()
    assert [node() for node in watched] == [None] * len(watched)


def test_a_pool_is_empty_when_its_objects_are_gone() -> None:
    pool: Pool[Column] = Pool()
    first = pool.intern(Column("a"))
    assert pool.intern(Column("a")) is first and pool.intern(first) is first
    assert pool.find(Column("b")) is None and len(pool) == 1
    del first
    gc.collect()
    assert len(pool) == 0 and pool.find(Column("a")) is None


def test_zeros_of_either_sign_are_two_constants() -> None:
    assert Literal(0.0, DOUBLE) != Literal(-0.0, DOUBLE)
    assert parse_expression("x * 0.0D") != parse_expression("x * -0.0D")
    assert shared(parse_expression("x * 0.0D")) is not shared(parse_expression("x * -0.0D"))
    assert Literal(-0.0, DOUBLE) == Literal(-0.0, DOUBLE) and Literal(1, DOUBLE) == Literal(1.0, DOUBLE)
