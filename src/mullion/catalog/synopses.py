"""Synopses that users create, checked against their stream."""

from __future__ import annotations

from dataclasses import dataclass

from mullion.algebra.streams import Stream
from mullion.errors import CheckError, Place
from mullion.language.script import CreateSynopsis


def check_whole(stream: Stream, what: str, place: Place | None) -> None:
    """Refuse a structure that is to see every event, over a stream that may lose some."""
    if stream.shedding is not None and stream.shedding.drops_events:
        hint = "use SELECT APPROX, or WHEN BEHIND WAIT in CREATE STREAM"
        raise CheckError(f"{what} cannot cover '{stream.name}', which may shed events", place, hint=hint)


@dataclass(frozen=True)
class StreamSynopsis:
    """A structure over the last `rows` events of a stream, for one column."""

    name: str
    stream: str
    column: str
    kind: str
    rows: int
    buckets: int | None = None
    boundaries: tuple[float, ...] = ()


def checked_synopsis(create: CreateSynopsis, stream: Stream) -> StreamSynopsis:
    check_whole(stream, "a synopsis", create.place)
    column = stream.column(create.column, create.column_place or create.place)
    type_ = stream.types[column]
    if not type_.is_fractional and type_.kind not in ("tinyint", "smallint", "int"):
        hint = "use a column of DOUBLE, FLOAT, INT, SMALLINT or TINYINT"
        raise CheckError(f"a synopsis cannot hold '{column}', which is {type_}", create.place, hint=hint)
    boundaries = tuple(float(literal.value) for literal in create.boundaries)
    return StreamSynopsis(create.name, stream.name, column, create.kind, create.rows, create.buckets, boundaries)
