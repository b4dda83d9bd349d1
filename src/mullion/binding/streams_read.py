"""Where a query and the queries within it read streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mullion.algebra.streams import Stream
from mullion.language.query import Derived, Exists, Named, Query, walk
from mullion.language.sources import leaves


def streams_read(query: Query, streams: Mapping[str, Stream]) -> Iterator[tuple[Named, Stream, bool]]:
    """The sources that are streams, with these, and whether they are joined in FROM."""
    by_lower = {name.lower(): stream for name, stream in streams.items()}
    read = [s for s in leaves(query.source) if isinstance(s, Derived) or s.name.lower() in by_lower]
    for source in read:
        if isinstance(source, Derived):
            yield from streams_read(source.query, streams)
        else:
            yield source, by_lower[source.name.lower()], len(read) > 1
    for part in (*query.union, *query.excepted, *_within(query)):
        yield from streams_read(part, streams)


def has_exists(query: Query) -> bool:
    return bool(_within(query))


def _within(query: Query) -> list[Query]:
    return [] if query.where is None else [node.query for node in walk(query.where) if isinstance(node, Exists)]
