"""AntiJoin and difference: the rows of the left that the right leaves there, moment by moment (golab 2.2.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mullion.reference.expressions import equal, one_value
from mullion.reference.rows import Row, glued, moments

RowKeys = Sequence[tuple[Any, ...]]
"""The keys of each row of a side."""


def negation(left: list[Row], right: list[Row], left_keys: RowKeys, right_keys: RowKeys) -> list[Row]:
    """NOT EXISTS: while no row of the right has equal keys."""

    def snapshot(ours: list[int], theirs: list[int]) -> list[int]:
        return [i for i in ours if not any(all(map(equal, left_keys[i], right_keys[j])) for j in theirs)]

    return _moment_by_moment(left, right, snapshot)


def difference(left: list[Row], right: list[Row]) -> list[Row]:
    """EXCEPT ALL: of v1 equal rows and v2 on the right, the v1 - v2 youngest."""
    our_values = [one_value(row.values) for row in left]
    their_values = [one_value(row.values) for row in right]

    def snapshot(ours: list[int], theirs: list[int]) -> list[int]:
        remaining = []
        for value in {our_values[i] for i in ours}:
            equal_rows = [i for i in ours if our_values[i] == value]
            oldest_first = sorted(equal_rows, key=lambda i: (left[i].start, left[i].id))
            remaining += oldest_first[sum(their_values[j] == value for j in theirs) :]
        return remaining

    return _moment_by_moment(left, right, snapshot)


def _moment_by_moment(
    left: list[Row], right: list[Row], snapshot: Callable[[list[int], list[int]], list[int]]
) -> list[Row]:
    """The rows of the left that `snapshot` keeps, given the numbers of those that live on either side."""
    pieces = []
    for start, end in moments(time for row in (*left, *right) for time in (row.start, row.end)):
        ours = [i for i, row in enumerate(left) if row.lives_at(start)]
        theirs = [j for j, row in enumerate(right) if row.lives_at(start)]
        pieces += [(i, start, end) for i in snapshot(ours, theirs)]
    return [replace(left[i], start=start, end=end, held_until=end) for i, start, end in glued(pieces)]
