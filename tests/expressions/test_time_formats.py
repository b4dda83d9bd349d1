"""to_timestamp with a format: what is read, what is a bad value, and which formats are refused. Against Spark itself:
tests/spark/test_time_formats.py."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mullion.errors import CheckError
from mullion.expressions.evaluate import count_bad, evaluate
from mullion.expressions.functions.time_formats import SUPPORTED, parse_formatted
from mullion.expressions.typing import resolve
from mullion.expressions.vector import Vector
from mullion.language.parse import parse_expression
from mullion.language.types import INT, STRING, TIMESTAMP


@pytest.mark.parametrize(
    ("text", "format_", "expected"),
    [
        ("05/11/2024 13:07:09", "dd/MM/yyyy HH:mm:ss", "2024-11-05 13:07:09"),
        ("5/11/24 1:07 pm", "d/M/yy h:mm a", "2024-11-05 13:07"),
        ("12:30 AM", "hh:mm a", "1970-01-01 00:30"),
        ("20241105130709", "yyyyMMddHHmmss", "2024-11-05 13:07:09"),
        ("20241105 130709123", "yyyyMMdd HHmmssSSS", "2024-11-05 13:07:09.123"),
        ("202411051307091", "yyyyMMddHHmmssS", "2024-11-05 13:07:09.1"),
        ("2024-11-05t13:07:09.5+05:30", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "2024-11-05 07:37:09.5"),
        ("2024-11-05 13 o'clock -0130", "yyyy-MM-dd HH 'o''clock' Z", "2024-11-05 14:30"),
        ("2024-11-05 13Z", "yyyy-MM-dd HHX", "2024-11-05 13:00"),
        ("29/02/2024", "dd/MM/yyyy", "2024-02-29"),
        ("29/02/2023", "dd/MM/yyyy", None),
        ("5/11/2024", "dd/MM/yyyy", None),
        ("05/11/2024 ", "dd/MM/yyyy", None),
        ("05/11/+294248", "dd/MM/yyyy", None),
        ("05/11/12024", "d/M/y", None),
        ("24:00", "HH:mm", None),
        ("13:00 PM", "hh:mm a", None),
        ("2024+18:01", "yyyyXXX", None),
        ("٠٥/11/2024", "dd/MM/yyyy", None),
        ("", "yyyy", None),
    ],
)
def test_reading(text: str, format_: str, expected: str | None) -> None:
    found = parse_formatted(text, format_)
    wanted = None if expected is None else datetime.fromisoformat(expected).replace(tzinfo=UTC).timestamp() * 1e6
    assert found == wanted


@pytest.mark.parametrize(
    ("format_", "message"),
    [
        ("yyyy-MMM-dd", "MMM in a time format"),
        ("yyyyy", "yyyyy in a time format"),
        ("EEE dd/MM/yyyy", "EEE in a time format"),
        ("yyyy-MM-ddTHH", "T in a time format"),
        ("HH:mm VV", "VV in a time format"),
        ("yyyy[-MM]", "[ in a time format must stand in quotes"),
        ("yyyy 'x", "not closed"),
        ("yyyy MM yy", "has already"),
        ("hh:mm", "go together"),
        ("HH:mm a", "go together"),
        ("XXX yyyy", "after the year"),
        ("ss.SSS''", "end with a quote"),
        ("ss.SSSSSSSSSS", "SSSSSSSSSS in a time format"),
        ("yyyyMMddHHmmssSSS", "SSS stands right after digits"),
        ("yyyyMd", "M stands right after digits"),
        ("--", "needs letters"),
        ("", "needs letters"),
        ("yyyy é", "é in a time format"),
    ],
)
def test_formats_that_are_refused(format_: str, message: str) -> None:
    written = format_.replace("'", "''")
    with pytest.raises(CheckError) as raised:
        resolve(parse_expression(f"to_timestamp(t, '{written}')"), {"t": STRING})
    assert message in str(raised.value) and SUPPORTED in str(raised.value)


def test_arguments() -> None:
    with pytest.raises(CheckError, match="must be a constant"):
        resolve(parse_expression("to_timestamp(t, t)"), {"t": STRING})
    with pytest.raises(CheckError, match=r"does not take \(int, string\)"):
        resolve(parse_expression("to_timestamp(i, 'yyyy')"), {"i": INT})
    assert resolve(parse_expression("try_to_timestamp(t)"), {"t": STRING})[1] == TIMESTAMP


def test_a_text_in_another_format_is_a_bad_value() -> None:
    expr, type_ = resolve(parse_expression("to_timestamp(t, 'yyyy')"), {"t": STRING})
    columns = {"t": Vector.of(STRING, ["1970", "x", None])}
    assert type_ == TIMESTAMP and evaluate(expr, columns, 3).to_list() == [0, None, None]
    assert count_bad(expr, columns, 3).tolist() == [False, True, False]
