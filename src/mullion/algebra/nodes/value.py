"""Nodes are values: they are compared by what they say, and equal ones become one object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

Memoized = TypeVar("Memoized")


@dataclass(frozen=True, eq=False)
class Value:
    """Equal if of the same class with equal fields. Hashes are remembered, since they walk all that is below. They are
    not pickled, since they differ between processes."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __hash__(self) -> int:
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = hash((type(self).__name__, *(getattr(self, name) for name in self.__dataclass_fields__)))
            self.__dict__["_hash"] = known
        return known

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Value) or type(self) is not type(other) or hash(self) != hash(other):
            return False
        return all(getattr(self, name) == getattr(other, name) for name in self.__dataclass_fields__)

    def memoized(self, make: Callable[[Self], Memoized]) -> Memoized:
        """What a function makes of this object, once and kept with it, without comparing it with equal ones."""
        try:
            made: Memoized = self.__dict__["_once"][make]
        except KeyError:
            made = self.__dict__.setdefault("_once", {})[make] = make(self)
        return made
