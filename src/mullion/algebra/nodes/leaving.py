"""How the rows of a relation leave (golab 3.2.1, 3.5.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Window


@dataclass(frozen=True, eq=False)
class Leaving(ABC):
    """What a kind of node says of how its rows end."""

    @property
    @abstractmethod
    def pattern(self) -> Pattern:
        """The update pattern of the edge above the node."""

    @property
    def kept_as(self) -> Pattern:
        """The pattern by which an operator above keeps the node's rows: INTERNAL windows as if they were external."""
        return self.pattern

    @property
    def own_window(self) -> Window | None:
        """The window that the node is, of a stream or of results; None of other kinds."""
        return None

    @property
    def life(self) -> int | None:
        """How long all rows live, if that is one time (microseconds); None where it differs or is not known."""
        return None

    @property
    def is_internal(self) -> bool:
        """Whether what it gives is append-only because its windows are INTERNAL (golab 3.3.2)."""
        return False

    @property
    def releases(self) -> bool:
        """Whether windows may hold its rows for less than these live, since some of the windows are INTERNAL."""
        return False
