"""The canonical text of trees, built at random and by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_window import examples_of
from mullion.language import types
from mullion.language.literals import days, number, parsed_instant
from mullion.language.parse import parse_expression, parse_query, parse_script
from mullion.language.query import AggregateCall, Call, Case, Cast, Column, Expr, Literal
from mullion.language.render import render
from strategies import Example

NAMES = st.sampled_from(["a", "price", "select", "my col", "tick`s", "range", "window_start", "date", "é", "1a"])
INT64 = st.integers(-(2**63), 2**63 - 1)


def of_type(values: st.SearchStrategy[object], type_: types.Type) -> st.SearchStrategy[Literal]:
    return values.map(lambda value: Literal(value, type_))


def decimal_literal(digits: int, scale: int) -> Literal:
    value = Decimal(digits).scaleb(-scale)
    return Literal(value, types.decimal(max(len(str(abs(digits))), scale), scale))


LITERALS = st.one_of(
    st.builds(lambda v: Literal(v, types.INT if -(2**31) <= v < 2**31 else types.BIGINT), INT64),
    of_type(INT64, types.BIGINT),
    of_type(st.integers(-128, 127), types.TINYINT),
    of_type(st.integers(-(2**15), 2**15 - 1), types.SMALLINT),
    st.builds(decimal_literal, st.integers(-(10**20), 10**20), st.integers(0, 12)),
    of_type(st.floats(allow_nan=False, allow_infinity=False), types.DOUBLE),
    of_type(st.floats(allow_nan=False, allow_infinity=False, width=32), types.FLOAT),
    of_type(st.text(max_size=8), types.STRING),
    of_type(st.booleans(), types.BOOLEAN),
    st.just(Literal(None, types.NULL)),
    of_type(st.integers(-700_000, 2_900_000), types.DATE),
    of_type(st.integers(-6 * 10**16, 25 * 10**16), types.TIMESTAMP),
    of_type(st.integers(-6 * 10**16, 25 * 10**16), types.TIMESTAMP_NTZ),
    of_type(INT64, types.INTERVAL),
)
BINARY = """add subtract multiply divide div mod eq ne lt le gt ge eq_null_safe and or
    like ilike rlike concat bitand bitor bitxor"""
UNARY = "negative positive not is_null bitnot abs"


def compound(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.builds(Call, st.sampled_from(BINARY.split()), pair),
        st.builds(Call, st.sampled_from(UNARY.split()), st.tuples(inner)),
        st.builds(Call, st.sampled_from(["if", "concat", "position", "trim", "left"]), st.tuples(inner, inner, inner)),
        st.builds(Call, st.just("in"), st.lists(inner, min_size=2, max_size=4).map(tuple)),
        st.builds(Cast, inner, st.sampled_from([types.STRING, types.decimal(9, 3), types.TIMESTAMP_NTZ])),
        st.builds(Case, st.lists(pair, min_size=1, max_size=2).map(tuple), st.none() | inner),
        st.builds(AggregateCall, st.just("percentile"), pair, st.booleans(), st.none() | inner),
    )


EXPRESSIONS = st.recursive(st.one_of(LITERALS, st.builds(Column, NAMES, st.none() | NAMES)), compound, max_leaves=12)


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS)
def test_an_expression_survives_its_text(expr: Expr) -> None:
    text = render(expr)
    assert parse_expression(text) == expr
    assert render(parse_expression(text)) == text


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("(a + b) + c", "a + b + c"),
        ("a + (b + c)", "a + (b + c)"),
        ("(a * b) + c", "a * b + c"),
        ("a * (b + c)", "a * (b + c)"),
        ("a | (b & c)", "a | b & c"),
        ("(a | b) & c", "(a | b) & c"),
        ("not (a and b)", "NOT (a AND b)"),
        ("not (a is null)", "a IS NOT NULL"),
        ("a not in (1, 2)", "a NOT IN (1, 2)"),
        ("a between 1 and 2", "a >= 1 AND a <= 2"),
        ("(a is null) = b", "(a IS NULL) = b"),
        ("- (5)", "-(5)"),
        ("-5 - -5", "-5 - -5"),
        ("- -a", "-(-a)"),
        ("+a", "+a"),
        ("+5", "5"),
        ("+ +a * +(b + c)", "++a * +(b + c)"),
        ("x is distinct from 1", "NOT x <=> 1"),
        ("COUNT( * )", "count(*)"),
        ("5000000000", "5000000000"),
        ("interval '5400' second", "INTERVAL '90' MINUTE"),
        ("timestamp '2024-01-01 02:00:00.50 +02:00'", "TIMESTAMP '2024-01-01 00:00:00.5'"),
    ],
)
def test_canonical_expressions(written: str, canonical: str) -> None:
    assert render(parse_expression(written)) == canonical


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("select a from t x [window 90 s slide 1 tuple]", "SELECT a FROM t [RANGE '90 s' SLIDE 1 TUPLE] AS x"),
        ("select 1, a from t group by 1, 2 order by 1", "SELECT 1, a FROM t GROUP BY (1), a ORDER BY (1)"),
        ("select a from t, u join v on x", "SELECT a FROM t CROSS JOIN (u JOIN v ON x)"),
        ("select a from t [rows 5 slide 1]", "SELECT a FROM t [ROWS 5]"),
        ("select a from t [slide 3 rows 5]", "SELECT a FROM t [ROWS 5 SLIDE 3]"),
        ("select a from t [range 90 slide 60 wattr c]", "SELECT a FROM t [RANGE 90 SLIDE 60 WATTR c]"),
        ("select a from t [wattr c from -5 slide 6 offset 1]", "SELECT a FROM t [FROM -5 SLIDE 6 OFFSET 1 WATTR c]"),
        ("select first(a) ignore nulls from t", "SELECT first(a, TRUE) FROM t"),
        ("select last(a) filter (where b) respect nulls from t", "SELECT last(a, FALSE) FILTER (WHERE b) FROM t"),
        ("(select a from t) except all select b from u", "SELECT a FROM t EXCEPT ALL SELECT b FROM u"),
        (
            "select a from t union all select b from u except all (select c from v limit 1) except all select d from w",
            "SELECT a FROM t UNION ALL SELECT b FROM u EXCEPT ALL (SELECT c FROM v LIMIT 1) EXCEPT ALL SELECT d FROM w",
        ),
        (
            "create query q materialized start at timestamp '2024-01-01' as select a from t",
            "CREATE QUERY q MATERIALIZED START AT TIMESTAMP '2024-01-01 00:00:00' AS SELECT a FROM t",
        ),
        (
            "create query q as select materialized from `materialized`",
            "CREATE QUERY q AS SELECT `materialized` FROM `materialized`",
        ),
        (
            "select a from t order by a desc nulls last, b nulls last",
            "SELECT a FROM t ORDER BY a DESC, b NULLS LAST",
        ),
    ],
)
def test_canonical_queries(written: str, canonical: str) -> None:
    assert render(parse_query(written)) == canonical
    assert parse_query(canonical) == parse_query(written)


@pytest.mark.slow
@settings(max_examples=100)
@given(examples_of(most_queries=1, most_events=1))
def test_a_query_survives_its_text(example: Example) -> None:
    (query,) = map(parse_query, example.queries)
    text = render(query)
    assert parse_query(text) == query
    assert render(parse_query(text)) == text


def test_canonical_statements() -> None:
    text = (
        "CREATE STREAM `a-b` (ts TIMESTAMP, x DECIMAL(10,2)) USING org.x.Source "
        "OPTIONS (a.b 'c', 'd e' 'it''s') TIMESTAMP BY ts LATENESS '90 s'; "
        "CREATE RETROACTIVE TABLE t USING csv; DROP QUERY q; EXPLAIN q; EXPLAIN; "
        "CREATE STREAM s USING csv TIMESTAMP BY ts LATENESS '5 s' KEEP '1 h'; "
        "CREATE STREAM r USING csv TIMESTAMP BY `keep` AHEAD UNBOUNDED KEEP 1000000 ROWS; "
        "CREATE STREAM r USING csv TIMESTAMP BY `ahead` LATENESS '1 s' AHEAD '2 d'; "
        "CREATE STREAM r USING csv TIMESTAMP BY timestamp_millis(ms + 1) AS t KEEP '1 h'; "
        "CREATE SYNOPSIS t ON trades(price) USING timegram (buckets 64, rows 100000); "
        "CREATE SYNOPSIS t ON trades(price) USING timegram (boundaries (-10, -6.5, 2, 1e+300D), rows 4); "
        "CREATE SYNOPSIS u ON trades(`range`) USING ordered_sharing (rows 100000); DROP SYNOPSIS t; "
        "CREATE SUMMARY s ON trades(symbol) WITH GRANULARITY '10 s' AND COLLAPSE (4, 5); "
        "CREATE SUMMARY s ON trades(symbol) WITH GRANULARITY '1 h' AND COLLAPSE (2, 1) USING counts MEMORY '1024 B'; "
        "CREATE SUMMARY s ON trades(`range`) WITH GRANULARITY '10 s' AND COLLAPSE (4, 5) "
        "USING count_sketch (rows 5, width 256, buckets 16, drift 0.2, longest '5 s'); DROP SUMMARY s"
    )
    assert "; ".join(map(render, parse_script(text))) == text


def test_helpers_agree() -> None:
    place = parse_expression("1").place
    assert place is not None
    assert number("0.05", place).type == types.decimal(2, 2)
    assert render(Literal(days("2024-02-29", place), types.DATE)) == "DATE '2024-02-29'"
    assert render(Literal(parsed_instant("1969-12-31 23:59:59.999999", place), types.TIMESTAMP)).endswith("59.999999'")
