"""A window over the results of a query."""

from __future__ import annotations

from typing import ClassVar

from mullion.algebra.nodes.base import OverOne
from mullion.algebra.nodes.registry import kind
from mullion.language.query import Window


@kind
class ResultWindow(OverOne):
    """A window over the results of a query: its new results are the events of a stream (golab 3.3.3)."""

    NAME: ClassVar[str] = "Rewindowed"

    window: Window


__all__ = ["ResultWindow"]
