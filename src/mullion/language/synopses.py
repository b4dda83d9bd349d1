"""What a synopsis is and how large: `USING timegram (buckets 64, rows 100000)`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from mullion.errors import ParseError, closest
from mullion.language.literals import number
from mullion.language.query import Literal
from mullion.language.token_reader import TokenReader
from mullion.language.tokens import Kind

MOST = {"rows": 100_000_000, "buckets": 1_000_000}
"""What a synopsis holds in memory for each: up to 50 bytes a row."""
KINDS = {"timegram": ("buckets", "boundaries", "rows"), "ordered_sharing": ("rows",)}
"""Every kind of synopsis, and its options."""


def synopsis(c: TokenReader) -> tuple[str, dict[str, Any]]:
    """The kind and its options, from USING on."""
    c.expect("using")
    start = c.at
    kind = c.name("a kind of synopsis such as timegram").lower()
    if kind not in KINDS:
        hint = closest(kind, KINDS) or f"there are {' and '.join(KINDS)}"
        raise ParseError(f"unknown synopsis '{kind}'", c.place(start), hint=hint)
    options = _options(c, kind) if c.accept_symbol("(") else {}
    if "rows" not in options:
        message = f"{kind} needs rows, the number of newest events that it covers"
        raise ParseError(message, c.since(start), hint="write (rows 100000)")
    if kind == "timegram" and ("buckets" in options) == ("boundaries" in options):
        hint = "write (buckets 64, rows 100000) or (boundaries (0, 10, 100), rows 100000)"
        raise ParseError("timegram needs either buckets or boundaries", c.since(start), hint=hint)
    return kind, options


def _options(c: TokenReader, kind: str) -> dict[str, Any]:
    """Options in parentheses, from after the opening one on."""
    options: dict[str, Any] = {}
    while True:
        at, option = c.at, c.word()
        if option not in KINDS[kind]:
            raise _unknown(c, kind)
        if option in options:
            raise ParseError(f"the option '{option}' is written twice", c.place(at))
        c.step()
        if option == "boundaries":
            options[option] = _boundaries(c)
        else:
            options[option] = c.integer(f"a number of {option} above zero", MOST[option])
        if not c.accept_symbol(","):
            break
    if not c.is_symbol(")"):
        raise c.expected("',' or ')'")
    c.step()
    return options


def _unknown(c: TokenReader, kind: str) -> ParseError:
    own = KINDS[kind]
    known = " or ".join([", ".join(own[:-1]), own[-1]] if own[1:] else own)
    if c.token.kind is not Kind.WORD:
        return c.expected(f"an option: {known}")
    hint = closest(c.token.text, own) or f"its options: {', '.join(own)}"
    return ParseError(f"{kind} has no option '{c.token.text}'", c.place(c.at), hint=hint)


def _boundaries(c: TokenReader) -> tuple[Literal, ...]:
    """Numbers in parentheses, each larger than the one before."""
    if not c.is_symbol("("):
        raise c.expected("'(' and the boundaries between buckets")
    start = c.at
    c.step()
    boundaries = [_number(c)]
    while c.accept_symbol(","):
        boundaries.append(_number(c))
    if not c.is_symbol(")"):
        raise c.expected("',' or ')'")
    c.step()
    if len(boundaries) < 2:
        raise ParseError("a bucket lies between two boundaries: write at least two", c.since(start))
    for lower, higher in pairwise(boundaries):
        if not lower.value < higher.value:
            raise ParseError("boundaries must ascend, each larger than the one before", higher.place or c.since(start))
    return tuple(boundaries)


def _number(c: TokenReader) -> Literal:
    start = c.at
    sign = "-" if c.accept_symbol("-") else ""
    if c.token.kind is not Kind.NUMBER:
        raise c.expected("a number")
    text = c.step().text
    return number(sign + text, c.since(start))
