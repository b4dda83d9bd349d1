"""Text to trees: scripts, statements, queries, expressions and durations.

Whatever the text, the outcome is a tree or a `TextError` that shows the place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from mullion.errors import MullionError, ParseError, Place, TextError, refuse
from mullion.language.durations import TOO_LONG
from mullion.language.expressions import expression
from mullion.language.limits import LONGEST
from mullion.language.literals import duration, parsed_instant
from mullion.language.punctuating import Punctuation, punctuation
from mullion.language.queries import query
from mullion.language.query import Expr, Query, Window
from mullion.language.script import Ask, CreateQuery, Statement
from mullion.language.shedding import JoinMemory, Shedding, join_memory, shed_or_wait
from mullion.language.statements import check_name, event_time, statement
from mullion.language.token_reader import TokenReader
from mullion.language.tokens import Kind
from mullion.language.windows import bracketed

T = TypeVar("T")


@dataclass(frozen=True)
class Parsed:
    """A script, as far as it could be read."""

    statements: tuple[Statement, ...]
    mistakes: tuple[MullionError, ...]
    broken: frozenset[str]
    """The names, in lower case, that statements were to define which could not be read."""
    unsummarised: frozenset[str] = frozenset()
    """All names, in lower case, in summaries and synopses that could not be read: their streams are among them."""


def parse_script(text: str) -> tuple[Statement, ...]:
    """All statements of a script. Raises all mistakes together, not only the first."""
    parsed = read_script(text)
    refuse(parsed.mistakes)
    return parsed.statements


def read_script(text: str) -> Parsed:
    """The statements of a script that can be read, and what is wrong with the others: after a mistake it goes on behind
    the next semicolon."""
    return _guarded(text, _script)


def parse_query(text: str, name: str | None = None) -> Query:
    """A SELECT or a CREATE QUERY. With `name`, the query is a standing one of that name.

    >>> parse_query("SELECT count(*) FROM trades [RANGE 10 min SLIDE 5 min]").source.window.slide
    300000000
    """
    parsed = _guarded(text, _one_statement)
    if not isinstance(parsed, Ask | CreateQuery):
        raise ParseError("expected a SELECT or a CREATE QUERY", parsed.place)
    if name is not None:
        check_name(name, "query", Place(name, 0, len(name)))
        return replace(parsed.query, name=name)
    return parsed.query


def parse_expression(text: str) -> Expr:
    """One expression, as in WHERE or among the items of SELECT."""
    return _guarded(text, _one_expression)


def parse_event_time(text: str) -> tuple[str, Expr | None]:
    """What may stand after TIMESTAMP BY: a column, or an expression and a name.

    >>> parse_event_time("ts")
    ('ts', None)
    """
    return _guarded(text, _one_event_time)


def parse_when_behind(text: str) -> Shedding | None:
    """What stands after WHEN BEHIND; None for WAIT."""
    return _guarded(text, _one_when_behind)


def parse_join_memory(text: str) -> JoinMemory:
    """What stands after MEMORY of a stream."""
    return _guarded(text, _one_join_memory)


def parse_punctuation(text: str) -> Punctuation:
    """What stands after PUNCTUATE."""
    return _guarded(text, _one_punctuation)


def parse_window(text: str) -> Window:
    """A window in brackets.

    >>> parse_window("[ROWS 5]").rows
    5
    """
    return _guarded(text, _one_window)


def parse_duration(text: str) -> int:
    """Microseconds of a duration such as `12 min`, `1 h 30 min` or `1.5 s`, of at most 10,000 years."""
    span = duration(text)
    if abs(span) > LONGEST:
        raise ParseError(TOO_LONG, Place(text, 0, len(text)))
    return span


def parse_instant(text: str) -> int:
    """Microseconds since the epoch of a timestamp; UTC when no zone is written."""
    return parsed_instant(text, Place(text, 0, len(text)))


def _script(c: TokenReader) -> Parsed:
    statements: list[Statement] = []
    mistakes: list[MullionError] = []
    broken: set[str] = set()
    unsummarised: set[str] = set()
    while True:
        while c.accept_symbol(";"):
            pass
        if c.ended:
            return Parsed(tuple(statements), tuple(mistakes), frozenset(broken), frozenset(unsummarised))
        start = c.at
        try:
            parsed = statement(c)
            if not c.ended and not c.is_symbol(";"):
                raise c.expected("';' or the end of the text", *_CLAUSES)
            statements.append(parsed)
        except TextError as mistake:
            mistakes.append(mistake)
            broken |= _to_be_defined(c, start)
            c.recover()
            unsummarised |= _named_in_summary(c, start)


def _to_be_defined(c: TokenReader, start: int) -> set[str]:
    """The name that a statement would have defined: what follows CREATE STREAM and the like, also misspelt."""
    words = [token.text.lower() for token in c.tokens[start : start + 4] if token.kind in (Kind.WORD, Kind.QUOTED)]
    if words[1:2] == ["retroactive"]:
        del words[1]
    is_definition = words[:1] == ["create"] or words[1:2] in (
        ["stream"],
        ["table"],
        ["query"],
        ["synopsis"],
        ["summary"],
    )
    return set(words[2:3]) if is_definition else set()


def _named_in_summary(c: TokenReader, start: int) -> set[str]:
    """The names in a CREATE SUMMARY or CREATE SYNOPSIS that could not be read."""
    words = [token.text.lower() for token in c.tokens[start : c.at] if token.kind in (Kind.WORD, Kind.QUOTED)]
    return set(words[2:]) if words[1:2] in (["summary"], ["synopsis"]) else set()


def _one_statement(c: TokenReader) -> Statement:
    parsed = _script(c)
    refuse(parsed.mistakes)
    statements = parsed.statements
    if len(statements) != 1:
        message = "expected one statement, found " + (str(len(statements)) if statements else "none")
        raise ParseError(message, statements[1].place if statements else c.place(c.at))
    return statements[0]


def _one_expression(c: TokenReader) -> Expr:
    parsed = expression(c)
    c.finish("and", "or", "in", "like", "is", "between", "not")
    return parsed


def _one_event_time(c: TokenReader) -> tuple[str, Expr | None]:
    parsed = event_time(c)
    if not c.ended:
        raise c.expected("AS and a name, or the end of the text", "as")
    return parsed


def _one_when_behind(c: TokenReader) -> Shedding | None:
    parsed = shed_or_wait(c)
    c.finish("at", "mark", "refuse")
    return parsed


def _one_join_memory(c: TokenReader) -> JoinMemory:
    parsed = join_memory(c)
    c.finish("shed", "mark", "refuse")
    return parsed


def _one_window(c: TokenReader) -> Window:
    parsed = bracketed(c)
    c.finish()
    return parsed


def _one_punctuation(c: TokenReader) -> Punctuation:
    parsed = punctuation(c)
    c.finish("for", "and", "or")
    return parsed


def _guarded(text: str, parse: Callable[[TokenReader], T]) -> T:
    """A caller that is itself deep in the stack gets a typed error as well."""
    try:
        return parse(TokenReader(text, query))
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
    "idle",
    "when",
    "memory",
    "punctuate",
    "options",
    "timestamp",
)
