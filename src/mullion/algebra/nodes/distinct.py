"""DISTINCT."""

from __future__ import annotations

from mullion.algebra.nodes.base import OverOne
from mullion.algebra.nodes.registry import kind


@kind
class Distinct(OverOne):
    """Each row once. NULLs are equal to each other, NaNs too, and zeros of either sign."""


__all__ = ["Distinct"]
