"""Text to trees: scripts, statements, queries, expressions and durations.

Whatever the text, the outcome is a tree or a `TextError` that shows the place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from mullion.errors import ParseError, Place
from mullion.language.cursor import Cursor
from mullion.language.durations import TOO_LONG
from mullion.language.expressions import expression
from mullion.language.limits import LONGEST
from mullion.language.literals import duration
from mullion.language.queries import query
from mullion.language.query import Ask, CreateQuery, Expr, Query, Statement
from mullion.language.statements import check_name, statement

T = TypeVar("T")


def parse_script(text: str) -> tuple[Statement, ...]:
    """All statements of a script."""
    return _guarded(text, _script)


def parse_statement(text: str) -> Statement:
    """One statement, perhaps with a semicolon after it."""
    return _guarded(text, _one_statement)


def parse_query(text: str, name: str | None = None) -> Query:
    """A SELECT or a CREATE QUERY. With `name`, the query is a standing one of that name.

    >>> parse_query("SELECT count(*) FROM trades [RANGE 10 min SLIDE 5 min]").source.window.slide
    300000000
    """
    found = _guarded(text, _one_statement)
    if not isinstance(found, Ask | CreateQuery):
        raise ParseError("expected a SELECT or a CREATE QUERY", found.place)
    if name is not None:
        check_name(name, "query", Place(name, 0, len(name)))
        return replace(found.query, name=name)
    return found.query


def parse_expression(text: str) -> Expr:
    """One expression, as in WHERE or among the items of SELECT."""
    return _guarded(text, _one_expression)


def parse_duration(text: str) -> int:
    """Microseconds of a duration such as `12 min`, `1 h 30 min` or `1.5 s`, of at most 10,000 years."""
    found = duration(text)
    if abs(found) > LONGEST:
        raise ParseError(TOO_LONG, Place(text, 0, len(text)))
    return found


def _script(c: Cursor) -> tuple[Statement, ...]:
    found: list[Statement] = []
    while True:
        while c.accept_symbol(";"):
            pass
        if c.ended:
            return tuple(found)
        found.append(statement(c))
        if not c.ended and not c.is_symbol(";"):
            raise c.expected("';' or the end of the text", *_CLAUSES)


def _one_statement(c: Cursor) -> Statement:
    found = _script(c)
    if len(found) != 1:
        message = "expected one statement, found " + (str(len(found)) if found else "none")
        raise ParseError(message, found[1].place if found else c.place(c.at))
    return found[0]


def _one_expression(c: Cursor) -> Expr:
    found = expression(c)
    c.finish("and", "or", "in", "like", "is", "between", "not")
    return found


def _guarded(text: str, parse: Callable[[Cursor], T]) -> T:
    """A caller that is itself deep in the stack gets a typed error as well."""
    try:
        return parse(Cursor(text, query))
    except RecursionError:
        raise ParseError("nested too deeply", Place(text, 0, len(text))) from None


_CLAUSES = (
    "where",
    "group",
    "having",
    "order",
    "limit",
    "union",
    "with",
    "join",
    "lateness",
    "ahead",
    "keep",
    "options",
    "timestamp",
)
