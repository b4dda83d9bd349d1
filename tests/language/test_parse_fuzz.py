"""Whatever the text, the parser answers with a tree or a TextError; and every tree survives its own text."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.errors import ParseError, TextError
from mullion.language.parse import parse_duration, parse_expression, parse_script
from mullion.language.render import render
from mullion.language.tokens import Kind, Token, tokenize

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
       CREATE SYNOPSIS v ON s(n) USING timegram (rows 4, buckets 2);
       CREATE SUMMARY w ON s(n) WITH GRANULARITY '10 s' AND COLLAPSE (rate 4, depth 5) MEMORY '256 MB'; DROP SUMMARY w;
       CREATE SUMMARY x ON s(n) WITH GRANULARITY 10 s AND COLLAPSE (4, 5) USING count_sketch (rows 5, longest '5 s')""",
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


@pytest.mark.slow
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


@pytest.mark.slow
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@settings(max_examples=1500, deadline=None)
def test_tokens_are_the_text_but_for_space_and_comments(text: str) -> None:
    try:
        *tokens, end = tokenize(text)
    except TextError:
        return
    assert end == Token(Kind.END, "", tokens[-1].end if tokens else len(text), end.end)
    at = 0
    for token in [*tokens, Token(Kind.END, "", len(text), len(text))]:
        between = text[at : token.start]
        assert not between.strip() or between.lstrip().startswith(("--", "/*"))
        at = token.end
    for token in tokens:
        raw = text[token.start : token.end]
        assert token.kind in (Kind.STRING, Kind.QUOTED) or token.text == raw
        assert tokenize(raw)[:-1] == [token._replace(start=0, end=len(raw))], "a token by itself is the same token"


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@settings(max_examples=500, deadline=None)
def test_space_and_comments_between_tokens_change_nothing(text: str) -> None:
    try:
        tokens = tokenize(text)[:-1]
    except TextError:
        return
    spaced = " /* a /* b */ */-- c\n".join(text[t.start : t.end] for t in tokens)
    assert [(t.kind, t.text) for t in tokenize(spaced)[:-1]] == [(t.kind, t.text) for t in tokens]


TOKENS = {
    "a1 é_ _x 5min 1_000 0b1": "word word word word word word",
    "1 1. 1.5 .5 1e3 1E-3 1.e+5": "number number number number number number number",
    "1L 2s 3Y 4bd 5.5D 6f .5BD": "number number number number number number number",
    "a.5 a.b (.5) 1.5.2": "word . number word . word ( number ) number . number",
    "1e5+3 1e5-a": "number + number number - word",
    "a<=>b<=c<>d>=e==f": "word <=> word <= word <> word >= word == word",
    "a!=g::h||i|j - -> a/b*c": "word != word :: word || word | word - - > word / word * word",
    """'a' "b" 'it''s' '\\'b' "it''s" '' N'x'""": "string string string string string string word string",
    "`a` `b``c` `--` `/*`": "quoted name quoted name quoted name quoted name",
    "a -- b 'c\rd /* e /* f */ ' */g/**/h": "word word word word",
    "a\x0bb\u00a0c": "word word word",
}


@pytest.mark.parametrize("text", TOKENS)
def test_kinds_of_tokens(text: str) -> None:
    found = [token.text if token.kind is Kind.SYMBOL else token.kind for token in tokenize(text)[:-1]]
    assert " ".join(found) == TOKENS[text]


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("'it''s'", "it's"),
        ("\"it''s\"", "it''s"),
        (r"'\t\n\0\Z'", "\t\n\0\x1a"),
        (r"'\u0041\U0001F600\101\400'", "A\U0001f600A400"),
        (r"'50\% \_ \q \\'", r"50\% \_ q \ ".rstrip()),
        (r"'\'' ".strip(), "'"),
    ],
)
def test_values_of_strings(raw: str, value: str) -> None:
    assert tokenize(raw)[0] == Token(Kind.STRING, value, 0, len(raw))


@pytest.mark.parametrize(
    ("text", "message", "start", "end"),
    [
        ("a 'b", "string without an end, expected a closing '", 2, 3),
        ("a 'it''s", "string without an end, expected a closing '", 2, 3),
        (r"'a\'", "string without an end, expected a closing '", 0, 1),
        ('"a', 'string without an end, expected a closing "', 0, 1),
        ("x `a``", "backquoted name without an end, expected a closing `", 2, 3),
        ("a /* /* */ b", "comment without an end, expected '*/'", 2, 4),
        ("a ``", "a name must not be empty or '*'", 2, 4),
        ("`*`", "a name must not be empty or '*'", 0, 3),
        ("0x1F", "malformed number '0x1F'", 0, 4),
        ("1.5abc", "malformed number '1.5abc'", 0, 6),
        ("(.5min", "malformed number '.5min'", 1, 6),
        ("a§b", "unexpected character '§'", 1, 2),
        ("a \0", r"unexpected character '\x00'", 2, 3),
        ("§ 'a", "unexpected character '§'", 0, 1),
    ],
)
def test_what_is_no_token(text: str, message: str, start: int, end: int) -> None:
    with pytest.raises(ParseError) as caught:
        tokenize(text)
    place = caught.value.place
    assert place is not None
    assert (caught.value.args[0], place.start, place.end) == (message, start, end)
