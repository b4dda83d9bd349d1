"""All mistakes of a script are told at once, each once, and nothing of it is done."""

from __future__ import annotations

import re

import pytest

from mullion.engine import Engine
from mullion.errors import CheckError, Mistakes, MullionError, NotSupported, ParseError
from mullion.expressions.functions import NAMES
from mullion.expressions.functions.sparks import sparks_names
from mullion.language.dialect import AGGREGATES
from mullion.language.parse import parse_script, read_script

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) USING parquet OPTIONS (path 'nowhere') TIMESTAMP BY ts"
WINDOW = "[RANGE 10 s SLIDE 5 s]"


def told(script: str) -> list[tuple[str, int]]:
    """The message and the line of each mistake."""
    engine = Engine()
    with pytest.raises(MullionError) as refused:
        engine.execute(script)
    assert not engine.catalog.streams and not engine.catalog.queries
    found = refused.value.errors if isinstance(refused.value, Mistakes) else (refused.value,)
    assert all(re.search(re.escape(str(error)), str(refused.value)) for error in found)
    return [(error.message, error.place.line) for error in found]  # type: ignore[attr-defined]


def test_mistakes_of_reading_and_of_checking_together() -> None:
    script = f"""{STREAM};
CREATE QUERY a AS SELECT sum(y) FROM s {WINDOW};
CREATE QUERY b AS SELEC count(*) FROM s {WINDOW};
CREATE QUERY c AS SELECT count(*) AS n FROM s {WINDOW};
CREATE QUERY d AS SELECT count(*) FROM s [RANGE 10 s SLID 5 s];
CREATE QUERY e AS SELECT median(k, k) FROM s {WINDOW};
DROP QUERY nobody;
EXPLAIN c;
EXPLAIN nothing;
SELECT max(z) FROM s [RANGE 1 s];
"""
    assert told(script) == [
        ("expected SELECT, found 'SELEC'", 3),
        ("expected SLIDE, OFFSET, WATTR, INTERNAL or ']', found 'SLID'", 5),
        ("unknown column 'y'", 2),
        ("median takes one argument; what comes after it must be constant", 6),
        ("unknown query 'nobody'", 7),
        ("unknown query 'nothing'", 9),
        ("unknown column 'z'", 10),
    ]


@pytest.mark.parametrize(
    ("written", "told_of", "underlined"),
    [
        ("ON s(kk) WITH GRANULARITY '10 s' AND COLLAPSE (4, 5)", "unknown column 'kk' in s", "kk"),
        ("ON s(k) WITH GRANULARTY '10 s' AND COLLAPSE (4, 5)", "expected WITH GRANULARITY, found", "GRANULARTY"),
        ("IN s(k) WITH GRANULARITY '10 s' AND COLLAPSE (4, 5)", "expected ON, found 'IN'", "IN"),
    ],
)
def test_what_lacks_a_refused_summary_is_no_mistake_of_its_own(written: str, told_of: str, underlined: str) -> None:
    """The mistake is underlined, and what would have asked the summary is left out; other mistakes are not."""
    script = f"""{STREAM};
CREATE SUMMARY counted {written};
SELECT APPROX count(*) AS n FROM s [RANGE '1 min'] WHERE k = 'a';
CREATE QUERY rare AS SELECT k FROM s [RANGE 1 min] WITH PREFERENCE ASC estimate(k) BUDGET 9 ROWS;
CREATE QUERY sum AS SELECT sum(y) FROM s {WINDOW};
"""
    first, second = told(script)
    assert first[0].startswith(told_of) and first[1] == 2 and second == ("unknown column 'y'", 5)
    with pytest.raises(Mistakes) as refused:
        Engine().execute(script)
    place = refused.value.errors[0].place  # type: ignore[attr-defined]
    assert script[place.start : place.end] == underlined


@pytest.mark.parametrize(
    ("statement", "told_of", "underlined"),
    [
        ("DROP QUERY tot", "unknown query 'tot'", "tot"),
        ("EXPLAIN tot", "unknown query 'tot'", "tot"),
        (f"CREATE QUERY total START AT TIMESTAMP '2024-01-01' AS SELECT sum(x) FROM s {WINDOW}", "a query", "total"),
        (STREAM, "already a stream or table 's'", "s"),
        ("CREATE TABLE S (k STRING) USING csv OPTIONS (path 't')", "already a stream or table 'S'", "S"),
    ],
)
def test_a_name_that_is_unknown_or_taken_is_underlined(statement: str, told_of: str, underlined: str) -> None:
    script = f"{STREAM};\nCREATE QUERY total AS SELECT sum(x) FROM s {WINDOW};\n{statement}"
    with pytest.raises(CheckError, match=told_of) as refused:
        Engine().execute(script)
    place = refused.value.place
    assert place is not None and place.line == 3 and script[place.start : place.end] == underlined


def test_an_unknown_stream_of_a_summary_is_underlined() -> None:
    script = f"{STREAM}; CREATE SUMMARY counted ON ss(k) WITH GRANULARITY '10 s' AND COLLAPSE (4, 5)"
    with pytest.raises(CheckError, match="unknown stream 'ss'") as refused:
        Engine().execute(script)
    place = refused.value.place
    assert place is not None and script[place.start : place.end] == "ss" and refused.value.hint == "did you mean 's'?"


@pytest.mark.parametrize(
    "first",
    [
        "CREATE STREAM s (ts TIMESTAMP k STRING) USING parquet OPTIONS (path 'p') TIMESTAMP BY ts",
        "CREAT STREAM s (ts TIMESTAMP) USING parquet OPTIONS (path 'p') TIMESTAMP BY ts",
        "CREATE STREAM s (ts TIMESTAMP) USING parquet OPTIONS (path 'p') TIMESTAMP BY tss",
        "CREATE STREAM s (ts TIMESTAMP) USING parqet OPTIONS (path 'p') TIMESTAMP BY ts",
    ],
)
def test_what_only_follows_from_a_mistake_is_not_told(first: str) -> None:
    """The stream is not there, so neither are its queries, nor those that read them."""
    script = f"""{first};
CREATE QUERY a MATERIALIZED AS SELECT DISTINCT k FROM s [RANGE 10 s];
CREATE QUERY b AS SELECT count(*) AS n FROM a [RANGE 10 s];
EXPLAIN b; DROP QUERY a;
SELECT count(*) FROM S [RANGE 1 s];
CREATE QUERY own AS SELECT count(*) FROM elsewhere {WINDOW}
"""
    assert [line for _, line in told(script)] == [1, 6]


def test_a_broken_query_hides_no_other_mistake() -> None:
    script = f"{STREAM};\nCREATE QUERY a AS SELECT FROM s {WINDOW};\nEXPLAIN a;\nEXPLAIN aa"
    assert [line for _, line in told(script)] == [2, 4]


def test_one_mistake_is_raised_as_it_is() -> None:
    with pytest.raises(ParseError, match="expected SELECT"):
        parse_script("CREATE QUERY a AS SELEC 1")
    with pytest.raises(CheckError, match="unknown column"):
        Engine().execute(f"{STREAM}; CREATE QUERY a AS SELECT sum(y) FROM s {WINDOW}")


def test_reading_goes_on_behind_the_next_semicolon() -> None:
    parsed = read_script("SELEC 1; ; EXPLAIN; CREATE TABLE t (; 'a;b' ; EXPLAIN q")
    assert len(parsed.statements) == 2 and len(parsed.mistakes) == 3 and parsed.broken == {"t"}
    with pytest.raises(Mistakes) as refused:
        parse_script("x;" * 200)
    assert str(refused.value).startswith("200 mistakes; nothing was done\n\n") and "and 150 more" in str(refused.value)


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        ("corr(x, x)", "the function corr is not supported yet", "list those that are"),
        ("CORR(x, x)", "the function corr is not supported yet", "list those that are"),
        ("max(sha2(k, 256))", "the function sha2 is not supported yet", "list those that are"),
        ("cuont(x)", "unknown function 'cuont'", "did you mean 'count'?"),
        ("max(uper(k))", "unknown function 'uper'", "did you mean 'upper'?"),
        ("frobnicate(x)", "unknown function 'frobnicate'", ""),
        ("cuont(*)", "unknown function 'cuont'", "did you mean 'count'?"),
        ("max(x) + CUONT(*)", "unknown function 'cuont'", "did you mean 'count'?"),
        ("corr(*)", "the function corr is not supported yet", "list those that are"),
        ("upper(*)", "upper does not take *", "only count does"),
        ("max(concat(*))", "concat does not take *", "only count does"),
    ],
)
def test_functions_that_spark_has_are_not_supported_and_others_are_unknown(call: str, message: str, hint: str) -> None:
    engine = Engine()
    with pytest.raises((CheckError, NotSupported)) as refused:
        engine.execute(f"{STREAM}; CREATE QUERY q AS SELECT {call} AS c FROM s {WINDOW}")
    assert refused.value.message == message
    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize(
    "clauses", ["WHERE cuont(*) > 3", "GROUP BY cuont(*)", "GROUP BY k HAVING cuont(*) > 3", "ORDER BY cuont(*)"]
)
def test_an_unknown_function_is_told_before_its_star(clauses: str) -> None:
    with pytest.raises(CheckError, match="unknown function 'cuont'") as refused:
        Engine().execute(f"{STREAM}; CREATE QUERY q AS SELECT count(*) AS c FROM s {WINDOW} {clauses}")
    assert refused.value.hint == "did you mean 'count'?"


def test_the_list_of_sparks_functions() -> None:
    listed = sparks_names()
    assert len(listed) > 500 and {"corr", "sha2", "upper", "collect_list"} <= listed
    own = {name for name in (*NAMES, *AGGREGATES) if "$" not in name}
    assert len(own & listed) > 100
