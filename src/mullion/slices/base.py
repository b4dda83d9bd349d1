"""A synopsis answers ranges of a sequence of states without touching each of them.

The sequence is one column of sub-windows in the order (group, time), so that any window of any group is one range.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from mullion.aggregates.base import State
from mullion.expressions.arrays import Index


class Synopsis(ABC):
    name: ClassVar[str]
    operations: int
    """How many states were combined so far, building included."""

    @abstractmethod
    def between(self, low: Index, high: Index) -> State:
        """The combination of states low, low + 1, .., high - 1 for each pair; the identity where high <= low."""
