"""GROUP BY over a relation: the aggregates of the rows that are there, at each instant or from change to change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mullion.algebra.nodes import Aggregated
from mullion.expressions.vector import Vector
from mullion.instants import FOREVER
from mullion.language.types import BIGINT
from mullion.reference.aggregates import aggregate, sort_key
from mullion.reference.expressions import TIME, contribution, one_value, value
from mullion.reference.rows import Row, glued, moments

GroupValues = tuple[Any, ...]
ResultPiece = tuple[tuple[GroupValues, tuple[Any, ...]], int, int]
"""((group, what its row is equal to), from, to)."""


class Contributions:
    """The rows of an input, each with its group and what it gives to the aggregates. `whole`: the rows that there would
    be if the input told all of them."""

    def __init__(self, node: Aggregated, rows: list[Row], whole: list[Row]) -> None:
        self.node, self.whole = node, whole
        self.rows = sorted(rows, key=lambda row: (row.start, row.id))
        columns = [
            {name: Vector.of(type_, [v]) for (name, type_), v in zip(node.input.columns, row.values, strict=True)}
            for row in self.rows
        ]
        for own, row in zip(columns, self.rows, strict=True):
            own[TIME] = Vector.of(BIGINT, [row.start])
        self.group = [one_value([value(key, own) for key, _ in node.keys]) for own in columns]
        self.given = [[contribution(bound, own) for bound in node.aggregates] for own in columns]
        self.values: dict[tuple[GroupValues, tuple[Any, ...]], tuple[Any, ...]] = {}

    def snapshot(self, moment: int, instant: int | None = None) -> list[tuple[GroupValues, tuple[Any, ...]]]:
        """The result over the rows of a moment; `values` then has its rows."""
        there = [i for i, row in enumerate(self.rows) if row.is_held_at(moment)]
        is_complete = len(there) == sum(row.is_held_at(moment) for row in self.whole)
        groups: dict[GroupValues, list[int]] = {} if self.node.keys else {(): []}
        for i in there:
            groups.setdefault(self.group[i], []).append(i)
        result = []
        for group, members in groups.items():
            row = list(group)
            for n, bound in enumerate(self.node.aggregates):
                row.append(aggregate(bound, [given for i in members for given in self.given[i][n]], instant))
            if self.node.is_marked:
                row.append(is_complete)
            what = (group, one_value(row))
            self.values[what] = tuple(row)
            result.append(what)
        return result

    def rows_of(self, pieces: Iterable[ResultPiece], *, stay: bool) -> list[Row]:
        """Rows of pieces; `stay`: a new result does not end the one before (INTERNAL windows)."""
        pieces = list(pieces)
        ranked = sorted({group for (group, _), _, _ in pieces}, key=lambda group: [sort_key(key) for key in group])
        ids = {group: (rank,) for rank, group in enumerate(ranked)}
        return [
            Row(self.values[what], ids[what[0]], start, FOREVER if stay else end, end) for what, start, end in pieces
        ]


def at_instants(
    node: Aggregated, rows: list[Row], whole: list[Row], instants: Sequence[int], *, stay: bool, endless: bool = False
) -> list[Row]:
    """A row for each instant t, over what lives just before it; seen at t and until the next instant. `endless`: events
    are there after the last instant too, so a row that the next one would have as well does not end."""
    groups, pieces = Contributions(node, rows, whole), []
    assert node.slide is not None

    def at(instant: int) -> list[tuple[GroupValues, tuple[Any, ...]]]:
        return groups.snapshot(instant - 1, instant)

    for instant in instants:
        pieces += [(what, instant - 1, instant - 1 + node.slide) for what in at(instant)]
    if endless and instants:
        last = instants[-1]
        stays_on = set(at(last + node.slide))
        pieces = [(what, t, FOREVER if t == last - 1 and what in stays_on else end) for what, t, end in pieces]
    return groups.rows_of(pieces, stay=stay)


def at_changes(node: Aggregated, rows: list[Row], whole: list[Row], first: int, last: int, *, stay: bool) -> list[Row]:
    """A row from each change of a group's values to the next. Without keys there is one from `first` until `last`, over
    nothing too."""
    groups, pieces = Contributions(node, rows, whole), []
    changes = [time for row in (*rows, *whole) for time in (row.start, row.held_until)]
    for start, end in moments([first, last, *changes]):
        if node.keys or first <= start < last or any(row.is_held_at(start) for row in rows):
            pieces += [(what, start, end) for what in groups.snapshot(start)]
    return groups.rows_of(glued(pieces), stay=stay)
