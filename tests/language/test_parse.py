"""What texts mean, and the documented examples word for word."""

from __future__ import annotations

from decimal import Decimal

import pytest

from mullion.errors import ParseError, TextError
from mullion.language import types
from mullion.language.parse import parse_duration, parse_expression, parse_query, parse_script
from mullion.language.query import (
    AggregateCall,
    Budget,
    Call,
    Case,
    Cast,
    Column,
    Derived,
    Exists,
    JoinClause,
    Literal,
    Named,
    Window,
)
from mullion.language.render import render
from mullion.language.script import Ask, CreateQuery, CreateStream, CreateTable, Drop, Explain

MINUTE = 60_000_000

SCRIPT = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT)
USING parquet OPTIONS (path 'data/trades')          -- csv, json, parquet, kafka, rate ...: Spark's formats and options
TIMESTAMP BY ts LATENESS '5 seconds'                -- lateness: how far behind the newest event one may arrive; default 0
AHEAD '1 day';                                      -- events further past the clock are kept aside and never move event time; this is the default

CREATE TABLE close (symbol STRING, cp DOUBLE) USING csv OPTIONS (path 'data/close.csv', header 'true');   -- non-retroactive
CREATE RETROACTIVE TABLE limits (symbol STRING) USING csv;

CREATE QUERY big AS                                 -- a standing query
SELECT symbol, sum(price * volume) AS total, count(*) AS n
FROM trades [RANGE '12 min' SLIDE '5 min']
WHERE volume > 50000 GROUP BY symbol HAVING count(*) > 3;

DROP QUERY big;
EXPLAIN big;  EXPLAIN;                              -- one query, or the shared plan of all
SELECT max(price) FROM trades [RANGE '4 min'];      -- without CREATE QUERY: asked once, answered now
"""  # noqa: E501


def a(name: str = "a") -> Column:
    return Column(name)


def i(value: int) -> Literal:
    return Literal(value, types.INT)


def window(text: str) -> Window:
    source = parse_query(f"SELECT a FROM t {text}").source
    assert isinstance(source, Named) and source.window is not None
    return source.window


def test_the_documented_script() -> None:
    stream, table, limits, big, drop, explain_one, explain_all, ask = parse_script(SCRIPT)
    assert stream == CreateStream(
        name="trades",
        columns=(("ts", types.TIMESTAMP), ("symbol", types.STRING), ("price", types.DOUBLE), ("volume", types.INT)),
        format="parquet",
        options=(("path", "data/trades"),),
        time_column="ts",
        lateness=5_000_000,
    )
    assert isinstance(table, CreateTable) and not table.retroactive and dict(table.options)["header"] == "true"
    assert isinstance(limits, CreateTable) and limits.retroactive
    assert isinstance(big, CreateQuery) and big.query.name == "big"
    assert big.query.source == Named(name="trades", window=Window(range=12 * MINUTE, slide=5 * MINUTE))
    assert big.query.items[1].expr == AggregateCall("sum", (Call("multiply", (a("price"), a("volume"))),))
    assert big.query.having == Call("gt", (AggregateCall("count", ()), i(3)))
    assert drop == Drop(kind="query", name="big")
    assert (explain_one, explain_all) == (Explain(name="big"), Explain())
    assert isinstance(ask, Ask) and ask.query.name is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[RANGE '12 min' SLIDE '5 min']", Window(range=12 * MINUTE, slide=5 * MINUTE)),
        ("[WINDOW 12 min SLIDE 5min OFFSET -30 s]", Window(range=12 * MINUTE, slide=5 * MINUTE, offset=-MINUTE // 2)),
        ("[RANGE INTERVAL '12' MINUTE SLIDE INTERVAL 5 MINUTES]", Window(range=12 * MINUTE, slide=5 * MINUTE)),
        ("[RANGE 1 h 30 min]", Window(range=90 * MINUTE)),
        ("[RANGE '1.5 s']", Window(range=1_500_000)),
        ("[RANGE 5s SLIDE 1 TUPLE]", Window(range=5_000_000, slide_rows=1)),
        ("[RANGE 5 s SLIDE 10 TUPLES]", Window(range=5_000_000, slide_rows=10)),
        ("[ROWS 10]", Window(rows=10, slide_rows=1)),
        ("[ROWS 10 SLIDE 3]", Window(rows=10, slide_rows=3)),
        ("[SLIDE 3 ROWS 10]", Window(rows=10, slide_rows=3)),
        ("[RANGE 10 SLIDE 5 WATTR c]", Window(range=10, slide=5, attribute="c", unitless=True)),
        ("[WATTR c RANGE 10 SLIDE 5 OFFSET -2]", Window(range=10, slide=5, offset=-2, attribute="c", unitless=True)),
        ("[RANGE 10 SLIDE 5 TUPLES WATTR c]", Window(range=10, slide_rows=5, attribute="c", unitless=True)),
        ("[RANGE 10 WATTR c]", Window(range=10, attribute="c", unitless=True)),
        ("[FROM 0 WATTR c]", Window(since=0, attribute="c", unitless=True)),
        ("[RANGE UNBOUNDED SLIDE 7 WATTR c]", Window(unbounded=True, slide=7, attribute="c", unitless=True)),
        ("[NOW WATTR c]", Window(now=True, attribute="c")),
        ("[PARTITION BY a, b + 1 ROWS 2 SLIDE 3 TUPLES]", None),
        ("[RANGE UNBOUNDED]", Window(unbounded=True)),
        ("[RANGE UNBOUNDED SLIDE 1 d]", Window(unbounded=True, slide=1440 * MINUTE)),
        ("[NOW]", Window(now=True)),
        ("[FROM TIMESTAMP '1970-01-01 00:01:00Z' SLIDE 1 min]", Window(since=MINUTE, slide=MINUTE)),
        ("[RANGE 1 min WATTR c INTERNAL]", Window(range=MINUTE, attribute="c", internal=True)),
    ],
)
def test_windows(text: str, expected: Window | None) -> None:
    if expected is None:
        expected = Window(rows=2, slide_rows=3, partition_by=(a(), Call("add", (a("b"), i(1)))))
    assert window(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a, count(*) FROM trades GROUP BY window(ts, '12 minutes', '5 minutes'), a",
        "SELECT window, a, count(*) FROM trades GROUP BY a, window(ts, '12 minutes', '5 minutes')",
        "SELECT a, count(*) FROM HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '12' MINUTE)"
        " GROUP BY window_start, window_end, a",
        "SELECT a, count(*) FROM TABLE(HOP(TABLE trades, DESCRIPTOR(ts), '5 min', '12 min')) GROUP BY a",
        "SELECT a, count(*) FROM trades [RANGE '12 min' SLIDE '5 min' OFFSET '2 min' WATTR ts] GROUP BY 1",
    ],
)
def test_the_same_window_however_it_is_written(text: str) -> None:
    query = parse_query(text)
    expected = Window(range=12 * MINUTE, slide=5 * MINUTE, offset=2 * MINUTE, attribute="ts")
    assert query.source == Named(name="trades", window=expected)
    assert query.group_by == (a(),)
    assert [item.expr for item in query.items] == [a(), AggregateCall("count", ())]


def test_tumbling_and_offset() -> None:
    tumbling = Named(name="t", window=Window(range=MINUTE, slide=MINUTE, attribute="ts"))
    assert parse_query("SELECT a FROM t GROUP BY window(ts, '1 minute')").source == tumbling
    assert parse_query("SELECT a FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)").source == tumbling
    shifted = parse_query("SELECT a FROM t GROUP BY window(ts, '1 min', '1 min', '-5 s')").source
    assert isinstance(shifted, Named) and shifted.window is not None and shifted.window.offset == 55_000_000


def test_grouping_by_the_window_alone_is_one_group() -> None:
    for term in ("window(ts, '1 min')", "window_end, window_start", "1", "true"):
        source = "t" if "(" in term else "t [RANGE '1 min' SLIDE '1 min' WATTR ts]"
        found = parse_query(f"SELECT window, count(*) FROM {source} GROUP BY {term}")
        assert found.group_by == (Literal(True, types.BOOLEAN),)
        assert render(found) == "SELECT count(*) FROM t [RANGE '1 min' SLIDE '1 min' WATTR ts] GROUP BY TRUE"


def test_window_columns() -> None:
    query = parse_query("SELECT window.start, window.end AS e, window_start FROM t GROUP BY window(ts, '1 min')")
    assert [item.expr for item in query.items] == [a("window_start"), a("window_end"), a("window_start")]


def test_sources() -> None:
    query = parse_query(
        "SELECT a FROM Trades T [RANGE 1 min], close AS c LEFT JOIN (SELECT b FROM u) x [NOW] USING (k)"
    )
    assert query.source == JoinClause(
        left=Named(name="Trades", window=Window(range=MINUTE), alias="T"),
        right=JoinClause(
            left=Named(name="close", alias="c"),
            right=Derived(query=parse_query("SELECT b FROM u"), window=Window(now=True), alias="x"),
            kind="left",
            using=(Column("k"),),
        ),
        kind="cross",
    )


def test_exists_and_union_and_output() -> None:
    query = parse_query(
        "ISTREAM(SELECT a FROM t [NOW] WHERE NOT EXISTS (SELECT 1 FROM u [RANGE 1 min] WHERE u.k = t.k)"
        " UNION ALL SELECT b FROM v ORDER BY a DESC LIMIT 5) RESTORE"
    )
    assert isinstance(query.where, Call) and isinstance(query.where.args[0], Exists)
    assert query.union == (parse_query("SELECT b FROM v"),)
    assert query.output is not None and query.output.restore and query.limit == 5
    assert query.order_by[0].descending and not query.order_by[0].nulls_first
    wstream = parse_query("WSTREAM(SELECT a FROM t)[ROWS 5]")
    assert wstream.output is not None and wstream.output.window == Window(rows=5, slide_rows=1)


def test_life_of_a_query() -> None:
    text = "CREATE QUERY q START AT TIMESTAMP '1970-01-01' STOP AT TIMESTAMP '1970-01-02' BACKFILL AS SELECT a FROM t"
    query = parse_query(text)
    assert (query.name, query.start_at, query.stop_at, query.backfill) == ("q", 0, 1440 * MINUTE, True)
    assert parse_query("SELECT a FROM t", name="mine").name == "mine"
    with pytest.raises(ParseError, match="START stands too late") as late:
        parse_query("CREATE QUERY q BACKFILL START AT TIMESTAMP '1970-01-01' AS SELECT a FROM t")
    assert late.value.hint == "the order is MATERIALIZED, START AT, STOP AT, BACKFILL, AS"


def test_modifiers_and_preference() -> None:
    query = parse_query("SELECT DISTINCT APPROX a FROM t WITH PREFERENCE weighted a FADE FACTOR 0.5")
    assert query.distinct and query.approximate
    assert query.preference is not None and (query.preference.kind, query.preference.fade) == ("weighted", 0.5)
    assert not parse_query("SELECT approx, approx + 1 FROM t").approximate


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("BUDGET 5 ROWS", Budget(rows=5)),
        ("BUDGET 7 EVENTS FADE FACTOR 1", Budget(events=7)),
        ("BUDGET '200 ms'", Budget(time=200_000)),
        ("BUDGET 2 s WINDOW '1 min'", Budget(time=2_000_000)),
        ("WINDOW '1 min' BUDGET auto", Budget()),
        ("", None),
    ],
)
def test_budgets(written: str, wanted: Budget | None) -> None:
    preference = "desc estimate(t.a) * b, SUMMARY.Estimate.Count(s.a)"
    text = f"SELECT a FROM t, s WHERE t.a = s.a WITH PREFERENCE {preference} {written}"
    query = parse_query(text)
    assert query.preference is not None and query.preference.budget == wanted
    assert [render(expr) for expr in query.preference.exprs] == ["estimate(t.a) * b", "estimate(s.a)"]
    assert parse_query(render(query)) == query


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("BUDGET", "expected a time a step such as '200 ms', a number of ROWS or EVENTS, or AUTO"),
        ("BUDGET 0 ROWS", "greater than zero"),
        ("FADE FACTOR 0", "more than 0 and at most 1"),
        ("FADE FACTOR 1.5", "more than 0 and at most 1"),
        ("BUDGET 5 ROWS BUDGET 5 ROWS", "BUDGET is written twice"),
        ("WINDOW 0 s", "longer than zero"),
    ],
)
def test_preferences_that_say_nothing(written: str, wanted: str) -> None:
    with pytest.raises(ParseError, match=wanted):
        parse_query(f"SELECT a FROM t WITH PREFERENCE desc a {written}")


@pytest.mark.parametrize(
    ("text", "value", "type_"),
    [
        ("1", 1, types.INT),
        ("-2147483648", -(2**31), types.INT),
        ("2147483648", 2**31, types.BIGINT),
        ("9223372036854775808", Decimal(2**63), types.decimal(19, 0)),
        ("1.5", Decimal("1.5"), types.decimal(2, 1)),
        ("0.05", Decimal("0.05"), types.decimal(2, 2)),
        (".5", Decimal("0.5"), types.decimal(1, 1)),
        ("1.50BD", Decimal("1.50"), types.decimal(3, 2)),
        ("1e3", 1000.0, types.DOUBLE),
        ("1.5D", 1.5, types.DOUBLE),
        ("1.5f", 1.5, types.FLOAT),
        ("5L", 5, types.BIGINT),
        ("5S", 5, types.SMALLINT),
        ("-5Y", -5, types.TINYINT),
        (r"'it''s \'x\' \u0041\t\\ \% \q'", "it's 'x' A\t\\ \\% q", types.STRING),
        ('"text"', "text", types.STRING),
        ("TRUE", True, types.BOOLEAN),
        ("NULL", None, types.NULL),
        ("DATE '1970-01-02'", 1, types.DATE),
        ("TIMESTAMP '1970-01-01 00:00:01.5'", 1_500_000, types.TIMESTAMP),
        ("TIMESTAMP '1970-01-01T02:00:00+02:00'", 0, types.TIMESTAMP),
        ("INTERVAL '5' MINUTE", 5 * MINUTE, types.INTERVAL),
        ("INTERVAL '5 minutes'", 5 * MINUTE, types.INTERVAL),
        ("INTERVAL 5 MINUTES", 5 * MINUTE, types.INTERVAL),
    ],
)
def test_literals(text: str, value: object, type_: types.Type) -> None:
    assert parse_expression(text) == Literal(value, type_)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a + b * c - d", "(a + (b * c)) - d"),
        ("a | b & c ^ d", "a | ((b & c) ^ d)"),
        ("a || b + c", "(a || b) + c"),
        ("a = b < c", "(a = b) < c"),
        ("a = b IS NULL", "(a = b) IS NULL"),
        ("NOT a = b AND c OR d", "((NOT (a = b)) AND c) OR d"),
        ("-a * b", "(-a) * b"),
        ("-a::int", "-(a::int)"),
        ("x BETWEEN 1 AND 2 AND y", "(x >= 1 AND x <= 2) AND y"),
        ("x NOT BETWEEN 1 AND 2", "NOT (x >= 1 AND x <= 2)"),
        ("x NOT LIKE 'a' || b", "NOT (x LIKE ('a' || b))"),
        ("x REGEXP 'a'", "x RLIKE 'a'"),
        (r"x LIKE '5!%!!_\\\\' ESCAPE '!'", r"x LIKE '5\\%!_\\\\\\\\'"),
        ("x LIKE '%%_' ESCAPE '%'", r"x LIKE '\\%_'"),
        (r"NOT x ILIKE 'a\\\\%' ESCAPE '\\'", r"NOT x ILIKE 'a\\\\%'"),
        ("x IS NOT TRUE", "NOT (x <=> TRUE)"),
        ("x IS DISTINCT FROM y", "NOT (x <=> y)"),
        ("a == b", "a = b"),
        ("a != b", "a <> b"),
        ("CASE x WHEN 1 THEN 2 END", "CASE WHEN x = 1 THEN 2 END"),
        ("EXTRACT(YEAR FROM x)", "year(x)"),
        ("POSITION('a' IN b)", "position('a', b)"),
        ("TRIM(LEADING 'a' FROM b)", "ltrim('a', b)"),
        ("TRIM(BOTH FROM b)", "trim(b)"),
        ("SUBSTRING(a FROM 2 FOR 3)", "substring(a, 2, 3)"),
        ("mean(a)", "avg(a)"),
        ("TRY_CAST(a AS LONG)", "a::bigint"),
        ("CAST(a AS varchar(10))", "CAST(a AS string)"),
    ],
)
def test_the_same_expression(text: str, same: str) -> None:
    assert parse_expression(text) == parse_expression(same)


def test_trees() -> None:
    assert parse_expression("count(1)") == AggregateCall("count", (i(1),))
    distinct = parse_expression("count(DISTINCT a) FILTER (WHERE a > 1)")
    assert distinct == AggregateCall("count", (a(),), True, Call("gt", (a(), i(1))))
    assert parse_expression("CASE WHEN a THEN 1 ELSE 2 END") == Case(((a(), i(1)),), i(2))
    assert parse_expression("a::decimal(5,2)") == Cast(a(), types.decimal(5, 2))
    assert parse_expression("IF(a, 1, 2)") == Call("if", (a(), i(1), i(2)))
    assert parse_expression("`t x`.`select`") == Column("select", "t x")
    assert parse_query("SELECT t.* FROM t").items[0].expr == Column("*", "t")


def test_every_node_has_its_place() -> None:
    text = "SELECT sum(price * 2) AS x FROM trades [RANGE 5 min] WHERE a IN (1, 2)"
    query = parse_query(text)
    call = query.items[0].expr
    assert isinstance(call, AggregateCall) and call.place is not None
    assert text[call.place.start : call.place.end] == "sum(price * 2)"
    assert isinstance(query.where, Call) and query.where.place is not None
    assert text[query.where.place.start : query.where.place.end] == "a IN (1, 2)"
    assert isinstance(query.source, Named) and query.source.place is not None
    assert text[query.source.place.start : query.source.place.end] == "trades [RANGE 5 min]"


def test_scripts() -> None:
    assert parse_script("") == parse_script(" ; -- nothing;\n /* ; /* nested */ */") == ()
    assert len(parse_script("SELECT ';' FROM t; -- ;\nSELECT `;` FROM t /* ; */")) == 2
    with pytest.raises(ParseError):
        parse_query("SELECT 1 FROM t; SELECT 2 FROM t")


def test_durations() -> None:
    assert parse_duration("1 h 30 min") == 90 * MINUTE
    assert parse_duration("0.000001 s") == 1
    for text in ("", "5", "min", "5 parsecs", "0.1 us", "5 min and more", "1 month"):
        with pytest.raises(TextError):
            parse_duration(text)


def test_long_texts_that_are_flat() -> None:
    assert len(parse_query(f"SELECT {', '.join('a' * 2000)} FROM t").items) == 2000
    assert isinstance(parse_expression(f"a IN ({', '.join('1' * 2000)})"), Call)
