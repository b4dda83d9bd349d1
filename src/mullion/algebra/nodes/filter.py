"""Selection."""

from __future__ import annotations

from mullion.algebra.nodes.base import OverOne
from mullion.algebra.nodes.registry import kind
from mullion.language.query import Expr


@kind
class Filter(OverOne):
    """The rows for which the predicate is true."""

    predicate: Expr


__all__ = ["Filter"]
