"""What a script says: frozen trees of its statements."""

from __future__ import annotations

from dataclasses import dataclass, field

from mullion.errors import Place
from mullion.language.dialect import DAY
from mullion.language.punctuating import Punctuation
from mullion.language.query import Expr, Literal, Query
from mullion.language.shedding import JoinMemory, Shedding
from mullion.language.types import Type

AHEAD_BY_DEFAULT = DAY
"""How far past the clock events of a stream may be that says nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStream:
    """columns is empty when the format carries the schema."""

    name: str
    columns: tuple[tuple[str, Type], ...]
    format: str
    options: tuple[tuple[str, str], ...]
    time_column: str
    time: Expr | None = None
    """What the column is computed by, when it is not one of the source."""
    lateness: int = 0
    ahead: int | None = AHEAD_BY_DEFAULT
    """How far past the clock events may be (microseconds); None when they may be anywhere."""
    keep: int | None = None
    """For how long events stay to be asked about (microseconds)."""
    keep_rows: int | None = None
    """How many events stay to be asked about."""
    idle: int | None = None
    """After how long without events event time goes on with the clock (microseconds)."""
    shedding: Shedding | None = None
    """What may be left out when the run is behind; None when it waits."""
    punctuation: Punctuation | None = None
    """Which events are the last ones of their keys."""
    memory: JoinMemory | None = None
    """How many rows of it the windows of joins keep; None when they keep all."""
    format_place: Place | None = field(default=None, compare=False, repr=False)
    option_places: tuple[Place, ...] = field(default=(), compare=False, repr=False)
    time_place: Place | None = field(default=None, compare=False, repr=False)
    name_place: Place | None = field(default=None, compare=False, repr=False)
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    name: str
    columns: tuple[tuple[str, Type], ...]
    format: str
    options: tuple[tuple[str, str], ...]
    retroactive: bool = False
    format_place: Place | None = field(default=None, compare=False, repr=False)
    option_places: tuple[Place, ...] = field(default=(), compare=False, repr=False)
    name_place: Place | None = field(default=None, compare=False, repr=False)
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateQuery:
    query: Query
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSynopsis:
    """A structure over the newest `rows` events of a stream that answers one-time questions about a column quickly.

    | kind | fields |
    |---|---|
    | timegram | buckets, or boundaries between them |
    | ordered_sharing | |
    """

    name: str
    stream: str
    column: str
    kind: str
    rows: int
    buckets: int | None = None
    boundaries: tuple[Literal, ...] = ()
    stream_place: Place | None = field(default=None, compare=False, repr=False)
    column_place: Place | None = field(default=None, compare=False, repr=False)
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSummary:
    """How often the values of a column came: in zones of time that are `rate` times longer in each of `depth`
    granularities, from the newest, which is `granularity` long. What is None is chosen."""

    name: str
    stream: str
    column: str
    granularity: int
    rate: int
    depth: int
    kind: str | None = None
    options: tuple[tuple[str, int], ...] = ()
    """Those of the kind."""
    drift: float | None = None
    """A zone ends where the shares of values have changed by more than this."""
    longest: int | None = None
    """How long a zone of the newest granularity is at most (microseconds)."""
    memory: int | None = None
    """Bytes that it takes at most."""
    stream_place: Place | None = field(default=None, compare=False, repr=False)
    column_place: Place | None = field(default=None, compare=False, repr=False)
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    kind: str
    """What is dropped: one of DROPPED."""
    name: str
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """EXPLAIN of one query, or of the shared plan of all when name is None."""

    name: str | None = None
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A SELECT without CREATE QUERY: asked once, answered now."""

    query: Query
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


DROPPED = ("query", "synopsis", "summary")

Statement = CreateStream | CreateTable | CreateQuery | CreateSynopsis | CreateSummary | Drop | Explain | Ask
