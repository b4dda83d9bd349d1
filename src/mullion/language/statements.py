"""Statements: CREATE STREAM, TABLE, QUERY, SYNOPSIS and SUMMARY, DROP, EXPLAIN, and a SELECT by itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from mullion.errors import ParseError, Place
from mullion.language.dialect import OUTPUTS
from mullion.language.durations import time_span
from mullion.language.expressions import expression
from mullion.language.limits import MOST_ROWS
from mullion.language.punctuating import punctuation
from mullion.language.queries import query
from mullion.language.query import Column, Expr
from mullion.language.script import (
    DROPPED,
    Ask,
    CreateQuery,
    CreateStream,
    CreateSummary,
    CreateSynopsis,
    CreateTable,
    Drop,
    Explain,
    Statement,
)
from mullion.language.shedding import join_memory, when_behind
from mullion.language.summaries import summary
from mullion.language.synopses import synopsis
from mullion.language.token_reader import TokenReader
from mullion.language.tokens import Kind
from mullion.language.typenames import type_name
from mullion.language.types import Type
from mullion.language.windows import timestamp

_NAME = re.compile(r"[A-Za-z0-9-][A-Za-z0-9_-]{0,127}", re.ASCII)
_BOUNDS = ("lateness", "ahead", "keep", "idle", "when", "memory", "punctuate")
_CLAUSES = {"when": "shedding", "punctuate": "punctuation"}
"""The fields that clauses fill which are called otherwise."""
EVENT_TIME = "event_time"
"""The column of an event time that is computed and not given a name."""
_BEFORE_AS = {"materialized": "MATERIALIZED", "start": "START AT", "stop": "STOP AT", "backfill": "BACKFILL"}
"""What may stand between a query's name and AS, in this order."""
_BEGINNINGS = ("create", "drop", "explain", "select", *OUTPUTS)


def statement(c: TokenReader) -> Statement:
    start = c.at
    if c.word() in ("select", *OUTPUTS) or c.is_symbol("("):
        asked = query(c)
        return Ask(query=asked, place=c.since(start))
    if c.accept("create"):
        return _create(c, start)
    if c.accept("drop"):
        kind = next((kind for kind in DROPPED if c.accept(kind)), None)
        if kind is None:
            raise c.expected("QUERY, SYNOPSIS or SUMMARY", *DROPPED)
        at = c.at
        return Drop(kind=kind, name=_new_name(c, kind), place=c.since(at))
    if c.accept("explain"):
        at = start if c.ended or c.is_symbol(";") else c.at
        explained = None if at == start else _new_name(c, "query")
        return Explain(name=explained, place=c.since(at))
    raise c.expected("CREATE, SELECT, DROP or EXPLAIN", *_BEGINNINGS)


def _create(c: TokenReader, start: int) -> Statement:
    if c.accept("query"):
        return _create_query(c, start)
    if c.accept("stream"):
        return _create_stream(c, start)
    if c.accept("synopsis"):
        return _create_synopsis(c, start)
    if c.accept("summary"):
        name, on = _new_name(c, "summary"), _on_column(c)
        return CreateSummary(name=name, **on, **summary(c), place=c.since(start))
    retroactive = c.accept("retroactive")
    if c.accept("table"):
        named = _named(c, "table")
        return CreateTable(**named, **_relation(c), retroactive=retroactive, place=c.since(start))
    if retroactive:
        raise c.expected("TABLE", "table")
    beginnings = ("stream", "table", "retroactive", "query", "synopsis", "summary")
    raise c.expected("STREAM, TABLE, RETROACTIVE TABLE, QUERY, SYNOPSIS or SUMMARY", *beginnings)


def _create_stream(c: TokenReader, start: int) -> CreateStream:
    named = _named(c, "stream")
    source = _relation(c)
    if not c.is_words("timestamp", "by"):
        raise c.expected("TIMESTAMP BY and the column with the event time", "timestamp", "options")
    c.expect("timestamp", "by")
    at = c.at
    time_column, time = event_time(c)
    time_place = c.since(at)
    bounds: dict[str, Any] = {}
    while (word := c.word()) in _BOUNDS:
        at = c.at
        c.step()
        if _CLAUSES.get(word, word) in bounds or (word == "keep" and "keep_rows" in bounds):
            raise ParseError(f"{word.upper()} is written twice", c.place(at))
        if word == "lateness":
            bounds["lateness"] = _not_negative(c, "LATENESS")
        elif word == "ahead":
            bounds["ahead"] = None if c.accept("unbounded") else _not_negative(c, "AHEAD")
        elif word == "idle":
            bounds["idle"] = _idle(c)
        elif word == "when":
            bounds["shedding"] = when_behind(c)
        elif word == "memory":
            bounds["memory"] = join_memory(c)
        elif word == "punctuate":
            bounds["punctuation"] = punctuation(c)
        elif c.token.kind is Kind.NUMBER and c.word(1) in ("row", "rows"):
            bounds["keep_rows"] = c.integer("a number of ROWS greater than zero", MOST_ROWS)
            c.step()
        else:
            bounds["keep"] = _kept_time(c)
    return CreateStream(
        **named,
        **source,
        time_column=time_column,
        time=time,
        time_place=time_place,
        **bounds,
        place=c.since(start),
    )


def event_time(c: TokenReader) -> tuple[str, Expr | None]:
    """A column, or an expression with the name that its value gets."""
    if c.word(1) in _BOUNDS or c.ahead().kind is Kind.END or c.is_symbol(";", 1):
        return c.name("the column with the event time"), None
    time = expression(c)
    if c.accept("as"):
        return c.name("a name for the event time"), time
    return (time.name, None) if isinstance(time, Column) and time.table is None else (EVENT_TIME, time)


def _not_negative(c: TokenReader, what: str) -> int:
    at = c.at
    span = time_span(c, signed=True)
    if span < 0:
        raise ParseError(f"{what} must not be negative", c.since(at))
    return span


def _idle(c: TokenReader) -> int:
    """IDLE AFTER '10 s'."""
    c.expect("after")
    at = c.at
    span = time_span(c, signed=True)
    if span <= 0:
        raise ParseError("IDLE AFTER must be longer than zero", c.since(at))
    return span


def _kept_time(c: TokenReader) -> int:
    if c.token.kind is Kind.NUMBER and c.token.text.isdecimal() and not c.word(1):
        c.step()
        raise c.expected("ROWS, or a unit such as HOUR", "rows")
    return time_span(c)


def _create_synopsis(c: TokenReader, start: int) -> CreateSynopsis:
    name, on = _new_name(c, "synopsis"), _on_column(c)
    kind, options = synopsis(c)
    return CreateSynopsis(name=name, **on, kind=kind, **options, place=c.since(start))


def _on_column(c: TokenReader) -> dict[str, Any]:
    """ON stream(column)."""
    c.expect("on")
    at_stream = c.at
    stream = c.name("a stream's name")
    if not c.accept_symbol("("):
        raise c.expected("'(' and a column's name")
    at = c.at
    column = c.name("a column's name")
    c.expect_symbol(")")
    return {"stream": stream, "column": column, "stream_place": c.place(at_stream), "column_place": c.place(at)}


def _create_query(c: TokenReader, start: int) -> CreateQuery:
    named = _named(c, "query")
    materialized = c.accept("materialized")
    start_at = stop_at = None
    if c.accept("start"):
        c.expect("at")
        start_at = timestamp(c)
    if c.accept("stop"):
        at = c.at
        c.expect("at")
        stop_at = timestamp(c)
        if start_at is not None and stop_at <= start_at:
            raise ParseError("the query would stop before it starts", c.since(at))
    backfill = c.accept("backfill")
    if not c.accept("as"):
        if c.word() in _BEFORE_AS:
            hint = f"the order is {', '.join(_BEFORE_AS.values())}, AS"
            raise ParseError(f"{c.token.text.upper()} stands too late", c.place(c.at), hint=hint)
        raise c.expected("AS", "as", *_BEFORE_AS)
    standing = replace(
        query(c), **named, materialized=materialized, start_at=start_at, stop_at=stop_at, backfill=backfill
    )
    return CreateQuery(query=standing, place=c.since(start))


def _named(c: TokenReader, what: str) -> dict[str, Any]:
    """A new name, and where it stands."""
    at = c.at
    return {"name": _new_name(c, what), "name_place": c.since(at)}


def _new_name(c: TokenReader, what: str) -> str:
    start = c.at
    return check_name(c.name(f"the name of a {what}"), what, c.place(start))


def check_name(name: str, what: str, place: Place) -> str:
    """Names become names of directories."""
    if not _NAME.fullmatch(name):
        message = f"'{name}' is no name for a {what}: use letters, digits, _ and -, at most 128, not _ first"
        raise ParseError(message, place)
    return name


def _relation(c: TokenReader) -> dict[str, Any]:
    """[(columns)] USING format [OPTIONS (...)], as the fields of a statement."""
    columns: list[tuple[str, Type]] = []
    taken = set[str]()
    if c.accept_symbol("("):
        while True:
            at = c.at
            name = c.name("a column's name")
            if name.lower() in taken:
                raise ParseError(f"the column '{name}' is written twice", c.place(at))
            taken.add(name.lower())
            columns.append((name, type_name(c)))
            if not c.accept_symbol(","):
                break
        if not c.is_symbol(")"):
            raise c.expected("',' or ')'")
        c.step()
    if not c.accept("using"):
        raise c.expected("USING and a format" if columns else "'(' and columns, or USING and a format", "using")
    at = c.at
    named = {"columns": tuple(columns), "format": _dotted(c, "a format such as parquet"), "format_place": c.since(at)}
    options, places = _options(c)
    return {**named, "options": options, "option_places": places}


def _dotted(c: TokenReader, what: str) -> str:
    parts = [c.name(what)]
    while c.accept_symbol("."):
        parts.append(c.name(what))
    return ".".join(parts)


def _options(c: TokenReader) -> tuple[tuple[tuple[str, str], ...], tuple[Place, ...]]:
    """The options, and where each of them stands."""
    options: dict[str, str] = {}
    places: list[Place] = []
    if not c.accept("options"):
        return (), ()
    c.expect_symbol("(")
    while True:
        at = c.at
        key = c.step().text if c.token.kind is Kind.STRING else _dotted_key(c)
        if key in options:
            raise ParseError(f"the option '{key}' is written twice", c.since(at))
        c.accept_symbol("=")
        options[key] = _option_value(c)
        places.append(c.since(at))
        if not c.accept_symbol(","):
            break
    if not c.is_symbol(")"):
        raise c.expected("',' or ')'")
    c.step()
    return tuple(options.items()), tuple(places)


def _dotted_key(c: TokenReader) -> str:
    """Keys may be any words: option.from, spark.x.y."""
    parts: list[str] = []
    while True:
        if c.token.kind not in (Kind.WORD, Kind.QUOTED):
            raise c.expected("the name of an option")
        parts.append(c.step().text)
        if not c.accept_symbol("."):
            return ".".join(parts)


def _option_value(c: TokenReader) -> str:
    negative = "-" if c.is_symbol("-") and c.ahead().kind is Kind.NUMBER and c.step() else ""
    if c.token.kind in (Kind.STRING, Kind.NUMBER) or c.word() in ("true", "false"):
        return negative + c.step().text
    raise c.expected("the option's value, a string")
