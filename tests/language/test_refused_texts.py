"""Texts that mean nothing: that they are refused, in time, and what errors say."""

from __future__ import annotations

from pathlib import Path

import pytest

from mullion.errors import CheckError, NotSupported, ParseError, TextError
from mullion.language.parse import parse_expression, parse_script

GOLDEN = Path(__file__).parents[1] / "golden" / "errors.txt"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("now() > ts", CheckError),
        ("current_date", CheckError),
        ("a LIKE 'x!y' ESCAPE '!'", ParseError),
        ("a LIKE 'x!' ESCAPE '!'", ParseError),
        ("a LIKE 'x' ESCAPE '!!'", ParseError),
        ("a LIKE b ESCAPE '!'", NotSupported),
        ("a IN (SELECT b FROM t)", NotSupported),
        ("sum(a) OVER (PARTITION BY b)", NotSupported),
        ("INTERVAL '1' MONTH", NotSupported),
        ("window(ts, '5 min')", ParseError),
    ],
)
def test_refusals(text: str, error: type[TextError]) -> None:
    with pytest.raises(error):
        parse_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "a" + ")" * 5000,
        "f(" * 5000,
        "NOT " * 5000 + "a",
        "- " * 5000 + "a",
        "a" + "::int" * 5000,
        " + ".join("a" * 5000),
        " AND ".join("a" * 5000),
        "(" * 30 + "a" + " BETWEEN 1 AND 2)" * 30,
        "CASE " * 30 + "a" + " WHEN 1 THEN 2 WHEN 3 THEN 4 END" * 30,
        "EXISTS (SELECT 1 FROM t WHERE " * 100,
        "/*" * 5000,
        "9" * 5000,
    ],
)
def test_deep_and_long_texts_are_refused_in_time(text: str) -> None:
    with pytest.raises(ParseError):
        parse_expression(text)


def golden_errors() -> list[tuple[str, str]]:
    entries = GOLDEN.read_text(encoding="utf-8").strip().split("\n\n")
    return [(entry.partition("\n")[0].removeprefix("> "), entry.partition("\n")[2]) for entry in entries]


@pytest.mark.parametrize(("text", "expected"), golden_errors())
def test_error_messages(text: str, expected: str) -> None:
    with pytest.raises(TextError) as caught:
        parse_script(text)
    assert str(caught.value) == expected
