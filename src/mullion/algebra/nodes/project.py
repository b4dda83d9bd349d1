"""Projection."""

from __future__ import annotations

from mullion.algebra.nodes.base import Columns, OverOne
from mullion.algebra.nodes.registry import kind
from mullion.language.query import Expr
from mullion.language.types import Type


@kind
class Project(OverOne):
    """Other columns, computed row by row; duplicates stay."""

    items: tuple[tuple[str, Expr, Type], ...]

    @property
    def columns(self) -> Columns:
        return tuple((name, type_) for name, _, type_ in self.items)


__all__ = ["Project"]
