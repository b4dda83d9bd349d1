"""SELECT and what may stand around it."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from mullion.errors import NotSupported, ParseError
from mullion.language import cql
from mullion.language.dialect import OUTPUTS, RESERVED
from mullion.language.expressions import expression
from mullion.language.preferences import preference
from mullion.language.query import (
    Column,
    Derived,
    Expr,
    Item,
    JoinClause,
    Literal,
    Named,
    OrderTerm,
    Output,
    Query,
    Source,
)
from mullion.language.sources import leaves, sources
from mullion.language.token_reader import TokenReader
from mullion.language.tokens import Kind
from mullion.language.types import BOOLEAN
from mullion.language.windows import bracketed, grouping

_DIFFERENCES = ("except", "intersect", "minus")
_WINDOW_COLUMNS = ("window", "window_start", "window_end")


def query(c: TokenReader) -> Query:
    """A whole query: SELECT, a union or difference, or one of the four output streams around it."""
    with c.nested():
        if c.word() in OUTPUTS:
            return _output(c)
        return _union(c)


def _output(c: TokenReader) -> Query:
    start, kind = c.at, c.word()
    c.step()
    restore = c.accept("restore")
    c.expect_symbol("(")
    inner = query(c)
    c.expect_symbol(")")
    if inner.output is not None:
        raise ParseError(f"{kind.upper()} around {inner.output.kind.upper()}", c.since(start))
    window = None
    if kind == "wstream":
        if not c.is_symbol("["):
            raise c.expected("a window over the results, [ROWS n] or [RANGE r]")
        window = bracketed(c)
    if not restore:
        restore = c.accept("restore")
    if restore and kind not in ("istream", "rstream"):
        raise ParseError("RESTORE is for ISTREAM and RSTREAM", c.since(start), hint="leave RESTORE out")
    place = c.since(start)
    return replace(inner, output=Output(kind=kind, window=window, restore=restore, place=place), place=place)


def _union(c: TokenReader) -> Query:
    start = c.at
    if c.accept_symbol("("):
        head = query(c)
        c.expect_symbol(")")
        if c.word() not in ("union", *_DIFFERENCES):
            return head
        if head.order_by or head.limit is not None or head.output or head.preference:
            raise NotSupported("ORDER BY, LIMIT or an output stream in the first part of a union", c.since(start))
        items: list[Item | None] = list(head.items)
    else:
        head, items = _select(c)
    united, excepted = list(head.union), list(head.excepted)
    while (word := c.word()) in ("union", *_DIFFERENCES):
        _refuse_output(head)
        _set_operator(c)
        if word == "union" and excepted:
            hint = "write the difference in FROM: SELECT * FROM (... EXCEPT ALL ...) UNION ALL ..."
            raise NotSupported("UNION ALL after EXCEPT ALL", c.place(c.at - 2), hint=hint)
        if c.accept_symbol("("):
            part = query(c)
            c.expect_symbol(")")
        else:
            part = _select(c)[0]
            _refuse_output(part)
        (united if word == "union" else excepted).append(part)
    order_by, limit, preferred = _order_by(c, items), _limit(c), preference(c)
    place = c.since(start)
    if head.place == place:
        return head
    return replace(
        head,
        union=tuple(united),
        excepted=tuple(excepted),
        order_by=order_by,
        limit=limit,
        preference=preferred,
        place=place,
    )


def _refuse_output(part: Query) -> None:
    if part.output is not None:
        kind = part.output.kind.upper()
        hint = f"write it around the whole: {kind} (SELECT ... UNION ALL SELECT ...)"
        raise NotSupported(f"{kind} in a part of a union or difference", part.output.place, hint=hint)


def _set_operator(c: TokenReader) -> None:
    """UNION ALL or EXCEPT ALL; those without ALL make results distinct, which must be written."""
    at, word = c.at, c.step().text.upper()
    if word in ("INTERSECT", "MINUS"):
        hint = "write EXCEPT ALL" if word == "MINUS" else "write DISTINCT and EXISTS"
        raise NotSupported(word, c.place(at), hint=hint)
    if not c.accept("all"):
        hint = "write UNION ALL" if word == "UNION" else "write EXCEPT ALL, or NOT EXISTS"
        raise NotSupported(f"{word} without ALL", c.place(at), hint=hint)


def _select(c: TokenReader) -> tuple[Query, list[Item | None]]:
    """SELECT up to HAVING, and the items as written, for ordinals."""
    start = c.at
    if not c.accept("select"):
        raise c.expected("SELECT", "select", *OUTPUTS)
    around, inner = cql.opened(c), cql.nested(c)
    distinct = approximate = False
    while True:
        if not distinct and c.accept("distinct"):
            distinct = True
        elif not approximate and _at_approx(c):
            c.step()
            approximate = True
        else:
            break
    c.accept("all")
    written: list[Item | None] = [] if inner is None else [Item(inner.results, cql.VALUE, place=inner.item.place)]
    window_terms: list[Column] = []
    written = written or _items(c, window_terms)
    output = None if around is None else cql.closed(c, around)
    items = tuple(item for item in written if item is not None)
    if not items:
        raise ParseError("SELECT needs a column besides the window", c.since(start))
    if not c.accept("from"):
        raise c.expected("',' or FROM", "from", "as")
    source = sources(c)
    where = expression(c) if c.accept("where") else None
    group_by, source = _group_by(c, written, source, window_terms)
    having = expression(c) if c.accept("having") else None
    query = Query(
        items=items,
        source=source,
        distinct=distinct,
        approximate=approximate,
        where=where,
        group_by=group_by,
        having=having,
        output=output,
        window_terms=tuple(window_terms),
        place=c.since(start),
    )
    if inner is not None:
        return inner.around(query), [inner.item]
    return query, written


def _at_approx(c: TokenReader) -> bool:
    """Whether APPROX is meant, and not a column of that name."""
    if c.word() != "approx":
        return False
    following = c.ahead()
    if following.kind is Kind.WORD:
        return c.word(1) not in RESERVED or c.word(1) in ("distinct", "case", "cast", "try_cast", "not", "all")
    if following.kind is Kind.SYMBOL:
        return following.text == "*" and (c.word(2) == "from" or c.is_symbol(",", 2))
    return following.kind is not Kind.END


def _items(c: TokenReader, window_terms: list[Column]) -> list[Item | None]:
    """The items; None for a bare `window`, which every answer has anyway. Such terms are added to `window_terms`."""
    items: list[Item | None] = []
    while True:
        start = c.at
        expr = _star(c) or expression(c)
        name = None
        is_star = isinstance(expr, Column) and expr.name == "*"
        if not is_star:
            if c.accept("as"):
                name = c.name("an alias")
            elif c.can_name():
                name = c.step().text
                c.guess("from", "as", "and", "or")
        if _is_window(expr, ("window",)):
            if name is not None:
                raise ParseError("the window cannot be renamed", c.since(start), hint="select window_end AS ...")
            window_terms.append(expr)
            items.append(None)
        else:
            items.append(Item(expr, name, place=c.since(start)))
        if not c.accept_symbol(","):
            return items


def _star(c: TokenReader) -> Column | None:
    start = c.at
    if c.accept_symbol("*"):
        return Column("*", place=c.since(start))
    if c.can_name() and c.is_symbol(".", 1) and c.is_symbol("*", 2):
        table = c.step().text
        c.at += 2
        return Column("*", table, place=c.since(start))
    return None


def _is_window(expr: Expr, names: tuple[str, ...]) -> TypeGuard[Column]:
    return isinstance(expr, Column) and expr.table is None and expr.name.lower() in names


def _group_by(
    c: TokenReader, items: list[Item | None], source: Source, window_terms: list[Column]
) -> tuple[tuple[Expr, ...], Source]:
    """The terms without the window itself, which are added to `window_terms`, and the source with the window that
    window(...) gave it.

    Grouping by the window and nothing else makes one group of what a window holds: where there is nothing, there is no
    group, as in Spark and Flink.
    """
    terms: list[Expr] = []
    if not c.accept("group"):
        return (), source
    c.expect("by")
    while True:
        _refuse_sets_of_keys(c)
        if c.word() == "window" and c.is_symbol("(", 1):
            source = _windowed(c, source)
        else:
            ordinal, item = _ordinal(c, items)
            term = item if ordinal else expression(c)
            if term is not None and _is_window(term, _WINDOW_COLUMNS):
                window_terms.append(term)
            elif term is not None:
                terms.append(term)
        if not c.accept_symbol(","):
            _refuse_sets_of_keys(c)
            return tuple(terms) or (Literal(True, BOOLEAN),), source


def _refuse_sets_of_keys(c: TokenReader) -> None:
    """ROLLUP, CUBE and GROUPING SETS, among the terms of GROUP BY or after them."""
    ahead = 1 if c.word() == "with" else 0
    is_one = c.word(ahead) in ("rollup", "cube") and (ahead or c.is_symbol("(", 1))
    is_sets = c.is_words("grouping", "sets")
    if is_one or is_sets:
        start = c.at + ahead
        hint = "write a query for each set of keys, such as GROUP BY a, b and GROUP BY a: they share their work anyway"
        what = "GROUPING SETS" if is_sets else c.word(ahead).upper()
        raise NotSupported(what, c.place(start, start + len(what.split())), hint=hint)


def _windowed(c: TokenReader, source: Source) -> Source:
    start = c.at
    window, column = grouping(c)
    sources = leaves(source)
    if any(leaf.window is not None for leaf in sources):
        raise ParseError("the window is given twice, in FROM and in GROUP BY", c.since(start))
    names = [leaf.alias or (leaf.name if isinstance(leaf, Named) else "") for leaf in sources]
    wanted = [n for n, name in enumerate(names) if column.table is None or name.lower() == column.table.lower()]
    if not wanted:
        raise ParseError(f"no source is called '{column.table}'", column.place)
    target = sources[wanted[0]]

    def placed(node: Source) -> Source:
        if isinstance(node, JoinClause):
            return replace(node, left=placed(node.left), right=placed(node.right))
        assert isinstance(node, Named | Derived)
        return replace(node, window=window) if node is target else node

    return placed(source)


def _ordinal(c: TokenReader, items: list[Item | None]) -> tuple[bool, Expr | None]:
    """Whether a bare number stands here, and the item it means (None: the window)."""
    token, following = c.token, c.ahead()
    alone = following.kind in (Kind.WORD, Kind.END) or (following.kind is Kind.SYMBOL and following.text in ",);]")
    if token.kind is not Kind.NUMBER or not token.text.isdecimal() or not alone or c.word(1) in _OPERATOR_WORDS:
        return False, None
    place = c.place(c.at)
    if not 1 <= int(token.text[:10]) <= len(items):
        raise ParseError(f"there is no item {token.text}: SELECT has {len(items)}", place)
    item = items[int(token.text) - 1]
    if item is not None and isinstance(item.expr, Column) and item.expr.name == "*":
        raise ParseError(f"item {token.text} is *, which is no expression", place)
    c.step()
    return True, None if item is None else item.expr


_OPERATOR_WORDS = ("and", "or", "div", "in", "is", "like", "ilike", "rlike", "regexp", "between", "not")


def _order_by(c: TokenReader, items: list[Item | None]) -> tuple[OrderTerm, ...]:
    terms: list[OrderTerm] = []
    if not c.accept("order"):
        return ()
    c.expect("by")
    while True:
        start = c.at
        ordinal, item = _ordinal(c, items)
        expr = (item or Column("window_start", place=c.since(start))) if ordinal else expression(c)
        descending = c.accept("desc")
        if not descending:
            c.accept("asc")
        nulls_first = not descending
        if c.accept("nulls"):
            nulls_first = c.accept("first")
            if not nulls_first and not c.accept("last"):
                raise c.expected("FIRST or LAST", "first", "last")
        terms.append(OrderTerm(expr, descending, nulls_first, place=c.since(start)))
        if not c.accept_symbol(","):
            return tuple(terms)


def _limit(c: TokenReader) -> int | None:
    if not c.accept("limit"):
        return None
    if c.token.kind is Kind.NUMBER and c.token.text.strip("0") == "":
        c.step()
        return 0
    return c.integer("a whole number")
