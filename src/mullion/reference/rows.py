"""Rows that come and go: what a relation of a standing query is made of (golab 2.3.2)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from mullion.instants import FOREVER

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Row:
    """A row of a relation, which is there from `start` until just before `end`, in microseconds of event time."""

    values: tuple[Any, ...]
    id: tuple[int, ...]
    """Tells rows apart, also those of equal values: an event's place in its stream, a join's those of its parts."""
    start: int
    end: int
    held_until: int
    """Until when the windows hold what it is made of. Before `end` only where windows are INTERNAL: their results
    stay, but what has left the windows meets no new rows."""

    def lives_at(self, moment: int) -> bool:
        return self.start <= moment < self.end

    def is_held_at(self, moment: int) -> bool:
        return self.start <= moment < self.held_until


def moments(changes: Iterable[int]) -> list[tuple[int, int]]:
    """The times between changes, in which nothing changes: from each change to the next.

    >>> moments([5, 1, 3, 1])[:2]
    [(1, 3), (3, 5)]
    """
    known = sorted({change for change in changes if change < FOREVER})
    return list(pairwise([*known, FOREVER]))


def glued(pieces: Iterable[tuple[K, int, int]]) -> list[tuple[K, int, int]]:
    """Pieces (what, from, to), in the order of time, where pieces of the same thing that touch become one.

    >>> glued([("x", 0, 3), ("y", 0, 3), ("x", 3, 5), ("x", 7, 9)])
    [('x', 0, 5), ('y', 0, 3), ('x', 7, 9)]
    """
    whole: list[tuple[K, int, int]] = []
    last: dict[K, int] = {}
    for what, start, end in pieces:
        at = last.get(what)
        if at is not None and whole[at][2] == start:
            whole[at] = (what, whole[at][1], end)
        else:
            last[what] = len(whole)
            whole.append((what, start, end))
    return whole
