"""What the window of a slot holds, group by group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from mullion.aggregates.base import State
from mullion.expressions.arrays import Index, Times, Whole
from mullion.planner.plan import StateColumn


class CellCounts(NamedTuple):
    """How often values occur in the window of a slot: cells `low` to `high` are those of a group."""

    value: Whole
    """As numbers in their order; of values without such numbers, which are only told apart, any."""
    times: Whole
    """How often each occurs."""
    low: Index
    high: Index


NO_COUNTS: Mapping[str, CellCounts] = {}


class GroupStates(NamedTuple):
    """What the window of a slot holds, group by group."""

    keys: pa.Table
    """The keys of groups, perhaps of more than these."""
    at: Index
    """Where each group stands among the keys."""
    states: dict[StateColumn, State]
    """With values in place of numbers, where these are numbered; see `numbered_values`."""
    codes: Index
    """The number that the window has for each group,"""
    since: Times
    """and since when: another number there is another group."""
    lines: Index
    """The line of each group, by which its values are counted."""
    counts: Mapping[str, CellCounts] = NO_COUNTS
    """By the names of the groupings that count values."""

    def between(self, low: int, high: int) -> GroupStates:
        """Some groups that follow one another."""
        cut = slice(low, high)
        states = {state: tuple(field[cut] for field in fields) for state, fields in self.states.items()}
        return GroupStates(self.keys, self.at[cut], states, self.codes[cut], self.since[cut], self.lines[cut])
