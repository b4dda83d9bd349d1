"""How much memory it takes to answer windows, and how much of the work may be done at once where there is little.

| what | takes |
|---|---|
| rows of sub-windows | 3 times their bytes, and what sketches among them take when they are opened |
| rows that count values | their order by value beside it |
| a group in a window | its place, its states, its answer: so many of these are looked up at once |
| a row of a slot | its place in the order of the slot |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mullion.memory import ANSWERING
from mullion.planner.plan import Grouping
from mullion.slices.subwindow import PartialSubWindows

PAIR, FIELD = 64, 24
"""Bytes of a group in a window, and of each field of its states."""
MEMBER = 32
"""Bytes of a row in the order of a slot."""
VALUE = 100
"""Bytes of a row that counts a value, beside its columns: what it is coded, ordered and looked up by. Of 2 to 6 million
such rows with 26 to 33 bytes each, 140 to 220 bytes of a row were at work, where 3 times its columns are 80 to 100."""
LEAST = 1_000
"""So many pairs are looked up at once, however little room there is."""


def opened_bytes(grouping: Grouping) -> int:
    """Bytes that the states of a row take when they are opened, beside its columns."""
    return sum(state.partial.opened_bytes for state in grouping.states)


def needed(size: int, rows: int, grouping: Grouping) -> int:
    """Bytes that are at work when windows are answered from so many rows of so many bytes."""
    return ANSWERING * size + rows * (opened_bytes(grouping) + (VALUE if grouping.counted else 0))


class HeldBytes(NamedTuple):
    """What sub-windows of a grouping hold."""

    size: int
    rows: int


NOTHING_HELD = HeldBytes(0, 0)


def held_by_grouping(entries: Iterable[PartialSubWindows]) -> dict[str, HeldBytes]:
    """What sub-windows hold, by the name of their grouping. There may be one for every batch of a long window."""
    held: dict[str, HeldBytes] = {}
    for entry in entries:
        size, rows = held.get(entry.grouping, NOTHING_HELD)
        held[entry.grouping] = HeldBytes(size + entry.size, rows + len(entry.table))
    return held


def of_groupings(held: Mapping[str, HeldBytes], groupings: Sequence[Grouping]) -> tuple[int, int]:
    """The bytes of these groupings, and what is at work when they are answered together."""
    own = [(held.get(grouping.name, NOTHING_HELD), grouping) for grouping in groupings]
    return sum(of.size for of, _ in own), sum(needed(*of, grouping) for of, grouping in own)


def pairs_at_once(most: int, room: int | None, grouping: Grouping) -> int:
    """How many groups in windows may be looked up at once, `most` if there is room."""
    fields = sum(len(state.partial.stored) for state in grouping.states)
    return _fitting(most, room, PAIR + FIELD * fields + opened_bytes(grouping))


def members_at_once(most: int, room: int | None) -> int:
    """How many pairs of a row and a slot may be looked at in one call, `most` if there is room."""
    return _fitting(most, room, MEMBER)


def gathered_at_once(most: int, room: int | None, size: int) -> int:
    """How many events of a size may be gathered in one call, `most` if there is room."""
    return _fitting(most, room, size)


def kept_of(most: int, room: int | None, number: int) -> int:
    """Bytes that each of so many may keep to be quicker next time, `most` if there is room."""
    return most if room is None else min(most, room // max(1, number))


def _fitting(most: int, room: int | None, size: int) -> int:
    return most if room is None else min(most, max(LEAST, room // size))
