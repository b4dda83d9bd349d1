"""What queries with the same predicate have in common."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from mullion.language.query import Expr, Literal
from mullion.language.render import render
from mullion.language.types import BOOLEAN
from mullion.lazy import cached_property

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


class Slots(tuple[PredicateSlot, ...]):
    """Different slots, those with a condition first, and what plans ask of all of them: found once, as plans are
    improved rule by rule."""

    @staticmethod
    def of(slots: Iterable[PredicateSlot]) -> Slots:
        return Slots(sorted(slots, key=lambda slot: slot.condition is None))

    def __reduce__(self) -> tuple[type[Slots], tuple[tuple[PredicateSlot, ...]]]:
        return Slots, (tuple(self),)

    @cached_property
    def predicates(self) -> tuple[Expr, ...]:
        """The conditions."""
        return tuple([condition for slot in self if (condition := slot.condition) is not None])

    @cached_property
    def bits(self) -> tuple[PredicateSlot, ...]:
        """Those with a condition."""
        return tuple(self[: len(self.predicates)])

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple([slot.name for slot in self])

    @cached_property
    def numbers(self) -> dict[PredicateSlot, int]:
        return {slot: number for number, slot in enumerate(self)}


NO_SLOTS = Slots()
