"""An answer on the screen or for another program."""

from __future__ import annotations

import json
import math
import sys
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from mullion.language.limits import FIRST_TIME, LAST_TIME

if TYPE_CHECKING:
    from mullion.spark.results import OneAnswer


WIDEST = 10_000
"""A table is as wide as its values: what does not fit a screen is wrapped by it, and not cut off."""


def print_answer(answer: OneAnswer, format_: str = "auto", *, quiet: bool = False) -> None:
    """Print to stdout: `text` for people, `csv` or `json` (a line for each row) for programs; `auto` is text on a
    terminal and CSV elsewhere.

    Up to when it holds comes first: before the table, or on stderr, where it is in no program's way. `quiet` leaves it
    out where that is the newest event."""
    if format_ == "auto":
        format_ = "text" if sys.stdout.isatty() else "csv"
    if not quiet or answer.answered_up_to != answer.newest:
        print(answer.stated, file=sys.stdout if format_ == "text" else sys.stderr, flush=True)
    table = answer.to_arrow()
    rows = _within_years(table).to_pylist()
    if format_ == "json":
        for row in rows:
            print(json.dumps(_named_numbers(row), default=_plain))
    elif format_ == "csv":
        for row in [table.schema.names, *(row.values() for row in rows)]:
            print(",".join(map(_csv_field, row)))
    else:
        _print_table(table.schema.names, rows)


def _within_years(table: pa.Table) -> pa.Table:
    """Windows may reach beyond the years 1 to 9999, which Python has no times for: the nearest time is shown."""
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "us":
            whole = table.column(at).cast(pa.int64())
            shown = pc.min_element_wise(
                pc.max_element_wise(whole, FIRST_TIME, skip_nulls=False), LAST_TIME, skip_nulls=False
            )
            table = table.set_column(at, field, shown.cast(field.type))
    return table


def _print_table(names: list[str], rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(show_edge=False, pad_edge=False)
    for name in names:
        number = any(isinstance(row[name], int | float | Decimal) for row in rows)
        shown.add_column(Text(name), justify="right" if number else "left", no_wrap=True)
    for row in rows:
        shown.add_row(*(Text(_cell(value)) for value in row.values()))
    Console(width=WIDEST, soft_wrap=True, highlight=False).print(shown)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return json.dumps(_named_numbers(value), default=_plain)
    return str(value).lower() if isinstance(value, bool) else _plain(_named_numbers(value))


def _csv_field(value: Any) -> str:
    """NULL is an empty field, and a text without characters is one in quotes, as Spark writes and reads them."""
    text = _cell(value)
    needs_quotes = value == "" or any(character in text for character in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if needs_quotes else text


def _named_numbers(value: Any) -> Any:
    """JSON has no NaN and no infinities: they are texts, as Spark's to_json writes them.

    >>> _named_numbers({"a": [1.5, float("nan")], "b": -float("inf")})
    {'a': [1.5, 'NaN'], 'b': '-Infinity'}
    """
    if isinstance(value, dict):
        return {name: _named_numbers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_named_numbers(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _plain(value: Any) -> str:
    """Times with their zone, which is UTC, binary values in hexadecimal digits."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ") + ("" if value.tzinfo is None else "Z")
    return value.hex() if isinstance(value, bytes) else str(value)
