"""Calls of functions and aggregates, the SQL forms with words between their arguments, and typed literals."""

from __future__ import annotations

from collections.abc import Callable

from mullion.errors import CheckError, NotSupported, ParseError, closest
from mullion.language import types
from mullion.language.dialect import AGGREGATES, OPERATOR_ONLY, OUTPUTS, STAR
from mullion.language.durations import interval, is_unit
from mullion.language.literals import days, parsed_instant
from mullion.language.query import AggregateCall, Call, Expr, Literal
from mullion.language.token_reader import TokenReader
from mullion.language.tokens import Kind

Parse = Callable[[TokenReader], Expr]

_CLOCKS = ("current_date", "current_timestamp", "curdate", "localtimestamp", "now")
_CLOCKS_WITHOUT_PARENTHESES = ("current_date", "current_timestamp", "localtimestamp")
TYPED_LITERALS = ("date", "timestamp", "timestamp_ltz", "timestamp_ntz", "interval", *_CLOCKS_WITHOUT_PARENTHESES)
"""Words that a typed literal may begin with, or something refused where it could stand."""

_FIELDS = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "week": "weekofyear",
    "day": "day",
    "dayofweek": "dayofweek",
    "dow": "dayofweek",
    "dayofyear": "dayofyear",
    "doy": "dayofyear",
    "hour": "hour",
    "minute": "minute",
}
_PARTS = ("second", "seconds", "yearofweek", "dayofweek_iso", "dow_iso")
"""Fields that have no function of their own."""
_TRIMS = {"both": "trim", "leading": "ltrim", "trailing": "rtrim"}


def typed_literal(c: TokenReader) -> Expr | None:
    """DATE '...', TIMESTAMP '...' and INTERVAL ..., or None when something else stands here."""
    start, word = c.at, c.word()
    if word in _CLOCKS_WITHOUT_PARENTHESES and not c.is_symbol("(", 1) and not c.is_symbol(".", 1):
        raise _clock(c)
    signed = c.is_symbol("-", 1) and c.ahead(2).kind is Kind.NUMBER and is_unit(c.word(3))
    if word == "interval" and (c.ahead().kind in (Kind.STRING, Kind.NUMBER) or signed):
        return interval(c)
    if c.ahead().kind is not Kind.STRING:
        return None
    text, place = c.ahead().text, c.place(start, start + 2)
    if word == "date":
        literal = Literal(days(text, place), types.DATE, place=place)
    elif word in ("timestamp", "timestamp_ltz"):
        literal = Literal(parsed_instant(text, place), types.TIMESTAMP, place=place)
    elif word == "timestamp_ntz":
        literal = Literal(parsed_instant(text, place, zoned=False), types.TIMESTAMP_NTZ, place=place)
    else:
        return None
    c.at += 2
    return literal


def _clock(c: TokenReader) -> CheckError:
    message = f"{c.token.text} is not deterministic: an answer would depend on when it is computed"
    return CheckError(message, c.place(c.at), hint="use the event time, or window_end")


def call(c: TokenReader, parse: Parse, operand: Parse) -> Expr:
    """A call, from its name on; the parenthesis after it is known to be there. `operand` parses what may stand beside
    IN."""
    start, written = c.at, c.token.text
    name = written.lower()
    if name in _CLOCKS:
        raise _clock(c)
    if name == "window":
        message = "window(...) can only be a term of GROUP BY"
        raise ParseError(message, c.place(start), hint="the answer has window_start and window_end anyway")
    if name in OUTPUTS:
        hint = "it stands around all items, or around the argument of an aggregate that is the only item; else write "
        hint += "SELECT ... FROM (SELECT ...) [ROWS n]" if name == "wstream" else f"{name.upper()} (SELECT ...)"
        raise ParseError(f"{name.upper()} is no function", c.place(start), hint=hint)
    if name in OPERATOR_ONLY:
        raise ParseError(f"unknown function '{written}'", c.place(start), hint=f"write it as {OPERATOR_ONLY[name]}")
    c.at += 2
    if name in AGGREGATES:
        return _aggregate(c, AGGREGATES[name], start, parse)
    args: tuple[Expr, ...] | None = None
    function = name
    if name == "extract" and c.word(1) == "from":
        function, args = _extract(c, parse)
    elif name == "trim":
        function, args = _trim(c, parse)
    elif name == "position":
        args = _position(c, parse, operand)
    elif c.is_symbol("*") and c.is_symbol(")", 1):
        function, args = name + STAR, ()
        c.step()
    elif c.word() == "distinct":
        raise _for_aggregates(c, name)
    if args is None:
        args = _arguments(c, name, parse)
    c.expect_symbol(")")
    _refuse_over(c)
    if c.word() == "filter":
        raise _for_aggregates(c, name)
    return Call(function, args, place=c.since(start))


def _for_aggregates(c: TokenReader, name: str) -> ParseError:
    """The error for a word that stands with aggregates alone."""
    message = f"{c.token.text.upper()} is for aggregates, and {name} is none"
    return ParseError(message, c.place(c.at), hint=closest(name, AGGREGATES))


def _arguments(c: TokenReader, name: str, parse: Parse) -> tuple[Expr, ...]:
    if c.is_symbol(")"):
        return ()
    args = [parse(c)]
    if name in ("substring", "substr") and c.accept("from"):
        args.append(parse(c))
        if c.accept("for"):
            args.append(parse(c))
        return tuple(args)
    while c.accept_symbol(","):
        args.append(parse(c))
    if not c.is_symbol(")"):
        raise c.expected("',' or ')'")
    return tuple(args)


def _position(c: TokenReader, parse: Parse, operand: Parse) -> tuple[Expr, ...]:
    """POSITION(a IN b) or position(a, b[, from])."""
    args = [operand(c)]
    if c.accept("in"):
        return args[0], operand(c)
    while c.accept_symbol(","):
        args.append(parse(c))
    return tuple(args)


def _extract(c: TokenReader, parse: Parse) -> tuple[str, tuple[Expr, ...]]:
    field = c.word()
    if field not in _FIELDS and field not in _PARTS:
        raise c.expected("a field such as YEAR or HOUR", *_FIELDS, *_PARTS)
    at = c.place(c.at)
    c.at += 2
    if field in _PARTS:
        return "date_part", (Literal(field, types.STRING, place=at), parse(c))
    return _FIELDS[field], (parse(c),)


def _trim(c: TokenReader, parse: Parse) -> tuple[str, tuple[Expr, ...] | None]:
    """TRIM([BOTH|LEADING|TRAILING] [c] FROM x): the characters come first, as in Spark's two-argument form."""
    side = c.word() if c.word() in _TRIMS and not c.is_symbol(")", 1) and not c.is_symbol(",", 1) else ""
    if side:
        c.step()
    function = _TRIMS.get(side, "trim")
    if side and c.accept("from"):
        return function, (parse(c),)
    if not side and c.is_symbol(")"):
        return function, None
    first = parse(c)
    if side or c.word() == "from":
        c.expect("from")
        return function, (first, parse(c))
    args = [first]
    while c.accept_symbol(","):
        args.append(parse(c))
    return function, tuple(args)


def _aggregate(c: TokenReader, function: str, start: int, parse: Parse) -> Expr:
    distinct = c.accept("distinct")
    if not distinct and c.word() == "all" and not c.is_symbol(")", 1):
        c.step()
    args: tuple[Expr, ...]
    if c.is_symbol("*"):
        if function != "count" or distinct:
            raise ParseError("only count takes *, and without DISTINCT", c.place(c.at))
        c.step()
        args = ()
    else:
        if c.is_symbol(")"):
            raise c.expected("an argument")
        args = _arguments(c, function, parse)
    c.expect_symbol(")")
    if c.is_words("within", "group"):
        raise NotSupported("WITHIN GROUP", c.place(c.at, c.at + 2))
    args = _about_nulls(c, function, args)
    where = None
    if c.accept("filter"):
        c.expect_symbol("(")
        c.expect("where")
        where = parse(c)
        c.expect_symbol(")")
        args = _about_nulls(c, function, args)
    _refuse_over(c)
    return AggregateCall(function, args, distinct, where, place=c.since(start))


def _about_nulls(c: TokenReader, function: str, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """first(x) IGNORE NULLS is first(x, true), and RESPECT NULLS says false."""
    start, word = c.at, c.word()
    if word not in ("ignore", "respect") or c.word(1) != "nulls":
        return args
    c.at += 2
    if function not in ("first", "last"):
        raise NotSupported(f"{word.upper()} NULLS", c.since(start), hint="first and last take it")
    if len(args) != 1:
        raise ParseError("IGNORE or RESPECT NULLS is written twice", c.since(start))
    return (*args, Literal(word == "ignore", types.BOOLEAN, place=c.since(start)))


def _refuse_over(c: TokenReader) -> None:
    if c.word() == "over":
        raise NotSupported("OVER", c.place(c.at), hint="the window is written after the stream's name")
