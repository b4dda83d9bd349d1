"""NOT EXISTS."""

from __future__ import annotations

from typing import ClassVar

from mullion.algebra.nodes.base import OverTwo
from mullion.algebra.nodes.registry import kind
from mullion.language.query import Expr


@kind
class AntiJoin(OverTwo):
    """The rows of the left with no row of the right that has equal keys: NOT EXISTS. A NULL equals nothing.

    EXISTS needs no node of its own: it joins the left with the distinct keys of the right.
    """

    NAME: ClassVar[str] = "Negation"

    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]


__all__ = ["AntiJoin"]
