"""What is registered: streams, tables and standing queries, by name."""

from __future__ import annotations

from collections.abc import Iterable

from mullion.catalog.queries import StandingQuery
from mullion.catalog.streams import Stream, Table
from mullion.errors import CheckError, Place, closest


class Catalog:
    """Names are found whatever their case, and no two differ by case alone."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        self.tables: dict[str, Table] = {}
        self.queries: dict[str, StandingQuery] = {}

    def copy(self) -> Catalog:
        other = Catalog()
        other.streams, other.tables, other.queries = dict(self.streams), dict(self.tables), dict(self.queries)
        return other

    def add_stream(self, stream: Stream, place: Place | None = None) -> None:
        self._new(stream.name, [*self.streams, *self.tables], "stream or table", place)
        self.streams[stream.name] = stream

    def add_table(self, table: Table, place: Place | None = None) -> None:
        self._new(table.name, [*self.streams, *self.tables], "stream or table", place)
        self.tables[table.name] = table

    def add_query(self, query: StandingQuery, place: Place | None = None) -> None:
        self._new(query.name, self.queries, "query", place)
        self.queries[query.name] = query

    def replace_query(self, query: StandingQuery) -> None:
        self.queries[query.name] = query

    def query(self, name: str, place: Place | None = None) -> StandingQuery:
        found = _spelt(name, self.queries)
        if found is None:
            raise CheckError(f"unknown query '{name}'", place, hint=closest(name, self.queries))
        return self.queries[found]

    def drop_query(self, name: str, place: Place | None = None) -> None:
        del self.queries[self.query(name, place).name]

    def queries_over(self, stream: str) -> list[StandingQuery]:
        return [query for query in self.queries.values() if query.stream == stream]

    def free_name(self) -> str:
        number = len(self.queries) + 1
        while _spelt(f"query_{number}", self.queries) is not None:
            number += 1
        return f"query_{number}"

    @staticmethod
    def _new(name: str, known: Iterable[str], what: str, place: Place | None) -> None:
        if _spelt(name, known) is not None:
            raise CheckError(f"there is already a {what} '{name}'", place, hint="choose another name or drop it first")


def _spelt(name: str, known: Iterable[str]) -> str | None:
    """The name as it was registered."""
    return name if name in (known := list(known)) else next((k for k in known if k.lower() == name.lower()), None)
