"""What is wrong with a script: every mistake of its own, and none that only follows from another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from mullion.errors import MullionError
from mullion.language.parse import Parsed
from mullion.language.query import Named
from mullion.language.script import (
    Ask,
    CreateQuery,
    CreateStream,
    CreateSummary,
    CreateSynopsis,
    CreateTable,
    Drop,
    Explain,
    Statement,
)


class ScriptMistakes:
    """Mistakes in the order in which they were met, those of reading first.

    A statement that could not be read or checked defines nothing. Mistakes of statements that use its name are left
    out: they may be nothing but a consequence.
    """

    def __init__(self, parsed: Parsed) -> None:
        self.errors: list[MullionError] = list(parsed.mistakes)
        self._missing = set(parsed.broken)
        self._unsummarised = set(parsed.unsummarised)
        """Streams of which a summary or a synopsis was refused."""

    def note(self, statement: Statement, mistake: MullionError) -> None:
        """Take note of the mistake of a statement that was refused."""
        if not self._speaks_of_missing(statement):
            self.errors.append(mistake)
        self.leave_out(statement)

    def leave_out(self, statement: Statement) -> None:
        """From now on, take what the statement was to define as missing."""
        match statement:
            case (
                CreateStream(name=name) | CreateTable(name=name) | CreateSynopsis(name=name) | CreateSummary(name=name)
            ):
                self._missing.add(name.lower())
            case CreateQuery(query=query) if query.name is not None:
                self._missing.add(query.name.lower())
        match statement:
            case CreateSynopsis(stream=stream) | CreateSummary(stream=stream):
                self._unsummarised.add(stream.lower())

    def _speaks_of_missing(self, statement: Statement) -> bool:
        missing = self._missing | (self._unsummarised if _asks_summaries(statement) else set())
        return any(name.lower() in missing for name in _names_used(statement))


def _asks_summaries(statement: Statement) -> bool:
    """Whether a statement stands on a summary or a synopsis, whose name it does not say."""
    match statement:
        case CreateQuery(query=query) | Ask(query=query):
            return query.approximate or query.preference is not None
    return False


def _names_used(statement: Statement) -> Iterator[str]:
    """The streams, tables and queries that a statement speaks of."""
    match statement:
        case CreateQuery(query=query) | Ask(query=query):
            yield from _sources(query)
        case CreateSynopsis(stream=name) | CreateSummary(stream=name):
            yield name
        case Drop(name=name) | Explain(name=str(name)):
            yield name


def _sources(node: Any) -> Iterator[str]:
    """Every name in a FROM, also of sub-queries and of those within expressions."""
    stack = [node]
    while stack:
        node = stack.pop()
        if isinstance(node, Named):
            yield node.name
        elif isinstance(node, tuple):
            stack += node
        elif is_dataclass(node):
            stack += (getattr(node, field.name) for field in fields(node) if field.name != "place")
