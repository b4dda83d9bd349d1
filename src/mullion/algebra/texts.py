"""Pieces of the texts of nodes and plans."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mullion.language.query import Expr
from mullion.language.render import render

_NUMBERED = re.compile(r"`(\d+(?:\.\w+)+|#[ka]\d+)`")


def expression_text(expr: Expr) -> str:
    """Without the quotes that names of joins' columns have in SQL."""
    return unquoted(render(expr))


def unquoted(text: str) -> str:
    return _NUMBERED.sub(r"\1", text)


def list_text(expressions: Iterable[Expr]) -> str:
    return ", ".join(map(render, expressions))


def number_of(number: int, singular: str, plural: str | None = None) -> str:
    """
    >>> number_of(1, "query", "queries"), number_of(1200, "table")
    ('1 query', '1,200 tables')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


__all__ = ["expression_text", "list_text", "number_of", "unquoted"]
