"""LIKE by its definition and RLIKE by another engine, and both in linear time."""

from __future__ import annotations

import re
import time
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.errors import CheckError, NotSupported
from mullion.expressions.evaluate import evaluate
from mullion.expressions.functions.patterns import LONGEST, like_regex
from mullion.expressions.functions.regex import Regex, regex
from mullion.expressions.typing import resolve
from mullion.expressions.vector import Vector
from mullion.language.parse import parse_expression, parse_query
from mullion.language.query import Column
from mullion.language.types import STRING, TIMESTAMP
from mullion.options import Options, Way
from mullion.planner.rules import make_plan
from mullion.spark.expressions import spark_text

TERMINATORS = "\n\r\u0085\u2028\u2029"
NOT_NEWLINE = rf"[^{TERMINATORS}]"
END = rf"(?=(?:\r\n|[{TERMINATORS}])?\Z)(?!(?<=\r)\n)"


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def matched(operator: str, pattern: str, values: list[str]) -> list[bool]:
    expr, _ = resolve(parse_expression(f"s {operator} {quoted(pattern)}"), {"s": STRING})
    return list(evaluate(expr, {"s": Vector.of(STRING, values)}, len(values)).to_list())


def is_like(pattern: str, value: str) -> bool:
    """The definition: % stands for any characters, _ for one, and a backslash takes their meaning away."""

    @cache
    def rest(p: int, v: int) -> bool:
        if p == len(pattern):
            return v == len(value)
        if pattern[p] == "%":
            return rest(p + 1, v) or (v < len(value) and rest(p, v + 1))
        if v == len(value):
            return False
        if pattern[p] == "\\":
            return pattern[p + 1] == value[v] and rest(p + 2, v + 1)
        return (pattern[p] == "_" or pattern[p] == value[v]) and rest(p + 1, v + 1)

    return rest(0, 0)


pieces = st.sampled_from(("%", "%", "_", "a", "b", "ab", "\n", "é", "😀", "\\%", "\\_", "\\\\", ".", "*", "(", "'"))
values = st.text("ab%_\\\né😀.*('A", max_size=12)


@pytest.mark.slow
@settings(max_examples=400)
@given(st.lists(pieces, max_size=9).map("".join), st.lists(values, min_size=1, max_size=6))
def test_like_is_what_it_is_defined_to_be(pattern: str, found: list[str]) -> None:
    expected = [is_like(pattern, value) for value in found]
    assert matched("LIKE", pattern, found) == expected
    # Java reads the expression that Spark is given as Python does: literals, dots, lazy and atomic repetition.
    given_to_spark = like_regex(pattern)
    assert given_to_spark is not None
    assert [re.search(f"(?s)\\A(?:{given_to_spark})\\Z", value) is not None for value in found] == expected


@settings(max_examples=100)
@given(st.lists(pieces, max_size=6).map("".join), values)
def test_ilike_takes_no_notice_of_case(pattern: str, value: str) -> None:
    assert matched("ILIKE", pattern, [value]) == [is_like(pattern.lower(), value.lower())]


def test_spark_is_given_patterns_that_do_not_go_back() -> None:
    text = spark_text(resolve(parse_expression("s LIKE '%a%a%b'"), {"s": STRING})[0])
    assert text == r"(`s` RLIKE CAST(X'" + rb"(?s)\A(?>.*?a)(?>.*?a).*b\z".hex() + "' AS STRING))"
    for plain in ("a%", "%a", "%a_b%", "a%b", "ab", "", "%", "_"):
        assert "LIKE" in spark_text(resolve(parse_expression(f"s LIKE '{plain}'"), {"s": STRING})[0])
        assert "RLIKE" not in spark_text(resolve(parse_expression(f"s LIKE '{plain}'"), {"s": STRING})[0])
    assert "RLIKE" in spark_text(resolve(parse_expression("s ILIKE 'A%b%c'"), {"s": STRING})[0])


atoms = st.sampled_from(
    (
        "a",
        "b",
        "A",
        ".",
        "\\.",
        "\\d",
        "\\w",
        "\\W",
        "\\s",
        "\\S",
        "\\b",
        "\\n",
        "[ab]",
        "[^a]",
        "[a-z1]",
        "[\\w-]",
        "é",
    )
)


def repeated(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    again = st.sampled_from(("*", "+", "?", "{2}", "{1,2}", "*?", "{0,1}?"))
    return st.builds("(?:{}){}".format, inner, again)


def alternatives(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})")


inside = st.recursive(
    atoms,
    lambda inner: repeated(inner) | alternatives(inner) | st.lists(inner, min_size=2, max_size=3).map("".join),
    max_leaves=6,
)
patterns = st.builds(
    lambda start, parts, end: start + "|".join(parts) + end,
    st.sampled_from(("", "^", "(?i)", "(?i)^")),
    st.lists(inside, min_size=1, max_size=2),
    st.sampled_from(("", "$")),
)
texts = st.text("abAB1_é \n\r\u0085\u2028-.k\u212a", max_size=8)


def by_python(pattern: str) -> re.Pattern[str]:
    """The same for Python, whose engine goes back and tries again."""
    flags = re.ASCII
    if pattern.startswith("(?i)"):
        flags, pattern = flags | re.IGNORECASE, pattern[4:]
    out = ""
    for token in re.findall(r"\\.|\[[^\]]*\]|.", pattern, re.DOTALL):
        out += NOT_NEWLINE if token == "." else END if token == "$" else token
    return re.compile(out, flags)


@pytest.mark.slow
@settings(max_examples=600)
@given(patterns, st.lists(texts, min_size=1, max_size=8))
def test_regular_expressions_mean_the_same_to_another_engine(pattern: str, found: list[str]) -> None:
    own = regex(pattern)
    assert isinstance(own, Regex), own
    expected = [by_python(pattern).search(text) is not None for text in found]
    assert own.matches(found).tolist() == expected
    assert matched("RLIKE", pattern, found) == expected


@pytest.mark.parametrize(
    ("operator", "pattern", "value"),
    [
        ("LIKE", "%a%a%a%a%b", "a" * 20_000),
        ("LIKE", "%a" * 40 + "%b", "a" * 20_000),
        ("LIKE", "%a_" * 40 + "%b", "a" * 20_000),
        ("ILIKE", "%A" * 40 + "%b", "a" * 20_000),
        ("RLIKE", "(a|a)*b", "a" * 20_000),
        ("RLIKE", "(a+)+b", "a" * 20_000),
        ("RLIKE", ".*a.*a.*a.*a.*a.*b", "a" * 20_000),
        ("RLIKE", "(.*)(.*)(.*)(.*)(.*)[^a]$", "a" * 20_000),
        ("RLIKE", "(?i)(x+x+)+y", "x" * 20_000),
    ],
)
def test_no_pattern_takes_more_than_linear_time(operator: str, pattern: str, value: str) -> None:
    """Going back would take from hours to the age of the universe: a generous limit tells the two apart."""
    matched(operator, pattern, ["warm"])
    start = time.process_time()
    assert matched(operator, pattern, [value]) == [False]
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a(?=b)", "lookaround, \\(\\?=, is not supported"),
        ("a(?<!b)", "lookaround, \\(\\?<!, is not supported"),
        ("(a)\\1", r"\\1 is not supported"),
        ("a++", "possessive repetition"),
        ("a**", "repeats a repetition"),
        ("*a", "nothing stands before"),
        ("(" * 3000, "is not closed"),
        ("(a", "is not closed"),
        ("a)", "closes no group"),
        ("a{9999}", "invalid repetition size"),
        ("((a{50}){50}){50}", "bad regular expression"),
        ("[z-a]", "the range z-a"),
        ("[a", "is not closed"),
        ("$a", "a \\$ before other characters"),
        ("(a$|b)+", "a \\$ that is repeated"),
        ("\\p{L}", "\\\\p is not supported"),
        ("\\Qa\\E", "\\\\Q is not supported"),
        ("(?P<x>a)", "only \\(\\?: groups"),
        ("(?<x>a)", "only \\(\\?: groups"),
        ("a{,3}", "no repetition"),
        ("a}", "ends no repetition"),
        ("[a&&b]", "not supported"),
        ("a" * 20_000, "10,000 characters"),
    ],
)
def test_what_is_refused_says_why(pattern: str, why: str) -> None:
    with pytest.raises(CheckError, match=why):
        resolve(parse_expression(f"s RLIKE {quoted(pattern)}"), {"s": STRING})


@pytest.mark.parametrize("pattern", ["a\\b", "a\\"])
def test_backslashes_of_like(pattern: str) -> None:
    for operator in ("LIKE", "ILIKE"):
        with pytest.raises(CheckError, match="a backslash in a LIKE pattern must stand before"):
            resolve(parse_expression(f"s {operator} {quoted(pattern)}"), {"s": STRING})


def test_deep_patterns_are_taken() -> None:
    assert matched("RLIKE", "(" * 900 + "a" + ")" * 900, ["bab", "b"]) == [True, False]
    assert matched("LIKE", "%" * LONGEST, ["x"]) == [True]
    with pytest.raises(CheckError, match="10,000 characters"):
        resolve(parse_expression(f"s LIKE '{'a' * (LONGEST + 1)}'"), {"s": STRING})


STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING)), "ts")


@pytest.mark.parametrize(
    "text",
    [
        "count(*) FROM s [RANGE 1 s SLIDE 1 s] WHERE k RLIKE '^a'",
        "count(*) FROM s [RANGE 1 s SLIDE 1 s] GROUP BY k RLIKE '^a'",
        "count(*) FILTER (WHERE k RLIKE '^a') FROM s [RANGE 1 s SLIDE 1 s]",
        "max(CASE WHEN k RLIKE '^a' THEN 1 END) FROM s [RANGE 1 s SLIDE 1 s]",
    ],
)
def test_spark_never_matches_a_regular_expression(text: str) -> None:
    plan = make_plan(STREAM, [bind(parse_query(f"SELECT {text}"), {"s": STREAM})], Options(way=Way.NATIVE))
    assert plan.way == "kernel"
    assert plan.only_kernel == "only the kernel matches regular expressions in linear time"


def test_what_must_be_in_two_places_is_refused() -> None:
    with pytest.raises(NotSupported, match="initcap and rlike in one expression"):
        resolve(parse_expression("initcap(k) RLIKE 'A'"), {"k": STRING})
    assert resolve(parse_expression("initcap(k)"), {"k": STRING})[0] != Column("k")
