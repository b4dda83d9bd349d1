"""Pieces of the texts of nodes."""

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
