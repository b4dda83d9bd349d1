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
`Node.kept_as`.
"""

from __future__ import annotations

from enum import IntEnum

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


def pattern_in(window: Window) -> Pattern:
    """How rows leave a window, were it external."""
    if window.rows is not None:
        return Pattern.STRICT
    return Pattern.MONOTONIC if window.is_endless else Pattern.WEAKEST


def life_in(window: Window) -> int | None:
    """How long all rows of a window live, where it promises one time (microseconds)."""
    return None if window.internal else length_of(window)


def length_of(window: Window) -> int | None:
    """How long rows stay in a window, also where it does not promise when they leave."""
    if window.is_endless or window.rows is not None:
        return None
    return 1 if window.now else window.range
