"""Slices or operators: which way runs a relation, what slices make of it, and what a restart knows of its entrance."""

from __future__ import annotations

import pytest

from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.binding.entering import Entrance, entered, entering_at
from mullion.binding.relations import bind
from mullion.catalog.catalog import Catalog
from mullion.catalog.restart import as_journaled, from_journal, to_journal
from mullion.engine import Engine
from mullion.language.parse import parse_query
from mullion.language.render import render
from mullion.language.types import BIGINT, INT, STRING, TIMESTAMP
from mullion.planner.physical import by_way, sliced, why_operators

COLUMNS = (("ts", TIMESTAMP), ("k", STRING), ("v", INT), ("seq", BIGINT))
STREAMS = {name: Stream(name, COLUMNS, "ts") for name in ("a", "b")}
TABLES = {
    "t": Table("t", (("k", STRING), ("cp", INT)), "csv"),
    "r": Table("r", (("k", STRING), ("cp", INT)), "csv", retroactive=True),
}


def bound(text: str, name: str = "q") -> Relation:
    return bind(parse_query(text.replace("[]", "[RANGE 10 s SLIDE 5 s]"), name=name), STREAMS, TABLES)


BY_SLICES = [
    "SELECT count(*) AS n FROM a []",
    "RSTREAM (SELECT k, max(v) AS m FROM a [] GROUP BY k HAVING max(v) > 1 ORDER BY m LIMIT 3)",
    "SELECT max(cp) AS m FROM a [] JOIN t ON a.k = t.k WHERE v > cp",
    "SELECT count(*) AS n FROM a [RANGE 10 s]",
    "SELECT count(*) AS n FROM a [ROWS 5 SLIDE 2]",
    "SELECT count(*) AS n FROM a [PARTITION BY k ROWS 5]",
    "SELECT count(*) AS n, window_end - window_start AS w FROM a [RANGE 10 SLIDE 5 WATTR seq]",
    "SELECT count(*) AS n FROM a [RANGE UNBOUNDED SLIDE 5 s]",
    "SELECT count(*) AS n FROM a [FROM TIMESTAMP '2026-01-01 00:00:00' SLIDE 5 s]",
    "SELECT count(*) AS n FROM a [RANGE 10 s SLIDE 3 TUPLES]",
    "SELECT count(*) AS n FROM a [NOW]",
]

BY_OPERATORS = [
    ("SELECT a.v FROM a [], b [] WHERE a.k = b.k", "it joins rows of several windows"),
    ("SELECT count(*) AS n FROM a [], b [] WHERE a.k = b.k", "it joins rows of several windows"),
    ("SELECT k FROM a [] WHERE NOT EXISTS (SELECT 1 FROM b [] WHERE a.k = b.k)", "it asks which rows have no match"),
    ("SELECT DISTINCT k FROM a []", "it asks which rows are there at all"),
    ("SELECT k FROM a [] EXCEPT ALL SELECT k FROM b []", "it takes rows away from others"),
    (
        "SELECT count(*) AS n FROM a [] UNION ALL SELECT count(*) FROM b []",
        "it puts the rows of several queries together",
    ),
    ("SELECT max(cp) AS m FROM a [] JOIN r ON a.k = r.k", "a change of its RETROACTIVE table revises answers"),
    ("SELECT k, v FROM a []", "its answers are rows, not groups"),
    ("CREATE QUERY q MATERIALIZED AS SELECT k, count(*) AS n FROM a [] GROUP BY k", "its result is kept as rows"),
    ("ISTREAM (SELECT k, count(*) AS n FROM a [] GROUP BY k)", "it tells how its result changes"),
    ("SELECT max(n) AS m FROM (SELECT k, count(*) AS n FROM a [] GROUP BY k)", "it groups the result of another query"),
    ("WSTREAM (SELECT k, count(*) AS n FROM a [] GROUP BY k) [RANGE 1 min]", "it has a window over results"),
]


@pytest.mark.parametrize("text", BY_SLICES)
def test_slices_run_aggregates_over_any_window_of_one_stream(text: str) -> None:
    relation = bound(text)
    assert why_operators(relation) is None
    ways = by_way([relation], STREAMS)
    assert [plan.name for plan in ways.slices] == ["q"] and not ways.operators


@pytest.mark.parametrize(("text", "why"), BY_OPERATORS)
def test_operators_run_the_rest_and_say_why(text: str, why: str) -> None:
    relation = bound(text)
    assert (why_operators(relation) or "").startswith(why)
    assert sliced(relation, STREAMS) is None and by_way([relation], STREAMS) == ({}, [relation], set())


def test_explain_says_which_way_and_why_in_text_json_and_picture() -> None:
    engine = Engine()
    for stream in STREAMS.values():
        engine.catalog.add_stream(stream)
    engine.query("SELECT count(*) AS n FROM a [RANGE 10 s SLIDE 5 s]", name="counts")
    engine.query("SELECT a.v FROM a [NOW], b [NOW] WHERE a.k = b.k", name="pairs")
    told = engine.explain()
    slices, operators = "aggregates over windows of one stream, by partials", "it joins rows of several windows"
    for text in (str(told), told.to_svg()):
        assert f"choose_slices: {slices}" in text and f"choose_operators: {operators}" in text
    by_slices, by_trees = told.to_dict()["plans"]
    assert (by_slices["operator"], by_slices["reasons"][0]["rule"]) == ("SlicedAggregation", "choose_slices")
    assert by_trees["reasons"][0] == {"rule": "choose_operators", "text": operators}
    assert [[query["name"] for query in plan["queries"]] for plan in (by_slices, by_trees)] == [["counts"], ["pairs"]]


def test_where_stays_as_it_was_written() -> None:
    plan = sliced(bound("SELECT count(*) AS n FROM a [] WHERE v > 1 AND k = 'x' AND v > 1"), STREAMS)
    assert plan is not None and plan.predicate is not None
    assert render(plan.predicate) == "v > 1 AND k = 'x' AND v > 1"


@pytest.mark.parametrize(
    ("window", "predicate"),
    [
        ("[RANGE 10 s SLIDE 5 s]", "v > 1"),
        ("[ROWS 5]", "v > 1"),
        ("[RANGE UNBOUNDED SLIDE 5 s]", "ts >= TIMESTAMP '1970-01-01 00:00:07' AND v > 1"),
        ("[FROM TIMESTAMP '1970-01-01 00:00:09' SLIDE 5 s]", "ts >= TIMESTAMP '1970-01-01 00:00:09' AND v > 1"),
    ],
)
def test_a_window_over_everything_counts_from_where_the_query_enters(window: str, predicate: str) -> None:
    relation = bound(f"SELECT count(*) AS n FROM a {window} WHERE v > 1")
    plan = sliced(entering_at(relation, 7_000_000), STREAMS)
    assert plan is not None and plan.predicate is not None and plan.start == 7_000_000
    assert render(plan.predicate) == predicate
    again = sliced(entering_at(entering_at(relation, 7_000_000), None), STREAMS)
    assert again == sliced(relation, STREAMS)


def test_engines_whose_streams_differ_in_the_time_column_alone_have_plans_of_their_own() -> None:
    columns = (("ts", TIMESTAMP), ("received", TIMESTAMP))
    relation = None
    for time in ("ts", "received", "ts"):
        streams = {"s": Stream("s", columns, time)}
        text = "SELECT count(*) AS n FROM s [FROM TIMESTAMP '1970-01-01 00:00:09' SLIDE 5 s]"
        before, relation = relation, bind(parse_query(text, name="q"), streams)
        assert before in (None, relation)
        plan = sliced(relation, streams)
        assert plan is not None and plan.predicate is not None
        assert render(plan.predicate) == f"{time} >= TIMESTAMP '1970-01-01 00:00:09'"


def test_of_several_reasons_for_operators_explain_shows_the_most_telling() -> None:
    joined = "SELECT DISTINCT a.v FROM a [], b [] WHERE a.k = b.k"
    assert why_operators(bound(joined)) == "it joins rows of several windows"
    assert why_operators(bound(f"{joined} UNION ALL SELECT v FROM a []")) == "it joins rows of several windows"
    one_side = "SELECT DISTINCT k FROM a [] UNION ALL SELECT k FROM b []"
    assert why_operators(bound(one_side)) == "it asks which rows are there at all"


def test_a_restart_knows_how_a_query_entered() -> None:
    catalog = Catalog()
    for stream in STREAMS.values():
        catalog.add_stream(stream)
    text = "CREATE QUERY q BACKFILL AS SELECT count(*) AS n FROM a [RANGE 10 s SLIDE 5 s]"
    relation = entered(bind(parse_query(text), STREAMS), Entrance(None, 4, "q", 12))
    entry = to_journal(relation)
    assert entry == {"name": "q", "text": relation.text, "after": 4, "tag": "q", "joined": 12}
    assert from_journal(entry, catalog) == as_journaled(bind(parse_query(text), STREAMS), entry) == relation
    (plan,) = by_way([relation], STREAMS).slices
    assert to_journal(plan) == entry
