"""How the results of a plan leave: the update pattern of every edge (golab 3.2.1, 3.5.1).

| pattern | results leave |
|---|---|
| monotonic | never |
| weakest | in the order in which they came, each after the same time: first in, first out |
| weak | at times that are known when they come, in any order |
| strict | at times that depend on what comes later: negative tuples must tell |

Five rules carry the patterns from the leaves upwards:

| | of | the edge above it is |
|---|---|---|
| leaf | a window | weakest if of time, strict if it counts rows, monotonic if nothing leaves it |
| 1 | selection, projection, a table that is not retroactive | as the input |
| 2 | merge-union | as the hardest input |
| 3 | join, distinct | strict if an input is, else weak |
| 4 | negation, difference, grouping, a retroactive table | strict |

Where the paper's definitions ask for more than its rules, the definitions win, since state is chosen by the pattern:

- A union of windows of different lengths is weak: its rows don't leave in the order in which they came.
- A join of which one part only is external is weak, where 3.3.2 has weakest: a result comes with its latest part and
  leaves with its external one. With S1 [RANGE 10] external, (5, 10) comes at 10 and leaves at 15, and (9, 9) comes at
  9 and leaves at 19: last in, first out.
- A join or distinct of what never leaves is monotonic.

An INTERNAL window is monotonic for what is above it, but its own state is kept as if it were external (3.3.2):
`kept_as`.
"""

from __future__ import annotations

from enum import IntEnum

from mullion.algebra.nodes import (
    Aggregated,
    AntiJoin,
    Difference,
    Distinct,
    Filter,
    Join,
    JoinView,
    Node,
    Project,
    ResultWindow,
    Scan,
    TableLookup,
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
        case Scan(window=window) | ResultWindow(window=window):
            return Pattern.MONOTONIC if window.internal else _of_window(window)
        case Filter(input=below) | Project(input=below) | TableLookup(input=below, retroactive=False):
            return pattern_of(below)
        case Union(parts=parts):
            hardest = max(map(pattern_of, parts))
            alike = len({life_of(part) for part in parts}) == 1
            return hardest if alike else max(hardest, Pattern.WEAK)
        case Join(parts=parts):
            hardest = max(map(pattern_of, parts))
            return hardest if hardest is Pattern.MONOTONIC else max(hardest, Pattern.WEAK)
        case JoinView():
            return Pattern.WEAK
        case Distinct(input=below):
            under = pattern_of(below)
            return under if under is Pattern.MONOTONIC else max(under, Pattern.WEAK)
        case AntiJoin() | Difference() | Aggregated() | TableLookup():
            return Pattern.STRICT
        case _:
            raise AssertionError(node.kind_name())


def kept_as(node: Node) -> Pattern:
    """The pattern by which an operator above keeps the rows of the node: INTERNAL windows as if they were external."""
    match node:
        case Scan(window=window):
            return _of_window(window)
        case Filter(input=below) | Project(input=below) | TableLookup(input=below, retroactive=False):
            return kept_as(below)
        case Join(parts=parts) if is_internal(node):
            return max(Pattern.WEAK, *map(kept_as, parts))
        case Union(parts=parts) if is_internal(node):
            return max(Pattern.WEAK if len(parts) > 1 else Pattern.WEAKEST, *map(kept_as, parts))
        case _:
            return pattern_of(node)


def life_of(node: Node) -> int | None:
    """How long all rows live, if that is one time (microseconds); None where it differs or is not known."""
    match node:
        case Scan(window=window) | ResultWindow(window=window):
            if window.internal or window.rows is not None:
                return None
            return 1 if window.now else window.range
        case Filter(input=below) | Project(input=below) | TableLookup(input=below, retroactive=False):
            return life_of(below)
        case Union(parts=parts):
            lives = {life_of(part) for part in parts}
            return lives.pop() if len(lives) == 1 else None
        case _:
            return None


def is_internal(node: Node) -> bool:
    """Whether what the node gives is append-only because its windows are INTERNAL (golab 3.3.2)."""
    match node:
        case Scan(window=window):
            return window.internal
        case Filter(input=below) | Project(input=below) | TableLookup(input=below, retroactive=False):
            return is_internal(below)
        case Join(parts=parts) | Union(parts=parts):
            return all(map(is_internal, parts))
        case _:
            return False


def _of_window(window: Window) -> Pattern:
    if window.rows is not None:
        return Pattern.STRICT
    return Pattern.MONOTONIC if window.is_endless else Pattern.WEAKEST


__all__ = ["Pattern", "is_internal", "kept_as", "life_of", "pattern_of"]
