"""A lookup: the rows of a table that an event finds by equality, as columns that the event has from then on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mullion.algebra.streams import Stream
from mullion.language.query import Expr
from mullion.language.render import render
from mullion.language.render_expressions import render_name
from mullion.language.types import BOOLEAN, Type
from mullion.lazy import cached_property

READ = "#read"
"""The batch that an event was read with: it finds what its tables had then. Or, where that is known, which of several
versions of the tables that is."""
MATCHED = "#matched"
LONGEST_NAME = 100


@dataclass(frozen=True)
class Lookup:
    """Rows of a table found by equality. Queries that find them by the same keys share the lookup.

    `keys` are pairs of one type: over the columns of the stream and of earlier lookups, and over the table's own.
    `where` is over the table's own columns; rows for which it is not true are never found. An event that finds
    several rows becomes as many events, one that finds none stays, with NULLs.
    """

    table: str
    keys: tuple[tuple[Expr, Expr], ...]
    where: Expr | None
    columns: tuple[tuple[str, Type], ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.table, self.keys, self.where))

    def __getstate__(self) -> dict[str, Any]:
        """Without the hash, which differs between processes."""
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @cached_property
    def name(self) -> str:
        """The same for equal lookups, whatever aliases the queries use."""
        text = ", ".join(f"{render(event)} = {render(own)}" for event, own in self.keys)
        if self.where is not None:
            text += f" where {render(self.where)}"
        if len(text) > LONGEST_NAME or "${" in text:
            text = f"#{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
        return f"{render_name(self.table)}[{text}]"

    def column(self, name: str) -> str:
        """What a column of the table is called on events."""
        return f"{self.name}.{name}"

    @cached_property
    def matched(self) -> str:
        """The column that says whether a row was found; never NULL."""
        return self.column(MATCHED)

    def types(self) -> dict[str, Type]:
        """The columns that the lookup adds to events."""
        return dict(self._types)

    @cached_property
    def _types(self) -> dict[str, Type]:
        return {self.matched: BOOLEAN, **{self.column(name): type_ for name, type_ in self.columns}}


def event_types(stream: Stream, lookups: Iterable[Lookup]) -> Mapping[str, Type]:
    """The columns of a stream's events after the lookups."""
    added = [lookup.types() for lookup in lookups]
    if not added:
        return stream.types
    return {**stream.types, **{name: type_ for types in added for name, type_ in types.items()}}
