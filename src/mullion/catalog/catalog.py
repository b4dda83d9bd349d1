"""What is registered: streams, tables and standing queries, by name."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.catalog.summaries import StreamStructure, StreamSummary
from mullion.catalog.synopses import StreamSynopsis
from mullion.errors import CheckError, Place, closest

Made = TypeVar("Made")


class Catalog:
    """Names are found whatever their case, and no two differ by case alone.

    Adding, finding and dropping take the same time however many there are: beside the dicts, in the order of
    registration, stand the names as registered by their lower case.
    """

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        self.tables: dict[str, Table] = {}
        self.path_places: dict[str, Place] = {}
        """Where the paths of streams and tables are written, by the names of these."""
        self.queries: dict[str, Relation] = {}
        self.materialized: dict[str, Relation] = {}
        """The queries that others may read in FROM."""
        self.synopses: dict[str, StreamStructure] = {}
        """Synopses and summaries of streams, by their names, of which no two are alike."""
        self._relation_names: dict[str, str] = {}
        self._query_names: dict[str, str] = {}
        self._free = 1
        self._of_queries: dict[Hashable, Any] = {}

    def copy(self) -> Catalog:
        other = Catalog()
        other.streams, other.tables, other.queries = self.streams.copy(), self.tables.copy(), self.queries.copy()
        other._relation_names, other._query_names = self._relation_names.copy(), self._query_names.copy()
        other.materialized, other.path_places = self.materialized.copy(), self.path_places.copy()
        other._free = self._free
        other.synopses = self.synopses.copy()
        return other

    def go_back_to(self, before: Catalog) -> None:
        """Hold again what a copy holds that was made before."""
        vars(self).update(vars(before))

    def add_stream(self, stream: Stream, place: Place | None = None, path_place: Place | None = None) -> None:
        self._check_no_result(stream.name, place)
        _new(stream.name, self._relation_names, STREAM_OR_TABLE, place)
        self.streams[stream.name] = stream
        if path_place is not None:
            self.path_places[stream.name] = path_place

    def stream(self, name: str, place: Place | None = None) -> Stream:
        """The stream of this name."""
        spelt = self._relation_names.get(name.lower(), name)
        if spelt not in self.streams:
            raise CheckError(f"unknown stream '{name}'", place, hint=closest(name, self.streams))
        return self.streams[spelt]

    def add_table(self, table: Table, place: Place | None = None, path_place: Place | None = None) -> None:
        self._check_no_result(table.name, place)
        _new(table.name, self._relation_names, STREAM_OR_TABLE, place)
        self.tables[table.name] = table
        if path_place is not None:
            self.path_places[table.name] = path_place

    def add_synopsis(self, synopsis: StreamStructure, place: Place | None = None) -> None:
        _new(synopsis.name, {name.lower(): name for name in self.synopses}, "synopsis or summary", place)
        self.synopses[synopsis.name] = synopsis

    def drop_synopsis(self, name: str, place: Place | None = None) -> None:
        self._drop_structure(name, StreamSynopsis, "synopsis", place)

    def drop_summary(self, name: str, place: Place | None = None) -> None:
        self._drop_structure(name, StreamSummary, "summary", place)

    def _drop_structure(self, name: str, kind: type, what: str, place: Place | None) -> None:
        own = {known.lower(): known for known, structure in self.synopses.items() if isinstance(structure, kind)}
        if name.lower() not in own:
            raise CheckError(f"unknown {what} '{name}'", place, hint=closest(name, own.values()))
        del self.synopses[own[name.lower()]]

    def synopses_on(self, stream: str) -> list[StreamStructure]:
        return [synopsis for synopsis in self.synopses.values() if synopsis.stream == stream]

    @property
    def summaries(self) -> list[StreamSummary]:
        """Every summary; threads of streams ask for them as well."""
        return [known for known in tuple(self.synopses.values()) if isinstance(known, StreamSummary)]

    def _check_no_result(self, name: str, place: Place | None) -> None:
        """FROM must know which one is meant."""
        if any(name.lower() == read.lower() for read in self.materialized):
            raise CheckError(f"there is already a materialised query '{name}'", place, hint="choose another name")

    def add_query(self, query: Relation, place: Place | None = None) -> None:
        if query.materialized and query.name.lower() in self._relation_names:
            hint = "choose another name: FROM reads both"
            raise CheckError(f"there is already a {STREAM_OR_TABLE} '{query.name}'", place, hint=hint)
        _new(query.name, self._query_names, "query", place)
        self.replace_query(query)

    def replace_query(self, query: Relation) -> None:
        """Put the query in the place of the one of its name, which reads the same streams."""
        self.queries[query.name] = query
        if query.materialized:
            self.materialized[query.name] = query
        self._forget_made()

    def has_query(self, name: str) -> bool:
        """Whether there is a query of this name."""
        return name.lower() in self._query_names

    def query_named(self, name: str, place: Place | None = None) -> Relation:
        """The query of this name."""
        spelt = self._query_names.get(name.lower())
        if spelt is None:
            raise CheckError(f"unknown query '{name}'", place, hint=closest(name, self.queries))
        return self.queries[spelt]

    def drop_query(self, name: str, place: Place | None = None) -> None:
        query = self.query_named(name, place)
        del self._query_names[query.name.lower()], self.queries[query.name]
        self.materialized.pop(query.name, None)
        self._forget_made()

    def made_of_queries(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What is made of the queries, once until one of them comes, goes or changes: every batch asks for it."""
        known = self._of_queries
        if key not in known:
            known[key] = make()
        made: Made = known[key]
        return made

    def _forget_made(self) -> None:
        """Comes after every change of queries: what another thread made of those before is in the dict that goes."""
        self._of_queries = {}

    def free_name(self) -> str:
        """A name that no query has. Numbers below the last one given are not tried again."""
        self._free = max(self._free, len(self.queries) + 1)
        while f"query_{self._free}" in self._query_names:
            self._free += 1
        return f"query_{self._free}"


STREAM_OR_TABLE = "stream or table"
"""They share their names, and stay."""


def _new(name: str, spelt: dict[str, str], what: str, place: Place | None) -> None:
    """Take the name, or refuse one that is taken."""
    if name.lower() in spelt:
        hint = "choose another name" if what == STREAM_OR_TABLE else "choose another name or drop it first"
        raise CheckError(f"there is already a {what} '{name}'", place, hint=hint)
    spelt[name.lower()] = name
