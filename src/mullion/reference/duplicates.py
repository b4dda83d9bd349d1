"""Duplicate elimination: which of several equal rows stands for their value, and when (golab 3.5.2).

Where the ends of rows are known (delta*): the first row stands until it ends. Then the youngest of the others, the
one that stays longest, takes over until it ends in turn; all between are never needed.

    window of 8     |---------------|            comes at 0: stands for the value until 8
                        |---------------|        comes at 2: never
                                |---|-----------|   comes at 6: takes over at 8, until 14

Where they are not known (counting): the value is there from the first to the last moment that any row of it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mullion.reference.expressions import one_value
from mullion.reference.rows import Row, glued, moments


def distinct(rows: list[Row], *, strict: bool) -> list[Row]:
    """`strict`: the rows' ends are not known when they come."""
    by_value: dict[tuple[object, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.start, row.id)):
        by_value.setdefault(one_value(row.values), []).append(row)
    stand = _counted if strict else _handed_over
    return [row for equal_rows in by_value.values() for row in stand(equal_rows)]


def _handed_over(waiting: list[Row]) -> Iterable[Row]:
    """`waiting` in the order in which they come."""
    until = None
    while True:
        others = [row for row in waiting if until is not None and row.start < until < row.end]
        if until is not None and others:
            youngest = max(others, key=lambda row: (row.end, row.start, row.id))
            yield replace(youngest, start=until, held_until=youngest.end)
            until = youngest.end
            continue
        later = [row for row in waiting if until is None or row.start >= until]
        if not later:
            return
        yield replace(later[0], held_until=later[0].end)
        until = later[0].end


def _counted(rows: list[Row]) -> Iterable[Row]:
    there = [
        ("there", start, end)
        for start, end in moments(time for row in rows for time in (row.start, row.end))
        if any(row.lives_at(start) for row in rows)
    ]
    for _, start, end in glued(there):
        first = next(row for row in rows if row.lives_at(start))
        yield replace(first, start=start, end=end, held_until=end)
