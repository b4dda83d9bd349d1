"""The rows of a table that a lookup may find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mullion.algebra.lookups import Lookup
from mullion.expressions.vector import Vector
from mullion.language.types import BOOLEAN
from mullion.reference.expressions import equal, passes, value


class TableRows:
    """The rows of a table that pass the lookup's condition, each with its keys and the columns that it gives."""

    def __init__(self, lookup: Lookup, rows: Sequence[Mapping[str, Any]]) -> None:
        self.lookup = lookup
        types = lookup.types()
        self.missing = {name: Vector.of(type_, [None]) for name, type_ in types.items()}
        self.missing[lookup.matched] = Vector.of(BOOLEAN, [False])
        self.rows: list[tuple[list[Any], dict[str, Vector]]] = []
        for row in rows:
            own = {name: Vector.of(type_, [row[name]]) for name, type_ in lookup.columns}
            if passes(lookup.where, own):
                given = {lookup.column(name): vector for name, vector in own.items()}
                given[lookup.matched] = Vector.of(BOOLEAN, [True])
                self.rows.append(([value(key, own) for _, key in lookup.keys], given))

    def of(self, columns: Mapping[str, Vector]) -> list[dict[str, Vector]]:
        """What a row becomes: once for every row of the table that it finds, or once without one."""
        keys = [value(key, columns) for key, _ in self.lookup.keys]
        matches = [given for own, given in self.rows if all(map(equal, keys, own))]
        return [{**columns, **given} for given in matches or [self.missing]]
