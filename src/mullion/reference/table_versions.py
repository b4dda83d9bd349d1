"""Rows with what they find in a table that changes (golab 3.3.1).

Not retroactive: a row finds what the table has when the row comes, and keeps it (Definition 3.1). Retroactive: it has
what the table has at every moment; what two versions both have goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from mullion.algebra.nodes import TableLookup
from mullion.expressions.vector import Vector
from mullion.instants import FOREVER
from mullion.reference.answer import Rows
from mullion.reference.expressions import one_value
from mullion.reference.lookups import TableRows
from mullion.reference.rows import Row, glued

Values = tuple[Any, ...]


def looked_up(node: TableLookup, rows: list[Row], versions: Sequence[tuple[int, Rows]]) -> list[Row]:
    """`versions`: what the table is from each time on; the times ascend, from ever before."""
    tables = [(since, TableRows(node.lookup, version)) for since, version in versions]
    return [
        joined
        for row in rows
        for joined in (_followed(node, row, tables) if node.retroactive else _once(node, row, tables))
    ]


def _once(node: TableLookup, row: Row, tables: Sequence[tuple[int, TableRows]]) -> Iterator[Row]:
    current = [table for since, table in tables if since <= row.start][-1]
    for number, values in enumerate(_joined(node, row, current)):
        yield replace(row, values=values, id=(*row.id, number))


def _followed(node: TableLookup, row: Row, tables: Sequence[tuple[int, TableRows]]) -> Iterator[Row]:
    pieces, known = [], {}
    for (since, table), until in zip(tables, [*(since for since, _ in tables[1:]), FOREVER], strict=True):
        start, end = max(row.start, since), min(row.end, until)
        if start < end:
            for what, values in _numbered(_joined(node, row, table)):
                known[what] = values
                pieces.append((what, start, end))
    for number, (what, start, end) in enumerate(glued(pieces)):
        yield replace(
            row, values=known[what], id=(*row.id, number), start=start, end=end, held_until=min(row.held_until, end)
        )


def _joined(node: TableLookup, row: Row, table: TableRows) -> list[Values]:
    columns = {name: Vector.of(type_, [v]) for (name, type_), v in zip(node.input.columns, row.values, strict=True)}
    return [tuple(joined[name].to_list()[0] for name, _ in node.columns) for joined in table.of(columns)]


def _numbered(rows: list[Values]) -> Iterator[tuple[tuple[Values, int], Values]]:
    """Each with what tells it from others that are found: its values, and its number among equal ones."""
    count: dict[Values, int] = {}
    for values in rows:
        same = one_value(values)
        count[same] = count.get(same, 0) + 1
        yield (same, count[same]), values
