"""Nodes are values: they are compared by what they say, and equal ones become one object."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True, eq=False)
class Value:
    """Equal if of the same class with equal fields. Hashes are remembered, since they walk all that is below. They are
    not pickled, since they differ between processes."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Value) or type(self) is not type(other) or self._hash != other._hash:
            return False
        return all(getattr(self, name) == getattr(other, name) for name in self.__dataclass_fields__)

    @cached_property
    def _hash(self) -> int:
        return hash((type(self).__name__, *(getattr(self, name) for name in self.__dataclass_fields__)))


__all__ = ["Value"]
