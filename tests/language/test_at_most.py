"""SLIDE AT MOST: how it is written, read back, and refused."""

from __future__ import annotations

import pytest

from batch_course import STREAM
from mullion.binding.relations import bind
from mullion.errors import MullionError
from mullion.language.parse import parse_query
from mullion.language.query import Named
from mullion.language.render import render
from without_spark import local_engine

TEXT = "SELECT sum(x) AS n FROM s [RANGE '10 min' SLIDE AT MOST '2 min']"


@pytest.mark.parametrize(
    "text",
    [TEXT, TEXT.replace("RANGE", "WINDOW"), TEXT.replace("AT MOST", "at most"), TEXT.replace("'2 min'", "2 min")],
)
def test_it_is_read_and_written(text: str) -> None:
    query = parse_query(text)
    assert isinstance(query.source, Named) and query.source.window is not None
    assert query.source.window.at_most and query.source.window.slide == 120_000_000
    assert render(query) == TEXT
    assert parse_query(render(query)) == query != parse_query(TEXT.replace("AT MOST ", ""))


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("[ROWS 5 SLIDE AT MOST 2]", "ROWS"),
        ("[RANGE 5 s SLIDE AT MOST 2 TUPLES]", "a number of events"),
        ("[RANGE UNBOUNDED SLIDE AT MOST 2 s]", "a window without a length"),
        ("[FROM TIMESTAMP '2024-01-01' SLIDE AT MOST 2 s]", "a window without a length"),
        ("[RANGE 5 s SLIDE AT MOST 2 s OFFSET 1 s]", "OFFSET"),
        ("[RANGE 5 SLIDE AT MOST 2 WATTR x]", "a column of whole numbers"),
    ],
)
def test_what_does_not_go_with_it_is_said(window: str, message: str) -> None:
    with pytest.raises(MullionError, match=f"SLIDE AT MOST does not go with {message}") as caught:
        parse_query(f"SELECT sum(x) AS n FROM s {window}")
    assert "^" in str(caught.value) and "leave AT MOST out" in str(caught.value)


def test_half_a_clause_is_a_mistake() -> None:
    with pytest.raises(MullionError, match="expected MOST"):
        parse_query("SELECT sum(x) AS n FROM s [RANGE 5 s SLIDE AT 2 s]")
    with pytest.raises(MullionError):
        parse_query("SELECT sum(x) AS n FROM s [RANGE 5 s SLIDE AT MOST]")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.x FROM s [RANGE 5 s SLIDE AT MOST 2 s] a, s [RANGE 5 s SLIDE AT MOST 2 s] b WHERE a.k = b.k",
        "SELECT DISTINCT k FROM s [RANGE 5 s SLIDE AT MOST 2 s]",
        "SELECT x FROM s [RANGE 5 s SLIDE AT MOST 2 s]",
        "ISTREAM (SELECT k, sum(x) AS n FROM s [RANGE 5 s SLIDE AT MOST 2 s] GROUP BY k)",
        "SELECT sum(n) AS m FROM (SELECT k, sum(x) AS n FROM s [RANGE 5 s SLIDE AT MOST 2 s] GROUP BY k) q",
    ],
)
def test_relations_are_not_scheduled(text: str) -> None:
    with pytest.raises(MullionError, match="SLIDE AT MOST in this query") as caught:
        bind(parse_query(text), {"s": STREAM})
    assert "aggregates over the window of one stream" in str(caught.value)


def test_a_question_is_answered_now() -> None:
    script = "CREATE STREAM s (ts TIMESTAMP, x INT) USING json OPTIONS (path 'x') TIMESTAMP BY ts; CREATE QUERY q AS "
    with local_engine(script + TEXT) as engine, pytest.raises(MullionError, match="leave its SLIDE out"):
        engine.ask(TEXT)
