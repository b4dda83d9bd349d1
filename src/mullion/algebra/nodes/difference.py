"""EXCEPT ALL."""

from __future__ import annotations

from mullion.algebra.nodes.base import OverTwo
from mullion.algebra.nodes.registry import kind


@kind
class Difference(OverTwo):
    """EXCEPT ALL: of v1 equal rows on the left and v2 on the right, the v1 - v2 youngest of the left stay (golab
    2.2.2). Rows are equal as in DISTINCT. Both sides have the same columns."""


__all__ = ["Difference"]
