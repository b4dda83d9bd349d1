"""The meaning of relations against DuckDB: at every instant the same SQL, over the events that the windows hold then.

SELECT a.k FROM a [RANGE 5 us] JOIN b [ROWS 2] ON a.k = b.k                                  the query, and at 20:
SELECT a.k FROM (SELECT * FROM a WHERE 15 <= ts AND ts < 20) a JOIN (SELECT * FROM b WHERE ... ) b ON a.k = b.k
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_relation import NAMED, ORIGINS, STREAMS, TABLES, Example, events, examples, table_rows
from by_operators import bind_relation
from mullion import reference
from mullion.algebra.nodes import is_aggregates
from mullion.algebra.relation import Relation
from mullion.expressions.vector import Vector
from mullion.language.parse import parse_query
from mullion.reference.relations import result_rows
from reference.test_duckdb import equal, in_order

QUERIES = (
    "SELECT a.k, v, w FROM a {}, b {} WHERE a.k = b.k",
    "SELECT a.k, v, w FROM a {}, b {} WHERE a.k = b.k AND v < w",
    "SELECT a.k, v, w, x FROM a {}, b {}, c {} WHERE a.k = b.k AND b.k = c.k",
    "SELECT a.k, c.k AS ck, v, x FROM a {}, b {}, c {} WHERE a.k = b.k AND b.w = c.x AND a.v <= c.x",
    "SELECT a.k, b.k AS bk FROM a {}, b {} WHERE v = w",
    "SELECT p.v, q.v AS other FROM a {} p, a {} q WHERE p.k = q.k AND p.v > q.v",
    "SELECT DISTINCT k FROM a {}",
    "SELECT DISTINCT v FROM a {} WHERE k IS NOT NULL",
    "SELECT DISTINCT a.k, w FROM a {}, b {} WHERE a.k = b.k",
    "SELECT k, v FROM a {} WHERE EXISTS (SELECT 1 FROM b {} WHERE b.k = a.k)",
    "SELECT k, v FROM a {} WHERE EXISTS (SELECT 1 FROM b {} WHERE b.w = a.v AND b.k = a.k)",
    "SELECT k, v FROM a {} WHERE NOT EXISTS (SELECT 1 FROM b {} WHERE b.k = a.k AND w > 0)",
    "SELECT k, v FROM a {} WHERE NOT EXISTS (SELECT 1 FROM b {} WHERE b.k = a.k) AND v > 0",
    "SELECT a.k, w FROM a {}, b {} WHERE a.k = b.k AND NOT EXISTS (SELECT 1 FROM c {} WHERE c.k = a.k)",
    "SELECT s.k, x FROM (SELECT k, v FROM a {} WHERE NOT EXISTS (SELECT 1 FROM b {} WHERE b.k = a.k)) s, c {} "
    "WHERE s.k = c.k",
    "SELECT k, v FROM a {} UNION ALL SELECT k, w FROM b {}",
    "SELECT k FROM a {} UNION ALL SELECT k FROM b {} UNION ALL SELECT k FROM c {}",
    "SELECT DISTINCT u.k FROM (SELECT k FROM a {} UNION ALL SELECT k FROM b {}) u",
    "SELECT k FROM a {} EXCEPT ALL SELECT k FROM b {}",
    "SELECT v FROM a {} EXCEPT ALL SELECT w FROM b {} EXCEPT ALL SELECT x FROM c {}",
    "SELECT a.k, count(*) AS n, sum(w) AS total FROM a {}, b {} WHERE a.k = b.k GROUP BY a.k",
    "SELECT a.k, max(w) AS top FROM a {}, b {} WHERE a.k = b.k GROUP BY a.k HAVING count(*) > 1",
    "SELECT count(*) AS n, sum(v) AS total, min(w) AS low FROM a {}, b {} WHERE a.k = b.k",
    "SELECT count(*) AS n, count(DISTINCT d.k) AS keys FROM (SELECT k FROM a {} EXCEPT ALL SELECT k FROM b {}) d",
    "SELECT s.k, n, w FROM (SELECT k, count(*) AS n FROM a {} GROUP BY k HAVING count(*) > 1) s, b {} WHERE s.k = b.k",
    "SELECT a.k, v, name FROM a {} JOIN named ON a.k = named.id",
    "SELECT a.k, v, level FROM a {} LEFT JOIN named ON a.k = named.id AND level > 0, b {} WHERE b.k = a.k",
    "SELECT name, count(*) AS n FROM a {}, b {}, named WHERE a.k = b.k AND b.k = named.id GROUP BY name",
)
PERIODIC = ("[RANGE 4 us SLIDE 5 us]", "[RANGE 12 us SLIDE 5 us]", "[RANGE 9 us]", "[ROWS 3]", "[ROWS 4 SLIDE 3]")
CONTINUOUS = (
    "[RANGE 3 us]",
    "[RANGE 8 us]",
    "[ROWS 2]",
    "[ROWS 3 SLIDE 2]",
    "[PARTITION BY k ROWS 1]",
    "[RANGE UNBOUNDED]",
    "[NOW]",
)
MARGIN = 16
"""Longer than any window of time."""
WINDOW = re.compile(
    r"(?P<stream>[abc]) \[(?P<window>[^]]*)\](?: (?P<alias>(?!JOIN|LEFT|WHERE|GROUP|UNION|EXCEPT)\w+))?"
)


def held(stream: str, window: str, before: int) -> str:
    """The events that a window holds just before an instant."""
    past = f"FROM {stream} WHERE ts < {before}"
    if found := re.match(r"RANGE (\d+) us", window):
        return f"SELECT * {past} AND ts >= {before - int(found[1])}"
    if found := re.match(r"ROWS (\d+)(?: SLIDE (\d+)(?!\d| us))?", window):
        rows, step = int(found[1]), int(found[2] or 1)
        newest = f"(SELECT count(*) // {step} * {step} {past})"
        return f"SELECT * {past} AND nth <= {newest} AND nth > {newest} - {rows}"
    if found := re.match(r"PARTITION BY k ROWS (\d+)", window):
        return f"SELECT * {past} QUALIFY row_number() OVER (PARTITION BY k ORDER BY nth DESC) <= {found[1]}"
    if window == "NOW":
        return f"SELECT * {past} AND ts = {before - 1}"
    assert window == "RANGE UNBOUNDED", window
    return f"SELECT * {past}"


def snapshot(text: str, before: int) -> str:
    """The query over what the windows hold just before an instant."""

    def replaced(found: re.Match[str]) -> str:
        return f"({held(found['stream'], found['window'], before)}) {found['alias'] or found['stream']}"

    return WINDOW.sub(replaced, text)


def holds_events(text: str, before: int) -> str:
    """Whether any window of the query holds an event."""
    windows = [f"EXISTS ({held(found['stream'], found['window'], before)})" for found in WINDOW.finditer(text)]
    return f"SELECT {' OR '.join(windows)}"


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    """On one thread: thousands of tiny questions."""
    return duckdb.connect(config={"threads": 1})


def load(duck: duckdb.DuckDBPyConnection, example: Example) -> None:
    """Streams with the number of each event in its stream as nth; zeros without a sign, times as numbers."""
    for name, stream in STREAMS.items():
        timed = [event for event in example.events[name] if event["ts"] is not None]
        rows = sorted(timed, key=lambda event: event["ts"])
        table = arrow(stream.columns[1:], rows)
        table = table.append_column("ts", pa.array([event["ts"] for event in rows], pa.int64()))
        duck.register(name, table.append_column("nth", pa.array(range(1, len(rows) + 1), pa.int64())))
    duck.register("named", arrow(NAMED.columns, example.tables["named"][1]))


def arrow(columns: Any, rows: Any) -> pa.Table:
    return pa.table({n: Vector.of(t, [plain(row[n]) for row in rows]).to_arrow() for n, t in columns})


def plain(value: Any) -> Any:
    """Zeros without a sign, and numbers of any kind as doubles."""
    if value is None or isinstance(value, str):
        return value
    return int(value) if isinstance(value, int) else float(value) + 0.0


def assert_same(found: Iterable[tuple[Any, ...]], wanted: Iterable[tuple[Any, ...]], why: str) -> None:
    ours, theirs = (sorted((tuple(map(plain, row)) for row in rows), key=in_order) for rows in (found, wanted))
    assert len(ours) == len(theirs), f"{why}\n{ours}\n{theirs}"
    for got, right in zip(ours, theirs, strict=True):
        assert all(map(equal, got, right)), f"{why}\n{ours}\n{theirs}"


def bound(text: str) -> Relation:
    return bind_relation(parse_query(text), STREAMS, TABLES)


def span(example: Example) -> tuple[int, int]:
    """All instants at which something can be there, by a wide margin."""
    times = [event["ts"] for rows in example.events.values() for event in rows if event["ts"] is not None]
    return (min(times) - 2, max(times) + MARGIN) if times else (0, 0)


def some_of(times: range) -> range:
    """At most some ten of them, all over their range."""
    return times[:: 1 + len(times) // 11]


def told(duck: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    """Of an approximate count DuckDB is asked for the exact one, which the reference has."""
    exact = sql.replace("approx_frequency(g.v, 1)", "count(*) FILTER (WHERE g.v = 1)")
    return [tuple(row) for row in duck.execute(exact).fetchall()]


def check(duck: duckdb.DuckDBPyConnection, example: Example) -> None:
    """The relation, at instants of a periodic query and at some microseconds of a continuous one."""
    load(duck, example)
    relation = bound(example.text)
    if relation.slide is None:
        check_continuous(duck, example, relation)
    else:
        check_periodic(duck, example, relation)


def check_periodic(duck: duckdb.DuckDBPyConnection, example: Example, relation: Relation) -> None:
    rows = answered(relation, example)
    first, last = span(example)
    assert relation.slide is not None
    for instant in some_of(range(first - first % relation.slide, last + 1, relation.slide)):
        wanted = told(duck, snapshot(example.text, instant))
        if not rows.get(instant) and wanted:
            assert_unasked(duck, example, instant, rows)
            continue
        assert_same(rows.get(instant, []), wanted, f"{example.text}\nat {instant}")


def assert_unasked(
    duck: duckdb.DuckDBPyConnection, example: Example, instant: int, rows: dict[int, list[tuple[Any, ...]]]
) -> None:
    """What is not answered, though SQL has an answer to it: before the first and after the last window with an event,
    of what is aggregated without GROUP BY; and what never ends, when no more events come."""
    ((some,),) = told(duck, holds_events(example.text, instant))
    read = {found["stream"] for found in WINDOW.finditer(example.text)}
    times = [event["ts"] for name in read for event in example.events[name] if event["ts"] is not None]
    newest = max(times, default=instant)
    why = f"{example.text}\nnothing at {instant}, but at {sorted(rows)}"
    assert not some or (instant > newest and re.search(r"UNBOUNDED|ROWS", example.text)), why
    assert not rows or not min(rows) < instant < max(rows), why


def check_continuous(duck: duckdb.DuckDBPyConnection, example: Example, relation: Relation) -> None:
    rows = result_rows(relation, STREAMS, example.events, example.tables)
    first, last = span(example)
    for time in some_of(range(first, last + 1)):
        there = [row.values for row in rows if row.lives_at(time)]
        wanted = told(duck, snapshot(example.text, time + 1))
        if wanted and not there and is_aggregates(relation.root):
            ((some,),) = told(duck, holds_events(example.text, time + 1))
            assert not some, f"{example.text}\nat {time}"
            continue
        assert_same(there, wanted, f"{example.text}\nat {time}")


def answered(relation: Relation, example: Example) -> dict[int, list[tuple[Any, ...]]]:
    """The items of the answer by instant."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in reference.answer(relation, STREAMS, example.events, example.tables).rows:
        found.setdefault(row[1], []).append(row[2 : 2 + len(relation.names)])
    return found


@st.composite
def asked(draw: Callable[..., Any], query: str, windows: tuple[str, ...], *, slides: bool) -> Example:
    """The query with windows of those given; if it `slides`, at least one that slides."""
    chosen = [draw(st.sampled_from(windows)) for _ in range(query.count("{}"))]
    if slides and not any(" us SLIDE " in window for window in chosen):
        chosen[0] = draw(st.sampled_from([window for window in windows if " us SLIDE " in window]))
    happened = draw(events(most=8, origin=draw(st.sampled_from(ORIGINS))))
    return Example(query.format(*chosen), happened, {"named": (NAMED, draw(table_rows()))})


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=2)
@given(data=st.data())
def test_periodic_queries(duck: duckdb.DuckDBPyConnection, query: str, data: st.DataObject) -> None:
    check(duck, data.draw(asked(query, PERIODIC, slides=True)))


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=2)
@given(data=st.data())
def test_continuous_queries(duck: duckdb.DuckDBPyConnection, query: str, data: st.DataObject) -> None:
    check(duck, data.draw(asked(query, CONTINUOUS, slides=False)))


@settings(max_examples=25)
@given(examples(most=7, outputs=False, internals=False, lives=False))
def test_any_query(duck: duckdb.DuckDBPyConnection, example: Example) -> None:
    check(duck, example)


TOTALS = (
    "SELECT count(*) AS n, sum(v) AS total, min(w) AS low FROM a {}, b {} WHERE a.k = b.k",
    "SELECT count(*) AS n FROM a {} WHERE NOT EXISTS (SELECT 1 FROM b {} WHERE b.k = a.k)",
    "SELECT count(*) AS n, count(DISTINCT d.k) AS keys FROM (SELECT k FROM a {} EXCEPT ALL SELECT k FROM b {}) d",
)
HOPPING = ("[RANGE 2 us SLIDE 5 us]", "[RANGE 4 us SLIDE 5 us]", "[RANGE 8 us SLIDE 5 us]", "[NOW]", "[RANGE 1 us]")


@settings(max_examples=15)
@given(st.data(), st.sampled_from(TOTALS), st.sampled_from((None, -3, 4, 11)), st.sampled_from((None, 14, 22)))
def test_totals_are_answered_from_the_first_to_the_last_window_that_holds_an_event(
    duck: duckdb.DuckDBPyConnection, data: st.DataObject, query: str, start: int | None, stop: int | None
) -> None:
    example = data.draw(asked(query, HOPPING, slides=True))
    load(duck, example)
    first, last = span(example)
    relation = replace(bound(example.text), start=None if start is None else first + start)
    relation = replace(relation, stop=None if stop is None else first + stop)
    begin = first if relation.start is None else relation.start + (relation.longest or 0)
    end = last if relation.stop is None else relation.stop
    instants = [t for t in range(first - first % 5, last + 1, 5) if begin <= t <= end]
    holding = [t for t in instants if told(duck, holds_events(example.text, t)) == [(True,)]]
    rows = answered(relation, example)
    assert sorted(rows) == [t for t in instants if holding and holding[0] <= t <= holding[-1]]
    for instant, found in rows.items():
        assert_same(found, told(duck, snapshot(example.text, instant)), f"{example.text}\nat {instant}")


@settings(max_examples=8)
@given(st.data(), st.sampled_from(QUERIES))
def test_what_is_new_and_what_is_gone(duck: duckdb.DuckDBPyConnection, data: st.DataObject, query: str) -> None:
    """ISTREAM and DSTREAM are EXCEPT ALL of two instants that follow each other."""
    example = data.draw(asked(query, PERIODIC[:3], slides=True))
    load(duck, example)
    relation = bound(example.text)
    if is_aggregates(relation.root) and "GROUP BY" not in example.text:
        return
    first, last = span(example)
    new = answered(replace(relation, output="istream"), example)
    old = answered(replace(relation, output="dstream"), example)
    assert relation.slide is not None
    for instant in range(first - first % relation.slide, last + relation.slide + 1, relation.slide):
        now, before = snapshot(example.text, instant), snapshot(example.text, instant - relation.slide)
        for output, rows, more, less in (("ISTREAM", new, now, before), ("DSTREAM", old, before, now)):
            wanted = told(duck, f"SELECT * FROM ({more}) EXCEPT ALL SELECT * FROM ({less})")
            assert_same(rows.get(instant, []), wanted, f"{output} of {example.text}\nat {instant}")


@settings(max_examples=8)
@given(st.data(), st.integers(0, 4), st.sampled_from(("", " DESC")))
def test_order_and_limit(duck: duckdb.DuckDBPyConnection, data: st.DataObject, limit: int, way: str) -> None:
    nulls = "LAST" if way else "FIRST"
    ending = f" ORDER BY v{way} NULLS {nulls}, w{way} NULLS {nulls} LIMIT {limit}"
    check(duck, data.draw(asked(f"SELECT v, w FROM a {{}}, b {{}} WHERE a.k = b.k{ending}", PERIODIC, slides=True)))


@pytest.mark.slow
def test_the_texts_meet_what_they_are_about(duck: duckdb.DuckDBPyConnection) -> None:
    """Each query has an answer over these events, so that no comparison is one of nothing with nothing."""
    dice = Random(5)
    happened = {}
    for name, stream in STREAMS.items():
        made = [(dice.randrange(26), dice.randrange(4), dice.choice((0.25, 1.0, 2.0, math.nan))) for _ in range(14)]
        happened[name] = [dict(zip(stream.types, row, strict=True)) for row in made]
    names = [{"id": 1, "name": "x", "level": 1.0}, {"id": 2, "name": None, "level": None}]
    for query in QUERIES:
        number = query.count("{}")
        windows = ["[RANGE 12 us SLIDE 5 us]", *["[RANGE 4 us SLIDE 5 us]"] * (number - 1)]
        example = Example(query.format(*windows), happened, {"named": (NAMED, names)})
        assert any(answered(bound(example.text), example).values()), example.text
        check(duck, example)
