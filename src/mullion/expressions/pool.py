"""Equal values become one object, for as long as that object is referenced elsewhere."""

from __future__ import annotations

from typing import Generic, TypeVar
from weakref import ref

T = TypeVar("T")


class Pool(Generic[T]):
    """References to its objects are weak. A WeakKeyDictionary would not do: its values would keep the keys alive."""

    def __init__(self) -> None:
        self._known: dict[ref[T], ref[T]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, wanted: T) -> T | None:
        """The object that stands for all equal to this one, if there is one."""
        known = self._known.get(ref(wanted))
        return None if known is None else known()

    def add(self, new: T) -> T:
        """The object stands for all equal to it from now on."""
        reference = ref(new, self._forget)
        self._known[reference] = reference
        return new

    def intern(self, wanted: T) -> T:
        """The object that stands for all equal to this one: this one, if it is the first."""
        known = self.find(wanted)
        return self.add(wanted) if known is None else known

    def _forget(self, gone: ref[T]) -> None:
        self._known.pop(gone, None)
