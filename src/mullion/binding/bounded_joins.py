"""Joins of streams with MEMORY: their windows keep so many rows at the most, so pairs may be missing (golab 2.4.3).

    CREATE STREAM a ... MEMORY 1000 ROWS SHED RAREST MARK EXACT

    ... FROM a [RANGE '1 h'], b [RANGE '1 h'] WHERE a.k = b.k          Bounded(Join(a, b), (1000, None), (True, False))

Rows that are found are right. Aggregates are bounds, and say where they are exact (`promised_aggregates`). What would
make wrong rows of a part of the pairs is refused, and so is whoever asks for exact answers and was not told otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mullion.algebra.nodes import Bounded, Join, scans
from mullion.algebra.streams import Stream
from mullion.binding.layouts import Layout
from mullion.binding.parts_of_joins import PREFERENCE, refuse_around, refuse_below
from mullion.binding.promised_aggregates import Part, over_a_part
from mullion.binding.selecting import is_aggregating
from mullion.binding.shed_streams import reads_shed_streams
from mullion.binding.streams_read import has_exists, streams_read
from mullion.errors import CheckError, NotSupported, Place
from mullion.language.query import Named, Query
from mullion.language.sources import leaves

MEMORY = "a MEMORY"


def keeping_all(streams: Mapping[str, Stream]) -> Mapping[str, Stream]:
    """Streams for what is computed at once from events that are there: nothing is kept for it."""
    if all(stream.memory is None for stream in streams.values()):
        return streams
    return {name: replace(stream, memory=None) for name, stream in streams.items()}


def limited(query: Query, streams: Mapping[str, Stream]) -> list[tuple[Named, Stream]]:
    """The sources whose rows a join of the query, or of one within it, may let go."""
    if all(stream.memory is None for stream in streams.values()):
        return []
    read = streams_read(query, streams)
    return [(named, stream) for named, stream, joins in read if joins and stream.memory is not None]


def over_found(query: Query, sources: list[tuple[Named, Stream]], streams: Mapping[str, Stream]) -> Query:
    """The query over the pairs that are found. Raises where it cannot be answered from these."""
    named, stream = sources[0]
    place = named.place or query.place
    if not query.approximate and not all(own.memory is not None and own.memory.marks for _, own in sources):
        hint = "write SELECT APPROX for bounds, or MEMORY ... MARK EXACT in CREATE STREAM"
        message = f"joins may evict rows of '{stream.name}' (MEMORY), and this query asks for exact answers"
        raise CheckError(message, place, hint=hint)
    beside = {"WHEN BEHIND SHED": reads_shed_streams(query, streams), PREFERENCE: query.preference is not None}
    for other, is_there in beside.items():
        if is_there:
            what = f"a join with {other} beside the MEMORY of '{stream.name}'"
            raise NotSupported(what, place, hint="leave one of the two out: what is missing would not be known")
    own = [source for source in leaves(query.source) if isinstance(source, Named)]
    if len(own) < len(leaves(query.source)) or any(source not in own for source, _ in sources) or has_exists(query):
        what = f"this form of query over joins of '{stream.name}', which has a MEMORY"
        raise NotSupported(what, query.place, hint="use aggregates, or rows of joins, without EXISTS and sub-queries")
    refuse_around(query, place, MEMORY)
    query = replace(query, approximate=False)
    if not is_aggregating(query):
        return query
    return over_a_part(query, Part(MEMORY, f"the MEMORY of '{stream.name}'", place))


def bounded(query: Query, layout: Layout, streams: Mapping[str, Stream]) -> Layout:
    """The join of a query within the limits of its streams."""
    join = layout.node
    if not isinstance(join, Join) or layout.of_one_window or query.preference is not None:
        return layout
    read = [[streams[scan.stream] for scan in scans(part) if scan.stream in streams] for part in join.parts]
    limits = [next((stream.memory for stream in own), None) for own in read]
    if not any(limits):
        return layout
    _check_windows(join, query.place)
    most = tuple(None if own is None else own.rows for own in limits)
    rarest = tuple(own is not None and own.rarest for own in limits)
    return replace(layout, node=Bounded(join, most, rarest, is_aggregating(query)))


def _check_windows(join: Join, place: Place | None) -> None:
    refuse_below(join, place, MEMORY)
    for scan in scans(join):
        if scan.window.attribute is not None:
            hint = "use [RANGE ...] over event time, by which rows leave"
            raise CheckError(
                "a window with WATTR cannot be combined with a MEMORY", scan.window.place or place, hint=hint
            )
