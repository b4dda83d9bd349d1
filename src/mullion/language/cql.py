"""CQL's spellings of output streams: functions around what SELECT lists (golab 3.4).

| CQL | the same as |
|---|---|
| SELECT Rstream(*) FROM ..., likewise Istream and Dstream | RSTREAM (SELECT * FROM ...) |
| SELECT Rstream(DISTINCT a) FROM ... | RSTREAM (SELECT DISTINCT a FROM ...) |
| SELECT Rstream-restore(*) FROM ... | RSTREAM RESTORE (SELECT * FROM ...) |
| SELECT Wstream(*)[ROWS 10] FROM ... | WSTREAM (SELECT * FROM ...) [ROWS 10] |
| SELECT sum(Wstream(sum(a))[ROWS 10]) FROM ... | SELECT sum(value) FROM (SELECT sum(a) AS value FROM ...) [ROWS 10] |
"""

from __future__ import annotations

from typing import NamedTuple

from mullion.errors import NotSupported, ParseError
from mullion.language.dialect import AGGREGATES, OUTPUTS
from mullion.language.expressions import expression
from mullion.language.query import AggregateCall, Column, Derived, Expr, Item, Output, Query, Window
from mullion.language.token_reader import TokenReader
from mullion.language.windows import bracketed

VALUE = "value"
"""What the results are called that WSTREAM makes a window of within an aggregate."""


class Around(NamedTuple):
    """An output stream that was opened around the items."""

    kind: str
    restore: bool
    start: int


def opened(c: TokenReader) -> Around | None:
    """Rstream( and the like, if it stands here."""
    start, kind = c.at, c.word()
    if kind not in OUTPUTS:
        return None
    dash = c.is_symbol("-", 1)
    restore = c.word(2 if dash else 1) == "restore"
    if not c.is_symbol("(", (3 if dash else 2) if restore else 1):
        return None
    c.at += 1 + (0 if not restore else 2 if dash else 1)
    c.expect_symbol("(")
    if restore and kind not in ("istream", "rstream"):
        raise ParseError("RESTORE is for ISTREAM and RSTREAM", c.since(start), hint="leave RESTORE out")
    return Around(kind, restore, start)


def closed(c: TokenReader, around: Around) -> Output:
    """The parenthesis after the items, and the window of Wstream."""
    if not c.is_symbol(")"):
        raise c.expected("',' or ')'")
    c.step()
    window = None
    if around.kind == "wstream":
        if not c.is_symbol("["):
            raise c.expected("a window over the results, [ROWS n] or [RANGE r]")
        window = bracketed(c)
    if c.is_symbol(","):
        name = around.kind.upper()
        hint = f"write {name} (SELECT ... FROM ...), or all items within the parentheses"
        raise NotSupported(f"{name} around some of the items", c.since(around.start), hint=hint)
    return Output(kind=around.kind, window=window, restore=around.restore, place=c.since(around.start))


class Nested(NamedTuple):
    """An aggregate over a window of results: sum(Wstream(sum(a))[ROWS 10])."""

    item: Item
    results: Expr
    window: Window

    def around(self, query: Query) -> Query:
        """The query that aggregates a window over the results of another, which has the results as its only item."""
        if query.group_by or query.having is not None or query.distinct or query.approximate:
            hint = f"write SELECT ... FROM (SELECT ... AS {VALUE} FROM ... GROUP BY ...) [ROWS n]"
            raise NotSupported("WSTREAM within an aggregate in a query with groups", self.item.place, hint=hint)
        return Query(items=(self.item,), source=Derived(query=query, window=self.window), place=query.place)


def nested(c: TokenReader) -> Nested | None:
    """The only item of SELECT, if it is an aggregate around Wstream."""
    if c.word() not in AGGREGATES or not c.is_symbol("(", 1) or c.word(2) != "wstream" or not c.is_symbol("(", 3):
        return None
    start, function = c.at, AGGREGATES[c.word()]
    c.at += 4
    results = expression(c)
    c.expect_symbol(")")
    if not c.is_symbol("["):
        raise c.expected("a window over the results, [ROWS n] or [RANGE r]")
    window = bracketed(c)
    c.expect_symbol(")")
    outer = AggregateCall(function, (Column(VALUE),), False, None, place=c.since(start))
    name = None
    if c.accept("as"):
        name = c.name("an alias")
    elif c.can_name():
        name = c.step().text
    return Nested(Item(outer, name, place=c.since(start)), results, window)
