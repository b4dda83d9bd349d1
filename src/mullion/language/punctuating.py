"""What ends a key of a stream: `PUNCTUATE ON order_id WHEN status = 'closed' FOR '30 days'`."""

from __future__ import annotations

from dataclasses import dataclass, field

from mullion.errors import ParseError, Place
from mullion.language.durations import time_span
from mullion.language.expressions import expression
from mullion.language.query import Expr
from mullion.language.token_reader import TokenReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Punctuation:
    """An event for which `when` is true is the last one of its key (Tucker et al. 2003; golab 2.2.1)."""

    columns: tuple[str, ...]
    """The key."""
    when: Expr
    span: int | None = None
    """For how long the key is over, from that event on (microseconds); None: for ever."""
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


def punctuation(c: TokenReader) -> Punctuation:
    """From ON on."""
    start = c.at
    c.expect("on")
    columns = [c.name("a column of the key")]
    while c.accept_symbol(","):
        at = c.at
        columns.append(c.name("a column of the key"))
        if columns[-1].lower() in (name.lower() for name in columns[:-1]):
            raise ParseError(f"column '{columns[-1]}' is named twice", c.since(at))
    c.expect("when")
    when = expression(c)
    span = time_span(c) if c.accept("for") else None
    return Punctuation(columns=tuple(columns), when=when, span=span, place=c.since(start))
