"""Expressions, with Spark's precedence: an operator-precedence parser over the tokens.

The trees are small: BETWEEN, IS [NOT] TRUE, IS DISTINCT FROM and CASE with an operand are written out, so that the
same condition is the same tree however it was put.
"""

from __future__ import annotations

from dataclasses import replace

from mullion.errors import NotSupported, ParseError, Place
from mullion.language import types
from mullion.language.calls import TYPED_LITERALS, call, typed_literal
from mullion.language.dialect import (
    BINARY,
    COMPARISON,
    FUNCTIONS_NAMED_BY_RESERVED,
    NOT,
    OR,
    PREDICATE,
    RESERVED,
    SIGN,
)
from mullion.language.literals import number
from mullion.language.query import Call, Case, Cast, Column, Exists, Expr, Literal, children
from mullion.language.token_reader import TokenReader
from mullion.language.tokens import Kind
from mullion.language.typenames import type_name

MAX_HEIGHT = 120
"""Levels of a tree. Comparing, hashing and rewriting trees recurse, so deeper ones would overflow the stack later."""

MAX_SIZE = 50_000
"""Parts of a tree, counted as written out: BETWEEN and CASE repeat their operand, which nested ones would double."""

_ALWAYS_SMALL = 60
"""So few tokens cannot make a tree of too many levels or parts: a level takes one at least, a doubling six."""

_NO_OPERATOR = ("", 0)
_SIGNS = {"-": "negative", "+": "positive", "~": "bitnot"}
_PREDICATES = ("between", "in", "like", "ilike", "rlike", "regexp", "is")


def expression(c: TokenReader) -> Expr:
    """A whole expression, such as a SELECT item, a condition or an argument."""
    start = c.at
    expr = _binary(c, OR)
    _check_size(expr, c, start)
    return expr


def _check_size(expr: Expr, c: TokenReader, start: int) -> None:
    if c.at - start <= _ALWAYS_SMALL:
        return
    level, height, size = [expr], 0, 0
    while level:
        height, size = height + 1, size + len(level)
        if height > MAX_HEIGHT or size > MAX_SIZE:
            message = f"the expression has more than {MAX_HEIGHT} levels or {MAX_SIZE} parts"
            raise ParseError(message, c.since(start), hint="write x IN (...) for many OR, or split the query")
        level = [child for node in level for child in children(node)]


def _binary(c: TokenReader, level: int) -> Expr:
    """Left-associative operators that bind at least as tightly as `level`."""
    start = c.at
    left = _prefix(c, level)
    while True:
        if level <= PREDICATE and _at_predicate(c):
            left = _predicate(c, left, start)
            if _at_predicate(c) or _operator(c)[1] >= COMPARISON:
                raise ParseError(
                    "a condition cannot be an operand here", c.since(start), hint="put it into parentheses"
                )
        name, binds = _operator(c)
        if binds < level:
            return left
        c.step()
        right = _binary(c, binds + 1)
        left = Call(name, (left, right), place=c.since(start))


def _operator(c: TokenReader) -> tuple[str, int]:
    return BINARY.get(c.word() or c.symbol(), _NO_OPERATOR)


def _at_predicate(c: TokenReader) -> bool:
    word = c.word()
    return word != "" and (c.word(1) if word == "not" else word) in _PREDICATES


def _prefix(c: TokenReader, level: int) -> Expr:
    start = c.at
    if c.word() == "not" or c.is_symbol("!"):
        if level > NOT:
            raise ParseError("NOT cannot be an operand here", c.place(start), hint="put it into parentheses")
        c.step()
        with c.nested():
            return Call("not", (_binary(c, NOT),), place=c.since(start))
    if (symbol := c.symbol()) in _SIGNS:
        c.step()
        function = _SIGNS[symbol]
        if symbol == "-" and c.token.kind is Kind.NUMBER:
            literal = number("-" + c.step().text, c.since(start))
            return _postfix(c, literal, start)
        with c.nested():
            operand = _prefix(c, SIGN)
        if symbol == "+" and isinstance(operand, Literal) and operand.type != types.STRING:
            return operand
        return Call(function, (operand,), place=c.since(start))
    return _postfix(c, _primary(c), start)


def _postfix(c: TokenReader, expr: Expr, start: int) -> Expr:
    while c.accept_symbol("::"):
        expr = Cast(expr, type_name(c), place=c.since(start))
    return expr


def _predicate(c: TokenReader, left: Expr, start: int) -> Expr:
    negated = c.accept("not")
    word = c.word()
    c.step()
    if word == "is":
        return _is(c, left, start)
    expr: Expr
    if word == "between":
        low = _binary(c, COMPARISON)
        c.expect("and")
        high = _binary(c, COMPARISON)
        place = c.since(start)
        bounds = (Call("ge", (left, low), place=place), Call("le", (left, high), place=place))
        expr = Call("and", bounds, place=place)
    elif word == "in":
        c.expect_symbol("(")
        if c.word() == "select":
            raise NotSupported("IN with a sub-query", c.place(c.at), hint="write EXISTS with an equality")
        with c.nested():
            values = expression_list(c)
        c.expect_symbol(")")
        expr = Call("in", (left, *values), place=c.since(start))
    else:
        if c.word() in ("any", "all", "some") and c.is_symbol("(", 1):
            raise NotSupported(f"LIKE {c.word().upper()}", c.place(c.at), hint="write the patterns with OR")
        pattern = _binary(c, COMPARISON)
        if c.word() == "escape" and word in ("like", "ilike"):
            pattern = _escaped(c, pattern)
        expr = Call("rlike" if word == "regexp" else word, (left, pattern), place=c.since(start))
    return Call("not", (expr,), place=c.since(start)) if negated else expr


def _escaped(c: TokenReader, pattern: Expr) -> Expr:
    """LIKE '50!%' ESCAPE '!' as LIKE '50\\%': one way to escape is enough below."""
    start = c.at
    c.expect("escape")
    mark = c.string("a character")
    if len(mark) != 1:
        raise ParseError("ESCAPE takes one character", c.since(start), hint="write it as in LIKE '50!%' ESCAPE '!'")
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise NotSupported("a pattern that is no constant", pattern.place, hint="write the pattern itself")
    written, text = iter(pattern.value), ""
    for character in written:
        if character == mark:
            character = next(written, "")
            if character not in ("%", "_", mark):
                hint = f"after {mark} stands %, _ or another {mark}"
                raise ParseError("the pattern escapes what needs no escape", pattern.place, hint=hint)
            text += f"\\{character}" if character in "%_\\" else character
        else:
            text += "\\\\" if character == "\\" else character
    return replace(pattern, value=text)


def _is(c: TokenReader, left: Expr, start: int) -> Expr:
    negated = c.accept("not")
    word = c.word()
    if word not in ("null", "unknown", "true", "false", "distinct"):
        raise c.expected("NULL, TRUE, FALSE or DISTINCT FROM", "null", "true", "false", "distinct")
    token = c.at
    c.step()
    if word in ("null", "unknown"):
        expr = Call("is_null", (left,), place=c.since(start))
    elif word == "distinct":
        c.expect("from")
        expr = Call("eq_null_safe", (left, _binary(c, COMPARISON)), place=c.since(start))
        negated = not negated
    else:
        truth = Literal(word == "true", types.BOOLEAN, place=c.place(token))
        expr = Call("eq_null_safe", (left, truth), place=c.since(start))
    return Call("not", (expr,), place=c.since(start)) if negated else expr


def expression_list(c: TokenReader) -> tuple[Expr, ...]:
    expressions = [expression(c)]
    while c.accept_symbol(","):
        expressions.append(expression(c))
    return tuple(expressions)


def _primary(c: TokenReader) -> Expr:
    start, token = c.at, c.token
    if token.kind is Kind.NUMBER:
        return number(c.step().text, c.place(start))
    if token.kind is Kind.STRING:
        return Literal(c.step().text, types.STRING, place=c.place(start))
    if c.accept_symbol("("):
        if c.word() == "select":
            raise NotSupported("a sub-query as a value", c.place(c.at), hint="write it in FROM and join it")
        with c.nested():
            inner = _binary(c, OR)
        c.expect_symbol(")")
        return inner
    if c.word() in _SPECIAL:
        with c.nested():
            special = _special(c)
        if special is not None:
            return special
    return _named(c)


_SPECIAL = frozenset(("null", "true", "false", "case", "exists", "cast", "try_cast", *TYPED_LITERALS))


def _special(c: TokenReader) -> Expr | None:
    """What begins with a keyword."""
    start, word = c.at, c.word()
    if word in ("null", "true", "false"):
        c.step()
        value = None if word == "null" else word == "true"
        return Literal(value, types.NULL if value is None else types.BOOLEAN, place=c.place(start))
    if word == "case":
        return _case(c)
    if word == "exists":
        c.step()
        c.expect_symbol("(")
        query = c.select(c)
        c.expect_symbol(")")
        if query.output is not None and query.output.kind == "rstream" and not query.output.restore:
            query = replace(query, output=None)  # CQL writes Rstream there too, and means the relation itself
        return Exists(query, place=c.since(start))
    if word in ("cast", "try_cast") and c.is_symbol("(", 1):
        c.at += 2
        arg = expression(c)
        c.expect("as")
        to = type_name(c)
        c.expect_symbol(")")
        return Cast(arg, to, place=c.since(start))
    return typed_literal(c)


def _case(c: TokenReader) -> Expr:
    start = c.at
    c.expect("case")
    operand = None if c.word() == "when" else expression(c)
    branches: list[tuple[Expr, Expr]] = []
    while c.accept("when"):
        begin = c.at
        condition = expression(c)
        if operand is not None:
            condition = Call("eq", (operand, condition), place=c.since(begin))
        c.expect("then")
        branches.append((condition, expression(c)))
    if not branches:
        raise c.expected("WHEN", "when")
    otherwise = expression(c) if c.accept("else") else None
    if not c.accept("end"):
        raise c.expected("WHEN, ELSE or END", "when", "else", "end")
    return Case(tuple(branches), otherwise, place=c.since(start))


def _named(c: TokenReader) -> Expr:
    """A column or a call."""
    start, word = c.at, c.word()
    if word == "summary" and _at_estimate(c):
        c.at += 6
        with c.nested():
            value = expression(c)
        c.expect_symbol(")")
        return Call("estimate", (value,), place=c.since(start))
    if c.is_symbol("(", 1) and (c.can_name() or word in FUNCTIONS_NAMED_BY_RESERVED):
        with c.nested():
            return call(c, expression, lambda c: _binary(c, COMPARISON))
    if c.token.kind is Kind.SYMBOL or word in RESERVED or not c.can_name():
        raise c.expected("an expression")
    name, table = c.step().text, None
    if c.accept_symbol("."):
        name, table = _member(c), name
        if c.is_symbol("."):
            raise NotSupported("a name of three parts", c.since(start), hint="write table.column or column")
        if c.is_symbol("("):
            raise ParseError("a function's name has one part", c.since(start))
    column = Column(name, table, place=c.since(start))
    return window_column(column, column.place)


def _at_estimate(c: TokenReader) -> bool:
    """Whether SUMMARY.Estimate.Count( stands here, the paper's spelling of estimate (ali 3)."""
    words = [c.word(n) for n in (0, 2, 4)] == ["summary", "estimate", "count"]
    return words and c.is_symbol(".", 1) and c.is_symbol(".", 3) and c.is_symbol("(", 5)


def _member(c: TokenReader) -> str:
    """After a dot even a reserved word is a name: window.end."""
    if c.token.kind is Kind.WORD and not c.token.text[0].isdigit():
        return c.step().text
    return c.name("a column's name")


def window_column(column: Column, place: Place | None) -> Column:
    """Spark's window.start and window.end are the answer's columns window_start and window_end."""
    if (column.table or "").lower() == "window" and column.name.lower() in ("start", "end"):
        return Column(f"window_{column.name.lower()}", place=place)
    return column
