"""FROM: streams with windows, tables, sub-queries, and their joins."""

from __future__ import annotations

from mullion.errors import NotSupported, ParseError
from mullion.language.expressions import expression
from mullion.language.query import Column, Derived, Expr, JoinClause, Named, Source, Window
from mullion.language.token_reader import TokenReader
from mullion.language.windows import at_table_function, bracketed, table_function

MAX_SOURCES = 60
"""Joins are a chain of pairs; a longer one would overflow the stack wherever it is compared or rewritten."""

CLAUSES = ("where", "group", "having", "order", "limit", "union", "except", "join", "on", "left", "inner", "with")
_KINDS = ("inner", "left", "right", "full", "cross")


def sources(c: TokenReader) -> Source:
    """What stands after FROM. A comma binds less tightly than JOIN, as in Spark."""
    start = c.at
    source = _joined(c)
    while c.accept_symbol(","):
        right = _joined(c)
        source = JoinClause(left=source, right=right, kind="cross", place=c.since(start))
    if isinstance(source, JoinClause) and len(leaves(source)) > MAX_SOURCES:
        raise ParseError(f"more than {MAX_SOURCES} sources in one FROM", c.since(start))
    return source


def leaves(source: Source) -> list[Named | Derived]:
    """The sources without the joins, from left to right."""
    named: list[Named | Derived] = []
    stack = [source]
    while stack:
        node = stack.pop()
        if isinstance(node, JoinClause):
            stack += [node.right, node.left]
        else:
            named.append(node)
    return named


def _joined(c: TokenReader) -> Source:
    start = c.at
    left = _single(c)
    while (kind := _join_kind(c)) is not None:
        right = _single(c)
        on: Expr | None = None
        using: tuple[Column, ...] = ()
        if kind == "cross":
            if c.word() in ("on", "using"):
                raise ParseError("CROSS JOIN has no condition", c.place(c.at), hint="write JOIN ... ON")
        elif c.accept("on"):
            on = expression(c)
        elif c.word() == "using":
            using = _using(c)
        else:
            raise c.expected("ON or USING", "on", "using")
        left = JoinClause(left=left, right=right, kind=kind, on=on, using=using, place=c.since(start))
    return left


def _join_kind(c: TokenReader) -> str | None:
    """Steps over the words of a join, if one stands here."""
    word = c.word()
    if word in ("natural", "semi", "anti") or (word == "left" and c.word(1) in ("semi", "anti")):
        kind = word if word != "left" else c.word(1)
        raise NotSupported(f"{kind.upper()} JOIN", c.place(c.at), hint="write JOIN ... ON, or [NOT] EXISTS")
    if c.accept("join"):
        return "inner"
    if word not in _KINDS:
        return None
    c.step()
    if word in ("left", "right", "full"):
        c.accept("outer")
    c.expect("join")
    return word


def _using(c: TokenReader) -> tuple[Column, ...]:
    """The columns of USING (a, b)."""
    c.expect("using")
    c.expect_symbol("(")
    columns: list[Column] = []
    while not columns or c.accept_symbol(","):
        place = c.place(c.at)
        columns.append(Column(c.name("a column's name"), place=place))
    c.expect_symbol(")")
    return tuple(columns)


def _single(c: TokenReader) -> Source:
    start = c.at
    source: Named | Derived
    if at_table_function(c):
        source = table_function(c)
    elif c.accept_symbol("("):
        with c.nested():
            if not _at_query(c):
                inner = sources(c)
                c.expect_symbol(")")
                return inner
            query = c.select(c)
            c.expect_symbol(")")
            source = Derived(query=query)
    else:
        source = Named(name=c.name("a stream or table"))
        if c.is_symbol("."):
            raise ParseError("a stream's or table's name has one part", c.place(c.at))
    alias = _alias(c)
    window: Window | None = source.window
    if c.is_symbol("["):
        if window is not None:
            raise ParseError("the window is given twice", c.place(c.at))
        window = bracketed(c)
        if alias is None:
            alias = _alias(c)
    if isinstance(source, Named):
        return Named(name=source.name, window=window, alias=alias, place=c.since(start))
    return Derived(query=source.query, window=window, alias=alias, place=c.since(start))


def _at_query(c: TokenReader) -> bool:
    """Whether a query begins here, perhaps in more parentheses."""
    n = 0
    while c.is_symbol("(", n):
        n += 1
    return c.word(n) in ("select", "istream", "dstream", "rstream", "wstream")


def _alias(c: TokenReader) -> str | None:
    if c.accept("as"):
        return c.name("an alias")
    if not c.can_name() or c.word() in ("semi", "anti"):
        return None
    name = c.step().text
    c.guess(*CLAUSES)
    return name
