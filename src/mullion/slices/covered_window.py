"""What the window of a slot holds, from the windows of slots that cover it (golab 8.3.3, rules CS6 and CS7).

WHERE proto = 6               a 5   b 2          its groups, as the last window of the slot has them
WHERE proto = 17              a 1         c 4
WHERE proto = 6 OR 17         a 6   b 2   c 4    group by group; none of its rows is looked at
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from mullion.aggregates import Invertible
from mullion.aggregates.base import State
from mullion.expressions.arrays import Codes, Index, grown
from mullion.expressions.coding.code_table import CodeTable
from mullion.expressions.vector import arrow_type
from mullion.planner.plan import EVENTS, Grouping, StateColumn
from mullion.slices.group_states import GroupStates

SPARE = 1024
"""Groups that nobody has any more, beside as many as there are, before all are numbered anew."""

NO_GROUP = np.zeros(1, np.intp)


class CoveredWindow:
    """Combines what windows of other slots hold at one instant; those that are subtracted come last.

    Requires: partials whose states may be combined wherever they were loaded; with some to subtract, an inverse.
    Time: O(groups) of these windows, and a look-up for each group that is new in one of them.
    """

    def __init__(self, grouping: Grouping, added: int, parts: int) -> None:
        self._added = added
        self._schema = pa.schema([(str(i), arrow_type(type_)) for i, type_ in enumerate(grouping.key_types)])
        self._parts = parts
        self.operations = 0
        self._begin()

    def _begin(self) -> None:
        """Groups are numbered anew."""
        self._numbers = CodeTable(self._schema)
        nothing = np.empty(0, np.int64)
        self._known: list[tuple[Index, Codes]] = [(nothing, nothing)] * self._parts
        """Of each line of a part, since when it stands for its group, and the number of that."""

    def groups(self, parts: Sequence[GroupStates], states: Iterable[StateColumn]) -> GroupStates:
        """What the covered window holds of these states."""
        if len(self._numbers) > 2 * sum(len(part.codes) for part in parts) + SPARE:
            self._begin()
        has_keys = bool(self._schema.names)
        at = [self._numbered(i, part) if has_keys else NO_GROUP for i, part in enumerate(parts)]
        room = self._numbers.room if has_keys else 1
        lines: Index = np.flatnonzero(self._present(parts, at, room)) if has_keys else NO_GROUP
        combined = {state: self._combined(state, parts, at, room) for state in states}
        held = {state: tuple(field[lines] for field in fields) for state, fields in combined.items()}
        keys = self._numbers.rows(lines) if has_keys else self._schema.empty_table()
        return GroupStates(keys, np.arange(len(lines)), held, lines, np.zeros(len(lines), np.int64), lines)

    def _numbered(self, at: int, part: GroupStates) -> Codes:
        """The groups of a part by numbers that all parts have in common."""
        since, codes = self._known[at]
        most = int(part.codes.max(initial=-1)) + 1
        since, codes = grown(since, most, -1), grown(codes, most, -1)
        new = np.flatnonzero(since[part.codes] != part.since)
        if len(new):
            lines = part.codes[new]
            codes[lines] = self._numbers.codes(part.keys.take(pa.array(part.at[new])))
            since[lines] = part.since[new]
        self._known[at] = since, codes
        return codes[part.codes]

    def _present(self, parts: Sequence[GroupStates], at: Sequence[Codes], room: int) -> Index:
        """What is not 0 for groups that have an event."""
        if self._added < len(parts):
            return self._combined(EVENTS, parts, at, room)[0]
        present = np.zeros(room, np.intp)
        for codes in at:
            present[codes] = 1
        return present

    def _combined(self, state: StateColumn, parts: Sequence[GroupStates], at: Sequence[Codes], room: int) -> State:
        partial = state.partial
        total = partial.identity(room)
        for i, (part, codes) in enumerate(zip(parts, at, strict=True)):
            before, own = tuple(field[codes] for field in total), part.states[state]
            if i < self._added:
                after = partial.combine(before, own)
            else:
                assert isinstance(partial, Invertible)
                after = partial.invert(before, own)
            for field, values in zip(total, after, strict=True):
                field[codes] = values
            self.operations += len(codes)
        return total
