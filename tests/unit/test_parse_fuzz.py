"""Whatever the text, the parser answers with a tree or a TextError; and every tree survives its own text."""

from __future__ import annotations

import random
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.errors import TextError
from mullion.language.parse import parse_duration, parse_expression, parse_script
from mullion.language.render import render
from mullion.language.tokens import Kind, any_tokens, plain_tokens, tokenize

VALID = (
    """CREATE STREAM trades (ts TIMESTAMP, `my price` DECIMAL(10,2), volume INT) USING parquet
       OPTIONS (path 'data/trades', a.b = 'c', "x y" 'it''s') TIMESTAMP BY ts LATENESS '5 seconds';""",
    "CREATE RETROACTIVE TABLE close (symbol STRING, cp DOUBLE) USING csv OPTIONS (header 'true'); EXPLAIN; EXPLAIN big",
    """CREATE QUERY big START AT TIMESTAMP '2024-01-01' BACKFILL AS -- a comment; with a semicolon
       SELECT symbol, sum(price * volume) AS total, count(*) n FROM trades [RANGE '12 min' SLIDE '5 min' OFFSET -1 s]
       WHERE volume > 50000 AND NOT price BETWEEN 1.5 AND 2e3 GROUP BY symbol, 2 HAVING count(*) > 3; DROP QUERY big""",
    "SELECT a, window, window.start FROM trades t GROUP BY window(t.ts, '12 minutes', '5 minutes'), 1 ORDER BY 2 DESC",
    """SELECT t.* FROM HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '12' MINUTE) t
       LEFT JOIN close c ON t.symbol = c.symbol AND c.cp IS NOT NULL, other [PARTITION BY k ROWS 5 SLIDE 2] LIMIT 10""",
    """ISTREAM(SELECT DISTINCT CASE a WHEN 1 THEN 'x' ELSE "y" END FROM (SELECT b FROM u [NOW]) x [RANGE UNBOUNDED]
       WHERE NOT EXISTS (SELECT 1 FROM v [RANGE 5 d] WHERE v.k = x.k)) RESTORE""",
    """WSTREAM(SELECT count(DISTINCT a) FILTER (WHERE b LIKE 'x\\\\%'), -5L, 0.05, a::bigint FROM t [ROWS 5]
       UNION ALL SELECT c & d | e ^ ~f, NULL, TRUE, .5 FROM w [FROM TIMESTAMP '2024-01-01' SLIDE 1 h])[ROWS 5]""",
    """CREATE STREAM s (n BIGINT, ts TIMESTAMP) USING csv TIMESTAMP BY ts KEEP 1000 ROWS LATENESS 5 s;
       CREATE STREAM r USING parquet TIMESTAMP BY ts KEEP '1 hour'; DROP SYNOPSIS t;
       CREATE SYNOPSIS t ON s(n) USING timegram (boundaries (-10, -6.5, 2L, 1e300), rows 4);
       CREATE SYNOPSIS u ON s(`n`) USING ordered_sharing (rows 10);
       CREATE SYNOPSIS v ON s(n) USING timegram (rows 4, buckets 2)""",
    """SELECT APPROX first(a) IGNORE NULLS, last(a) FILTER (WHERE b) RESPECT NULLS, top_k(a, 3)
       FROM t [RANGE 10 SLIDE 5 WATTR n];
       SELECT 1 FROM t [WATTR n FROM -100 SLIDE 5 OFFSET -2]; SELECT 1 FROM t [SLIDE 3 ROWS 4];
       SELECT 1 FROM t [RANGE UNBOUNDED SLIDE 3 TUPLES]; SELECT 1 FROM t [FROM TIMESTAMP '2024-01-01' SLIDE 2 TUPLES];
       SELECT 1 FROM t [NOW WATTR n]; SELECT 1 FROM t [RANGE 7 WATTR n INTERNAL]""",
    "SELECT trim(BOTH 'x' FROM y) || substring(a FROM 1 FOR 2), position('a' IN b), left(c, 2) FROM t [WINDOW 3 s]",
)


def check_script(text: str) -> None:
    try:
        statements = parse_script(text)
    except TextError as error:
        assert error.place is not None
        assert 0 <= error.place.start <= error.place.end <= len(text)
        str(error)
        return
    shown = "; ".join(render(s) for s in statements)
    assert parse_script(shown) == statements
    assert "; ".join(render(s) for s in parse_script(shown)) == shown


def check_expression(text: str) -> None:
    try:
        expr = parse_expression(text)
    except TextError:
        return
    assert parse_expression(render(expr)) == expr


def test_the_valid_scripts_are_valid() -> None:
    for text in VALID:
        assert parse_script(text)
        check_script(text)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    check_script(text)
    check_expression(text)
    with suppress(TextError):
        parse_duration(text)


FRAGMENTS = [
    *sorted({t.text for text in VALID for t in tokenize(text) if t.kind in (Kind.WORD, Kind.SYMBOL, Kind.NUMBER)}),
    *(
        "'s'",
        "''",
        "'",
        '"',
        "`",
        "`q`",
        "/*",
        "*/",
        "--",
        "\n",
        "5s",
        "1.5BD",
        "1e400",
        "\\",
        "{#",
        "#}",
        "§",
        "'5 min'",
    ),
]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12))
def test_any_words(words: list[str]) -> None:
    check_script("SELECT " + " ".join(words))
    check_expression(" ".join(words))
    check_expression("".join(words))


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(VALID), st.integers(0, 2**32), st.integers(1, 3))
def test_mutated_tokens(text: str, seed: int, times: int) -> None:
    rng = random.Random(seed)
    pieces = [text[t.start : t.end] for t in tokenize(text)][:-1]
    for _ in range(times):
        at, other = rng.randrange(len(pieces)), rng.randrange(len(pieces))
        match rng.randrange(4):
            case 0:
                pieces[at] = ""
            case 1:
                pieces.insert(other, pieces[at])
            case 2:
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case _:
                pieces[at] = rng.choice(FRAGMENTS)
    check_script(" ".join(pieces))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(VALID), st.integers(0, 2**32), st.integers(1, 3))
def test_mutated_characters(text: str, seed: int, times: int) -> None:
    rng = random.Random(seed)
    for _ in range(times):
        at, other = rng.randrange(len(text)), rng.randrange(len(text))
        middle = rng.choice(["", text[at] * 2, text[other], "'", "\\", "(", ";", "0", "\0", "\x85"])
        text = text[:at] + middle + text[at + 1 :]
    check_script(text)


PIECES = (
    *("a", "sum", "x1", "_", "SELECT", "GROUP BY", "N", "r", "x", "1", "12", "1.5", "1.", "1L", "1bd", ".5", "1e5"),
    *("0x1F", "1d", "5min", "'a b'", "''", "'it''s'", r"'a\n'", "`q`", '"d"', " ", "\n", "\t", "--", "/*", "*/"),
    *("<=>", "<=", "<>", ">=", "==", "!=", "::", "||", "->", "=>", ":", "!", "~", "^", "&", "|", "%", "*", "/", "+"),
    *("-", "(", ")", "[", "]", "{", "}", "@", "#", "$", "?", ".", ",", ";", "\\", "é", "\x0b", "\x00", "<", ">", "="),
)


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@settings(max_examples=1500, deadline=None)
def test_the_fast_way_to_tokens_finds_those_of_the_other(text: str) -> None:
    found = plain_tokens(text)
    if found is not None:
        assert found == any_tokens(text)


def test_a_plain_text_goes_the_fast_way() -> None:
    plain = "SELECT a, sum(b * 2.5) AS s FROM t [RANGE '10 s' SLIDE 5 s]\n WHERE c <> 'x' AND d::int >= -1L GROUP BY a;"
    assert plain_tokens(plain) == any_tokens(plain)
    assert plain_tokens(plain) is not None
