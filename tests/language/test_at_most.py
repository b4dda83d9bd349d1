"""SLIDE AT MOST: how it is written, read back, and refused."""

from __future__ import annotations

from dataclasses import replace

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
    with pytest.raises(MullionError, match=f"SLIDE AT MOST cannot be combined with {message}") as caught:
        parse_query(f"SELECT sum(x) AS n FROM s {window}")
    assert "^" in str(caught.value) and "leave AT MOST out" in str(caught.value)


def test_half_a_clause_is_a_mistake() -> None:
    with pytest.raises(MullionError, match="expected MOST"):
        parse_query("SELECT sum(x) AS n FROM s [RANGE 5 s SLIDE AT 2 s]")
    with pytest.raises(MullionError):
        parse_query("SELECT sum(x) AS n FROM s [RANGE 5 s SLIDE AT MOST]")


WINDOW = "s [RANGE 5 s SLIDE AT MOST 2 s]"
GROUPS = f"SELECT k, sum(x) AS n FROM {WINDOW} GROUP BY k"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT a.x FROM {WINDOW} a, {WINDOW} b WHERE a.k = b.k",
        f"SELECT a.x FROM {WINDOW} a, s [RANGE 9 s] b WHERE a.k = b.k",
        f"SELECT DISTINCT k FROM {WINDOW}",
        f"SELECT x FROM {WINDOW} ORDER BY x LIMIT 3",
        f"SELECT x FROM {WINDOW} a WHERE NOT EXISTS (SELECT 1 FROM {WINDOW} b WHERE b.k = a.k AND b.x > 1)",
        f"SELECT x FROM {WINDOW} UNION ALL SELECT x FROM {WINDOW}",
        f"RSTREAM (SELECT x FROM {WINDOW})",
        f"SELECT sum(n) AS m FROM ({GROUPS}) q",
        f"SELECT max(n) AS m FROM ({GROUPS}) [RANGE 20 s] q",
        f"SELECT max(n) AS m FROM ({GROUPS}) [RANGE 20 s SLIDE AT MOST 2 s] q",
        f"WSTREAM ({GROUPS}) [RANGE 20 s]",
    ],
)
def test_relations_are_those_of_slide_which_may_be_put_off(text: str) -> None:
    relation = bind(parse_query(text), {"s": STREAM})
    exact = bind(parse_query(text.replace("AT MOST ", "")), {"s": STREAM})
    assert relation.at_most and not exact.at_most
    assert replace(relation, at_most=False, text=exact.text) == exact
    assert render(parse_query(text)) == relation.text != exact.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"ISTREAM (SELECT x FROM {WINDOW})", "SLIDE AT MOST with ISTREAM"),
        (f"DSTREAM ({GROUPS})", "SLIDE AT MOST with DSTREAM"),
        (f"RSTREAM RESTORE (SELECT x FROM {WINDOW})", "SLIDE AT MOST with RSTREAM RESTORE"),
        ("SELECT x FROM s [RANGE 5 s SLIDE AT MOST 2 s INTERNAL]", "SLIDE AT MOST with INTERNAL windows"),
        (f"CREATE QUERY q MATERIALIZED AS SELECT DISTINCT k FROM {WINDOW}", "SLIDE AT MOST with MATERIALIZED"),
        (f"SELECT max(n) AS m FROM ({GROUPS}) [RANGE 9 s SLIDE 2 s] q", "SLIDE AT MOST with a window over the results"),
        (f"WSTREAM ({GROUPS}) [RANGE 9 s SLIDE AT MOST 3 s]", "SLIDE AT MOST with a window over the results"),
        (f"SELECT a.x FROM {WINDOW} a, s [RANGE 9 s SLIDE 2 s] b WHERE a.k = b.k", "windows of different SLIDEs"),
        (f"SELECT a.x FROM {WINDOW} a, s [RANGE 9 s SLIDE AT MOST 4 s] b WHERE a.k = b.k", "of different SLIDEs"),
        ("SELECT DISTINCT k FROM s [RANGE 5 s SLIDE AT MOST 2 s WATTR x]", "WATTR in this query"),
    ],
)
def test_what_others_see_between_two_answers_is_not_left_to_a_scheduler(text: str, message: str) -> None:
    with pytest.raises(MullionError, match=message) as caught:
        bind(parse_query(text), {"s": STREAM})
    assert "^" in str(caught.value)


def test_windows_with_and_without_at_most_are_told_apart() -> None:
    text = f"SELECT a.x FROM {WINDOW} a, s [RANGE 9 s SLIDE 2 s] b WHERE a.k = b.k"
    with pytest.raises(MullionError, match="in all windows of the query, or in none"):
        bind(parse_query(text), {"s": STREAM})


def test_a_question_is_answered_now() -> None:
    script = "CREATE STREAM s (ts TIMESTAMP, x INT) USING json OPTIONS (path 'x') TIMESTAMP BY ts; CREATE QUERY q AS "
    with local_engine(script + TEXT) as engine, pytest.raises(MullionError, match="leave its SLIDE out"):
        engine.ask(TEXT)


def test_nor_is_a_question_over_relations_scheduled() -> None:
    script = "CREATE STREAM s (ts TIMESTAMP, x INT) USING json OPTIONS (path 'x') TIMESTAMP BY ts KEEP '1 h';"
    with local_engine(script) as engine, pytest.raises(MullionError, match="leave its SLIDE out"):
        engine.ask("SELECT DISTINCT x FROM (SELECT x FROM s [RANGE '5 s' SLIDE AT MOST '2 s']) q")
