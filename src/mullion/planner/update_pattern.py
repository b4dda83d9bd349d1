"""How the results of a plan leave: the update pattern of every edge (golab 3.2.1, 3.5.1).

| pattern | results leave |
|---|---|
| monotonic | never |
| weakest | in the order in which they came, each after the same time: first in, first out |
| weak | at times that are known when they come, in any order |
| strict | at times that depend on what comes later: negative tuples must tell |

A leaf is weakest when its window is one of time, and strict when it counts rows. Rules 1 to 4 of 3.5.1 carry the
patterns upwards; the fifth case, group-by, is strict like everything whose results later input may replace.
"""

from __future__ import annotations

from enum import IntEnum

from mullion.catalog.algebra import (
    Aggregated,
    Difference,
    Distinct,
    Filter,
    Join,
    LookedUp,
    Negation,
    Node,
    Project,
    Rewindowed,
    Scan,
    Union,
)
from mullion.language.query import Window


class Pattern(IntEnum):
    """Ordered by how hard they are to keep up with."""

    MONOTONIC = 0
    WEAKEST = 1
    WEAK = 2
    STRICT = 3

    @property
    def label(self) -> str:
        return self.name.lower()


def pattern_of(node: Node) -> Pattern:
    """The update pattern of the edge above a node."""
    match node:
        case Scan(window=window) | Rewindowed(window=window):
            return _of_window(window)
        case Filter(input=below) | Project(input=below) | LookedUp(input=below, retroactive=False):
            return pattern_of(below)
        case Union(parts=parts):
            return max(map(pattern_of, parts))
        case Join(parts=parts):
            patterns = [pattern_of(part) for part in parts]
            if max(patterns) is Pattern.STRICT:
                return Pattern.STRICT
            external = [pattern for pattern, part in zip(patterns, parts, strict=True) if not is_internal(part)]
            return Pattern.WEAK if len(external) > 1 else max(external, default=Pattern.MONOTONIC)
        case Distinct(input=below):
            return max(Pattern.WEAK, pattern_of(below))
        case Negation() | Difference() | Aggregated() | LookedUp():
            return Pattern.STRICT


def is_internal(node: Node) -> bool:
    """Whether what the node gives is append-only because its windows are INTERNAL (golab 3.3.2)."""
    match node:
        case Scan(window=window):
            return window.internal
        case Filter(input=below) | Project(input=below) | LookedUp(input=below):
            return is_internal(below)
        case Join(parts=parts) | Union(parts=parts):
            return all(map(is_internal, parts))
        case _:
            return False


def _of_window(window: Window) -> Pattern:
    if window.rows is not None:
        return Pattern.STRICT
    return Pattern.MONOTONIC if window.is_endless or window.internal else Pattern.WEAKEST


__all__ = ["Pattern", "is_internal", "pattern_of"]
