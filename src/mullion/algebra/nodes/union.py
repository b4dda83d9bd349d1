"""UNION ALL."""

from __future__ import annotations

from mullion.algebra.nodes.base import Columns, OverMany
from mullion.algebra.nodes.registry import kind


@kind
class Union(OverMany):
    """UNION ALL. All parts have the same columns."""

    @property
    def columns(self) -> Columns:
        return self.parts[0].columns


__all__ = ["Union"]
