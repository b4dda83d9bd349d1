"""Aggregates over a join with a PREFERENCE: their columns, and what is refused with its place and a hint."""

from __future__ import annotations

import re

import pytest

from any_relation import STREAMS, TABLES
from mullion.algebra.relation import Relation
from mullion.binding.relations import bind
from mullion.binding.signs import never_negative
from mullion.errors import TextError
from mullion.language.parse import parse_expression, parse_query
from promising import Summary

ON_KEYS = (Summary("b", "w"), Summary("a", "k"))


def of(items: str, preference: str, rest: str = "", where: str = "") -> str:
    source = f"FROM a [RANGE 10 us SLIDE 5 us], b [RANGE 10 us] WHERE a.k = b.k{where}"
    return f"SELECT {items} {source} {rest} WITH PREFERENCE {preference}"


def bound(text: str, *summaries: Summary) -> Relation:
    return bind(parse_query(text), STREAMS, TABLES, summaries=summaries or ON_KEYS)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (of("a.k, count(*)", "DESC 1", "GROUP BY a.k"), ["k", "count(*)", "count(*)_bound", "is_complete"]),
        (of("sum(v) AS s", "WEIGHTED 1"), ["s", "is_complete"]),
        (of("APPROX sum(v) AS s", "WEIGHTED 1"), ["s", "s_error", "kept_share", "is_complete"]),
        (of("avg(v) / count(*) AS x, max(v) AS m", "WEIGHTED 1"), ["x", "m", "m_bound", "is_complete"]),
        (of("a.k", "ASC 1", "GROUP BY a.k"), ["k", "is_complete"]),
        (of("min(DISTINCT v) AS m", "ASC 1"), ["m", "m_bound", "is_complete"]),
        (of("count(*) AS n", "DESC 1", "GROUP BY a.k HAVING n > 3 AND a.k < 5 ORDER BY n DESC"),
         ["n", "n_bound", "is_complete"]),
        (of("count(*) AS n", "WEIGHTED 1", "GROUP BY a.k HAVING n < 3 OR NOT min(v) >= 2"), ["n", "is_complete"]),
        (of("sum(v) AS s", "DESC 1", where=" AND v >= 0"), ["s", "s_bound", "is_complete"]),
        (of("sum(v) FILTER (WHERE v BETWEEN 0 AND 9) AS s", "DESC 1"), ["s", "s_bound", "is_complete"]),
    ],
)  # fmt: skip
def test_answers_say_what_they_are(text: str, names: list[str]) -> None:
    assert list(bound(text).names) == names


def test_a_sample_has_the_types_of_the_join_but_for_sums() -> None:
    """Counts are whole numbers; a sum that is scaled is none."""
    relation = bound(of("count(*) AS n, sum(a.k) AS s, min(a.k) AS m", "WEIGHTED 1"))
    assert [str(type_) for _, type_ in relation.root.columns] == ["bigint", "double", "int", "string", "boolean"]
    relation = bound(of("count(*) AS n, sum(abs(a.k)) AS s", "DESC 1"))
    assert [str(type_) for _, type_ in relation.root.columns] == ["bigint", "bigint", "string", "string", "boolean"]


REFUSED = [
    (of("«avg(v)»", "DESC 1"), "avg cannot be combined with PREFERENCE DESC\n.*WEIGHTED estimates it"),
    (
        of("«median(v)»", "WEIGHTED 1"),
        "median cannot be combined with PREFERENCE WEIGHTED\n.*use count, sum, max, min, avg",
    ),
    (of("«count(DISTINCT v)»", "DESC 1"), r"count(DISTINCT ...) cannot be combined with PREFERENCE DESC\n.*missing"),
    (of("«sum(v)»", "ASC 1"), "sum cannot be combined with PREFERENCE ASC\n.*FILTER (WHERE x >= 0)"),
    (of("count(*) + 1 AS n", "DESC 1"), "an expression over bounds"),
    (of("max(v) - min(v) AS n", "WEIGHTED 1"), "an expression over bounds"),
    (of("count(*) AS n", "DESC 1", "GROUP BY a.k HAVING «n < 3»"), "would pass groups that fail"),
    (of("count(*) AS n", "DESC 1", "GROUP BY a.k HAVING NOT «count(*) > 3»"), "would pass groups that fail"),
    (of("count(*) AS n", "DESC 1", "GROUP BY a.k HAVING «count(*) = 3»"), "would pass groups that fail"),
    (of("count(*) AS n", "WEIGHTED 1", "GROUP BY a.k HAVING «min(v) > 3»"), "would pass groups that fail"),
    (of("APPROX count(*) AS n", "DESC 1"), "DESC cannot be combined with SELECT APPROX\n.*use WEIGHTED"),
    (of("a.k, count(*) AS n", "DESC 1", "GROUP BY a.k LIMIT 3"), "LIMIT cannot be combined with"),
]


@pytest.mark.parametrize(("text", "wanted"), REFUSED)
def test_what_would_be_a_wrong_number_is_refused(text: str, wanted: str) -> None:
    plain = text.replace("«", "").replace("»", "")
    with pytest.raises(TextError) as refused:
        bound(plain)
    pattern = wanted.replace("(", r"\(").replace(")", r"\)")
    assert re.search(pattern, str(refused.value), re.DOTALL), refused.value
    place = refused.value.place
    assert place is not None
    if "«" in text:
        assert plain[place.start : place.end] == text[text.index("«") + 1 : text.index("»")]


@pytest.mark.parametrize(
    ("expr", "condition", "known"),
    [
        ("3", None, True),
        ("-3", None, False),
        ("x", None, False),
        ("x * x", None, True),
        ("x * y", "x > 0 AND 2 <= y", True),
        ("x * y", "x > 0 OR y > 0", False),
        ("x", "x > -1", False),
        ("x", "x < 5", False),
        ("x", "x = 4", True),
        ("abs(x) + 1", None, True),
        ("greatest(x, 0)", None, True),
        ("greatest(x, NULL)", None, False),
        ("least(x, 0)", None, False),
        ("CASE WHEN x > 0 THEN x ELSE 0 END", None, True),
        ("CASE WHEN x > 0 THEN x ELSE y END", None, False),
        ("CAST(x AS DOUBLE) / 2", "x >= 0", True),
        ("x - 1", "x >= 1", False),
    ],
)
def test_what_is_never_negative(expr: str, condition: str | None, known: bool) -> None:
    given = None if condition is None else parse_expression(condition)
    assert never_negative(parse_expression(expr), None, given) is known
