"""What queries with the same predicate have in common."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from mullion.language.query import Expr, Literal
from mullion.language.render import render
from mullion.language.types import BOOLEAN

TRUE = Literal(True, BOOLEAN)

rendered = lru_cache(maxsize=1 << 16)(render)
"""Plans are made anew whenever a query comes or goes, and ask for the same texts again."""


class PredicateSlot(NamedTuple):
    """A different predicate. A tag keeps a query's slot apart from all others."""

    predicate: Expr | None
    tag: str = ""

    @property
    def condition(self) -> Expr | None:
        """What an event must satisfy, or None when it need not satisfy anything and all slots share it."""
        return TRUE if self.predicate is None and self.tag else self.predicate

    @property
    def name(self) -> str:
        """A name that stays the same while queries come and go."""
        text = "" if self.predicate is None else rendered(self.predicate)
        return f"{text} -- {self.tag}" if self.tag else text
