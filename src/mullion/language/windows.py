"""Windows, in all the ways they may be written; each becomes a `Window`.

- `trades [RANGE '12 min' SLIDE '5 min']`
- `trades [RANGE '12 min' SLIDE AT MOST '5 min']`
- `trades [RANGE 100 SLIDE 50 WATTR number]`
- `GROUP BY window(ts, '12 minutes', '5 minutes')`
- `HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '12' MINUTE)`

In brackets a window ends at a multiple of the slide, as in CQL; Spark's and Flink's functions start it there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mullion.errors import NotSupported, ParseError, Place
from mullion.language.durations import is_unit, time_span
from mullion.language.expressions import expression_list
from mullion.language.limits import FURTHEST, MOST_ROWS
from mullion.language.literals import parsed_instant
from mullion.language.query import Column, Named, Window
from mullion.language.render_expressions import render_string
from mullion.language.token_reader import TokenReader
from mullion.language.tokens import Kind

_EXTENTS = ("range", "rows", "now", "from", "partition", "window")
_OPTIONS = ("slide", "offset", "wattr", "internal")
_WORDS = (*_EXTENTS, *_OPTIONS)
_TUPLES = ("tuple", "tuples")


@dataclass
class _Draft:
    """What is known of a window while it is read."""

    fields: dict[str, Any] = field(default_factory=dict)
    bare: list[Place] = field(default_factory=list)
    """Where numbers without a unit stand."""
    timed: list[Place] = field(default_factory=list)
    """Where durations and timestamps stand."""

    def check(self) -> None:
        """A window goes over times or over whole numbers, not over both."""
        if not self.bare:
            return
        if self.timed or "attribute" not in self.fields:
            hint = (
                None
                if self.timed
                else "numbers alone are for a window over a column of whole numbers: add WATTR column"
            )
            raise ParseError("a duration needs a unit, such as 10 s", self.bare[0], hint=hint)
        self.fields["unitless"] = True


def bracketed(c: TokenReader) -> Window:
    """A window in brackets, from the opening one on."""
    start = c.at
    c.expect_symbol("[")
    draft = _Draft()
    fields = draft.fields
    _options(c, draft)
    _extent(c, draft)
    _options(c, draft)
    if not c.is_symbol("]"):
        raise c.expected("SLIDE, OFFSET, WATTR, INTERNAL or ']'", *_OPTIONS)
    c.step()
    if "rows" in fields and "slide" in fields and draft.bare:
        fields["slide_rows"] = fields.pop("slide")
        draft.bare.clear()
    if "offset" in fields and "slide" not in fields:
        raise ParseError("OFFSET needs a SLIDE in time", c.since(start))
    if fields.get("now") and ("slide" in fields or "slide_rows" in fields):
        raise ParseError("NOW has no SLIDE", c.since(start))
    if "rows" in fields and "slide" not in fields:
        fields.setdefault("slide_rows", 1)
    draft.check()
    _check_at_most(fields, c.since(start))
    return Window(**fields, place=c.since(start))


def _at_most(c: TokenReader) -> dict[str, bool]:
    """AT MOST, after SLIDE."""
    if not c.accept("at"):
        return {}
    c.expect("most")
    return {"at_most": True}


def _check_at_most(fields: dict[str, Any], place: Place) -> None:
    """SLIDE AT MOST leaves the instants to the scheduler: multiples of a step in time that queries have in common."""
    if not fields.get("at_most"):
        return
    hint = "leave AT MOST out, which answers at exact instants, or write [RANGE r SLIDE AT MOST s] with durations"
    for there, what in [
        ("rows" in fields, "ROWS"),
        ("slide_rows" in fields, "a number of events"),
        ("range" not in fields, "a window without a length"),
        ("offset" in fields, "OFFSET"),
        ("unitless" in fields, "a column of whole numbers"),
    ]:
        if there:
            raise ParseError(f"SLIDE AT MOST cannot be combined with {what}", place, hint=hint)


def _extent(c: TokenReader, draft: _Draft) -> None:
    fields = draft.fields
    if c.accept("partition"):
        c.expect("by")
        fields["partition_by"] = expression_list(c)
        if c.word() != "rows":
            raise c.expected("ROWS", "rows")
    if c.accept("range") or c.accept("window"):
        if c.accept("unbounded"):
            fields["unbounded"] = True
        else:
            fields["range"] = _span(c, draft)
    elif c.accept("rows"):
        fields["rows"] = c.integer("a number of events greater than zero", MOST_ROWS)
    elif c.accept("now"):
        fields["now"] = True
    elif c.accept("from"):
        fields["since"] = _landmark(c, draft)
    else:
        raise c.expected("RANGE, ROWS, NOW, FROM or PARTITION BY", *_EXTENTS)


def _options(c: TokenReader, draft: _Draft) -> None:
    fields = draft.fields
    while (word := c.word()) in _OPTIONS:
        start = c.at
        c.step()
        names = {"slide": ("slide", "slide_rows"), "wattr": ("attribute",)}.get(word, (word,))
        if any(name in fields for name in names):
            raise ParseError(f"{word.upper()} is written twice", c.place(start))
        if word == "slide":
            fields |= _at_most(c)
            by_rows = "rows" in fields and c.token.kind is Kind.NUMBER and not is_unit(c.word(1))
            if by_rows or c.word(1) in _TUPLES:
                fields["slide_rows"] = c.integer("a number of events greater than zero", MOST_ROWS)
                if c.word() in _TUPLES:
                    c.step()
            else:
                fields["slide"] = _span(c, draft)
        elif word == "offset":
            fields["offset"] = _span(c, draft, signed=True)
        elif word == "wattr":
            fields["attribute"] = c.name("a column's name")
        else:
            fields["internal"] = True


def _span(c: TokenReader, draft: _Draft, *, signed: bool = False) -> int:
    """A duration, or a number alone."""
    start = c.at
    after = 2 if c.is_symbol("-") else 1
    amount = c.ahead(after - 1)
    is_number = amount.kind is Kind.NUMBER and amount.text[-1].isdecimal()
    if is_number and (c.is_symbol("]", after) or c.word(after) in _WORDS):
        length = _number(c) if signed else c.integer("a whole number greater than zero", FURTHEST)
        draft.bare.append(c.since(start))
        return length
    length = time_span(c, signed=signed)
    draft.timed.append(c.since(start))
    return length


def _landmark(c: TokenReader, draft: _Draft) -> int:
    """TIMESTAMP '...', or a number alone."""
    start = c.at
    if c.is_symbol("-") or c.token.kind is Kind.NUMBER:
        landmark = _number(c)
        draft.bare.append(c.since(start))
        return landmark
    if c.word() != "timestamp":
        raise _no_timestamp(c, "TIMESTAMP or a whole number")
    landmark = timestamp(c)
    draft.timed.append(c.since(start))
    return landmark


def _number(c: TokenReader) -> int:
    """A whole number, perhaps with a sign."""
    sign = -1 if c.accept_symbol("-") else 1
    token = c.token
    if token.kind is not Kind.NUMBER or not token.text.isdecimal():
        raise c.expected("a whole number")
    if len(token.text) > 20 or int(token.text) > FURTHEST:
        raise ParseError(f"the number is too large: at most {FURTHEST:,} here", c.place(c.at))
    return sign * int(c.step().text)


def timestamp(c: TokenReader) -> int:
    """TIMESTAMP '...' in microseconds since the epoch."""
    start = c.at
    if not c.accept("timestamp"):
        raise _no_timestamp(c, "TIMESTAMP")
    text = c.string("a string with date and time")
    return parsed_instant(text, c.since(start))


def _no_timestamp(c: TokenReader, wanted: str) -> ParseError:
    """The error where an instant is expected. A string says which one is meant, also after DATE."""
    error = c.expected(wanted, "timestamp")
    string = c.ahead() if c.word() == "date" else c.token
    if string.kind is Kind.STRING:
        error.hint = f"write TIMESTAMP {render_string(string.text)}"
    return error


def grouping(c: TokenReader) -> tuple[Window, Column]:
    """Spark's GROUP BY window(ts, size[, slide[, start]]), and the time column as written."""
    start = c.at
    c.at += 2
    column = _time_column(c)
    if not c.is_symbol(","):
        raise c.expected("',' and the window's size, such as '10 minutes'")
    spans = _spans(c, 3)
    c.expect_symbol(")")
    size, slide, first = spans[0], spans[1] if len(spans) > 1 else spans[0], spans[2] if len(spans) > 2 else 0
    return _starting(size, slide, first, column.name, c.since(start)), column


def _starting(size: int, slide: int, first: int, attribute: str, place: Place) -> Window:
    """The window that starts at first + k * slide, and so ends at first + size + k * slide.

    >>> from mullion.language.parse import parse_query
    >>> from mullion.language.render import render
    >>> render(parse_query("SELECT a, count(*) FROM s GROUP BY a, window(ts, '12 min', '5 min')"))
    "SELECT a, count(*) FROM s [RANGE '12 min' SLIDE '5 min' OFFSET '2 min' WATTR ts] GROUP BY a"
    """
    return Window(range=size, slide=slide, offset=(first + size) % slide, attribute=attribute, place=place)


def _time_column(c: TokenReader) -> Column:
    start = c.at
    name, table = c.name("the time column"), None
    if c.accept_symbol("."):
        name, table = c.name("the time column"), name
    return Column(name, table, place=c.since(start))


def _spans(c: TokenReader, most: int) -> list[int]:
    """Up to `most` durations, each after a comma; the third is an offset and may be negative."""
    spans: list[int] = []
    while len(spans) < most and c.accept_symbol(","):
        spans.append(time_span(c, signed=len(spans) == 2))
    return spans


def at_table_function(c: TokenReader) -> bool:
    skip = 2 if c.word() == "table" and c.is_symbol("(", 1) else 0
    return c.word(skip) in ("hop", "tumble", "cumulate", "session") and c.is_symbol("(", skip + 1)


def table_function(c: TokenReader) -> Named:
    """Flink's HOP(TABLE t, DESCRIPTOR(ts), slide, size[, offset]) and TUMBLE(TABLE t, DESCRIPTOR(ts), size[, offset]),
    with or without TABLE( ) around it."""
    start = c.at
    wrapped = c.accept("table")
    if wrapped:
        c.expect_symbol("(")
    kind = c.word()
    if kind not in ("hop", "tumble"):
        raise NotSupported(f"{kind.upper()}(...)", c.place(c.at))
    c.at += 2
    c.expect("table")
    name = c.name("a stream's name")
    c.expect_symbol(",")
    c.expect("descriptor")
    c.expect_symbol("(")
    attribute = c.name("the time column")
    c.expect_symbol(")")
    if not c.is_symbol(","):
        raise c.expected("',' and a duration")
    spans: list[int] = []
    for signed in (False, False, True) if kind == "hop" else (False, True):
        if kind == "hop" and len(spans) == 1 and not c.is_symbol(","):
            raise c.expected("',' and the window's size, after the slide")
        if not c.accept_symbol(","):
            break
        spans.append(time_span(c, signed=signed))
    c.expect_symbol(")")
    if wrapped:
        c.expect_symbol(")")
    slide, size = (spans[0], spans[1]) if kind == "hop" else (spans[0], spans[0])
    rest = spans[2:] if kind == "hop" else spans[1:]
    place = c.since(start)
    window = _starting(size, slide, rest[0] if rest else 0, attribute, place)
    return Named(name=name, window=window, place=place)
