"""What EXPLAIN tells of a physical plan, whichever way runs it: to people, to programs, and as a picture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from mullion.planner.drawing import Box

MOST_SHOWN = 20
"""Queries that are told of one by one; the others are only counted."""


class Explained(ABC):
    """The plan of queries that share one, or of one query."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The queries that it serves."""

    @abstractmethod
    def lines(self) -> list[str]: ...

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Among others `operator`, the node at its root, the `queries` that it serves, and the `reasons`: a rule and a
        text each."""

    @abstractmethod
    def box(self) -> Box: ...


def branched(margin: str, texts: Sequence[str]) -> list[str]:
    """Texts as the branches of what stands above them.

    >>> branched("  ", ["a", "b"])
    ['  ├─ a', '  └─ b']
    """
    return [f"{margin}{'└─' if i == len(texts) else '├─'} {text}" for i, text in enumerate(texts, 1)]
