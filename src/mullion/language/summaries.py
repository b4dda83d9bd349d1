"""How a summary is made: `WITH GRANULARITY '10 s' AND COLLAPSE (4, 5) USING count_sketch (rows 5) MEMORY '256 MB'`."""

from __future__ import annotations

from typing import Any

from mullion.errors import MullionError, ParseError
from mullion.language.durations import time_span
from mullion.language.literals import number
from mullion.language.token_reader import TokenReader
from mullion.language.tokens import Kind
from mullion.memory import parse_size

MOST_RATE, MOST_DEPTH = 1000, 30
_COLLAPSE = ("rate", "depth")


def summary(c: TokenReader) -> dict[str, Any]:
    """All that follows the column."""
    c.expect("with", "granularity")
    clauses: dict[str, Any] = {"granularity": time_span(c)}
    c.expect("and", "collapse")
    clauses |= _collapse(c)
    if c.accept("using"):
        clauses |= _using(c)
    if c.accept("memory"):
        clauses["memory"] = _memory(c)
    return clauses


def _collapse(c: TokenReader) -> dict[str, int]:
    """(4, 5), or (rate 4, depth 5) in any order."""
    c.expect_symbol("(")
    numbers: dict[str, int] = {}
    for place in range(2):
        at, name = c.at, _COLLAPSE[place]
        if c.word() in _COLLAPSE:
            name = c.word()
            c.step()
        elif c.token.kind is not Kind.NUMBER:
            raise c.expected("the rate and the depth, such as (4, 5)", *_COLLAPSE)
        if name in numbers:
            raise ParseError(f"the {name} is written twice", c.place(at))
        numbers[name] = _rate(c) if name == "rate" else c.integer("a number of granularities above zero", MOST_DEPTH)
        if place == 0 and not c.accept_symbol(","):
            raise c.expected(f"',' and the {'depth' if 'rate' in numbers else 'rate'}")
    c.expect_symbol(")")
    return numbers


def _rate(c: TokenReader) -> int:
    at = c.at
    rate = c.integer("how much longer older zones are: 2 or more", MOST_RATE)
    if rate < 2:
        hint = "write 2 or more, or a depth of 1 to keep no older ones"
        raise ParseError("a rate of 1 makes older zones no longer than newer ones", c.place(at), hint=hint)
    return rate


def _using(c: TokenReader) -> dict[str, Any]:
    """The kind and its options. Which kinds there are, and what each takes, is known where it is made."""
    clauses: dict[str, Any] = {"kind": c.name("a kind of summary such as counts").lower()}
    options: dict[str, int] = {}
    if not c.accept_symbol("("):
        return clauses
    while True:
        at, name = c.at, c.word()
        if not name:
            raise c.expected("an option")
        c.step()
        if name in options or name in clauses:
            raise ParseError(f"the option '{name}' is written twice", c.place(at))
        if name == "drift":
            clauses[name] = _drift(c)
        elif name == "longest":
            clauses[name] = time_span(c)
        else:
            options[name] = c.integer("a whole number above zero")
        if not c.accept_symbol(","):
            break
    if not c.is_symbol(")"):
        raise c.expected("',' or ')'")
    c.step()
    return {**clauses, "options": tuple(options.items())}


def _drift(c: TokenReader) -> float:
    at = c.at
    if c.token.kind is not Kind.NUMBER:
        raise c.expected("a number such as 0.2")
    drift = float(number(c.step().text, c.place(at)).value)
    if not 0 < drift <= 2:
        hint = "shares of events are at most 1.42 apart; chance alone makes it 0.03"
        raise ParseError("drift must be above zero and at most 2", c.place(at), hint=hint)
    return drift


def _memory(c: TokenReader) -> int:
    at = c.at
    text = c.string("a size such as '256 MB'")
    try:
        size = parse_size(text)
    except MullionError:
        hint = "write a number and KB, MB, GB or TB"
        raise ParseError(f"MEMORY is a size such as '256 MB', not '{text}'", c.place(at), hint=hint) from None
    if not 0 < size < 2**63:
        raise ParseError("MEMORY must be above zero and fit a machine", c.place(at))
    return size
