"""Durations where they stand in a text: with or without quotes, or as INTERVAL."""

from __future__ import annotations

import re
from fractions import Fraction

from mullion.errors import ParseError
from mullion.language import types
from mullion.language.dialect import MONTH_UNITS, UNITS
from mullion.language.limits import LONGEST
from mullion.language.literals import duration, exact, unit
from mullion.language.query import Literal
from mullion.language.token_reader import TokenReader
from mullion.language.tokens import Kind

_JOINED = re.compile(r"(\d+)([a-zA-Z_]+)", re.ASCII)
_AMOUNT = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*", re.ASCII)
_EXAMPLE = "a duration such as '5 min'"
TOO_LONG = "a duration here is at most 10,000 years"
TOO_LONG_HINT = "for everything so far, write [RANGE UNBOUNDED SLIDE ...]"


def time_span(c: TokenReader, *, signed: bool = False) -> int:
    """Microseconds of `12 min`, `'12 min'` or INTERVAL '12' MINUTE; positive unless `signed`."""
    start = c.at
    if c.word() == "interval":
        span = int(interval(c).value)
    elif c.token.kind is Kind.STRING:
        span = duration(c.step().text, c.place(start))
    else:
        span = _unquoted(c)
    if span <= 0 and not signed:
        raise ParseError("a duration here must be longer than zero", c.since(start))
    if abs(span) > LONGEST:
        raise ParseError(TOO_LONG, c.since(start), hint=TOO_LONG_HINT)
    return span


def interval(c: TokenReader) -> Literal:
    """INTERVAL '5' MINUTE, INTERVAL '5 minutes', INTERVAL 5 MINUTES."""
    start = c.at
    c.expect("interval")
    if c.token.kind is not Kind.STRING:
        return Literal(_unquoted(c), types.INTERVAL, place=c.since(start))
    text = c.step().text
    if match := _AMOUNT.fullmatch(text):
        if len(text) > 100:
            raise ParseError("the duration is too long", c.since(start))
        size = _unit(c)
        if c.word() == "to":
            raise ParseError("an INTERVAL has one unit", c.place(c.at), hint="write INTERVAL '1 h 30 min'")
        return Literal(exact(Fraction(match[1]) * size, c.since(start)), types.INTERVAL, place=c.since(start))
    return Literal(duration(text, c.place(c.at - 1)), types.INTERVAL, place=c.since(start))


def _unit(c: TokenReader) -> int:
    if c.token.kind is not Kind.WORD:
        raise c.expected("a unit such as MINUTE")
    size = unit(c.word(), c.place(c.at))
    c.step()
    return size


def _unquoted(c: TokenReader) -> int:
    start = c.at
    negative = c.accept_symbol("-")
    total: Fraction | int = 0
    first = True
    while first or c.token.kind is Kind.NUMBER or _JOINED.fullmatch(c.token.text):
        if joined := _JOINED.fullmatch(c.token.text) if c.token.kind is Kind.WORD else None:
            total += int(joined[1][:30]) * unit(joined[2], c.place(c.at))
            c.step()
        elif c.token.kind is Kind.NUMBER and _AMOUNT.fullmatch(c.token.text) and len(c.token.text) < 30:
            text = c.step().text
            total += (int(text) if text.isdecimal() else Fraction(text)) * _unit(c)
        elif c.token.kind is Kind.NUMBER and (suffixed := re.fullmatch(r"(\d+)([sdSD])", c.token.text)):
            total += int(suffixed[1][:30]) * UNITS[suffixed[2].lower()]
            c.step()
        else:
            raise c.expected(_EXAMPLE)
        first = False
    return exact(-total if negative else total, c.since(start))


def is_unit(word: str) -> bool:
    return word in UNITS or word in MONTH_UNITS
