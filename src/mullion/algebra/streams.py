"""Streams and tables: a schema, and where the rows come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mullion.errors import CheckError, Place, closest
from mullion.expressions.evaluate import is_event_only, is_kernel_only
from mullion.expressions.typing import resolve
from mullion.expressions.vector import has_arrow_type
from mullion.language.punctuating import Punctuation
from mullion.language.query import Cast, Expr
from mullion.language.render import render
from mullion.language.script import AHEAD_BY_DEFAULT
from mullion.language.shedding import JoinMemory, Shedding
from mullion.language.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, TIMESTAMP_NTZ, Type
from mullion.lazy import cached_property

RESERVED = ("_corrupt_record", "_source", "_block", "_row", "_partition", "_offset", "_metadata")
"""Names of columns that readers add."""
WEIGHT = "#weight"
"""The column of a stream that may shed: how many events that came an event stands for."""
EVENT = "#event"
"""The column of a stream that may shed: a number that tells an event from all others, while not all of them stay."""
HIDDEN = frozenset((WEIGHT, EVENT))
TIMES = (TIMESTAMP, TIMESTAMP_NTZ, DATE)


class _WithColumns:
    """What follows from the columns of a stream or table."""

    columns: tuple[tuple[str, Type], ...]

    @cached_property
    def types(self) -> Mapping[str, Type]:
        return dict(self.columns)

    @cached_property
    def spelling(self) -> Mapping[str, str]:
        """The names of the columns by their lower case."""
        return {name.lower(): name for name, _ in self.columns}


@dataclass(frozen=True)
class Stream(_WithColumns):
    """Events with a schema, an event-time column and a lateness bound (microseconds).

    `format` is empty for a stream that is a DataFrame of the caller's.
    """

    name: str
    columns: tuple[tuple[str, Type], ...]
    time_column: str
    lateness: int = 0
    format: str = ""
    options: tuple[tuple[str, str], ...] = ()
    keep: int | None = None
    """For how long events stay to be asked about (microseconds)."""
    keep_rows: int | None = None
    """How many events stay to be asked about."""
    ahead: int | None = AHEAD_BY_DEFAULT
    """How far past the clock events may be (microseconds); None when they may be anywhere."""
    time: Expr | None = None
    """What the time column is computed by, when it is not one of the source."""
    idle: int | None = None
    """After how long without events event time goes on with the clock (microseconds)."""
    shedding: Shedding | None = None
    """What may be left out while the run is behind; None where it waits."""
    punctuation: Punctuation | None = None
    """Which events are the last ones of their keys."""
    memory: JoinMemory | None = None
    """How many rows of it the windows of joins keep; None where they keep all."""

    def column(self, name: str, place: Place | None) -> str:
        """The column of this name, as the stream spells it. Raises where there is none."""
        spelt = self.spelling.get(name.lower())
        if spelt is None:
            raise CheckError(f"unknown column '{name}' in {self.name}", place, hint=closest(name, self.types))
        return spelt

    @cached_property
    def stored(self) -> Stream:
        """The stream as its source has it, without what is computed."""
        computed = HIDDEN if self.time is None else {*HIDDEN, self.time_column}
        columns = tuple(column for column in self.columns if column[0] not in computed)
        return self if len(columns) == len(self.columns) else replace(self, columns=columns)

    @cached_property
    def shown(self) -> tuple[tuple[str, Type], ...]:
        """The columns that users know of."""
        return tuple(column for column in self.columns if column[0] not in HIDDEN)

    def check(self, place: Place | None = None, time_place: Place | None = None) -> Stream:
        """The stream as it is read: checked, with the columns that are computed. `place` and `time_place`: where it is
        written, and its TIMESTAMP BY."""
        timed = self._timed(place, time_place or place)
        if self.punctuation is not None:
            timed = timed._punctuated(self.punctuation)
        return timed if self.shedding is None else timed._weighed(self.shedding)

    def _punctuated(self, punctuation: Punctuation) -> Stream:
        """The stream with PUNCTUATE over its columns."""
        place = punctuation.when.place or punctuation.place
        columns = tuple(self.column(name, punctuation.place) for name in punctuation.columns)
        for name in columns:
            if not has_arrow_type(self.types[name]):
                raise CheckError(f"PUNCTUATE ON needs plain values, and '{name}' is {self.types[name]}", place)
        when, type_ = resolve(punctuation.when, self.types)
        if type_ != BOOLEAN:
            raise CheckError(f"PUNCTUATE WHEN needs a condition, and {render(when)} is {type_}", place)
        if is_event_only(when):
            raise CheckError("PUNCTUATE WHEN must be a condition that Mullion computes without Spark", place)
        return replace(self, punctuation=replace(punctuation, columns=columns, when=when))

    def _weighed(self, shedding: Shedding) -> Stream:
        """The stream with the weights of its events, and with SHED BY over its columns."""
        by = shedding.by
        if by is not None:
            expr, type_ = resolve(by, self.types)
            if not type_.is_numeric:
                message = f"SHED BY needs a number, and {render(by)} is {type_}"
                raise CheckError(message, by.place or shedding.place, hint="such as CASE WHEN ... THEN 1 ELSE 0 END")
            if is_kernel_only(expr):
                raise CheckError("SHED BY must be an expression that Spark computes", by.place or shedding.place)
            shedding = replace(shedding, by=Cast(expr, DOUBLE))
        return replace(self, shedding=shedding, columns=(*self.columns, (WEIGHT, DOUBLE), (EVENT, BIGINT)))

    def _timed(self, place: Place | None, time_place: Place | None) -> Stream:
        """The stream with its time column spelt as in the schema, or with one more that is computed. Refuses a stream
        whose time column is missing or not a time."""
        by_lower = self.spelling
        if len(by_lower) < len(self.columns):
            raise CheckError(f"two columns of {self.name} have the same name", place)
        for column in by_lower.values():
            if column.lower() in RESERVED or column.startswith("#") or "${" in column:
                raise CheckError(f"a column of {self.name} cannot be called '{column}'", place, hint="rename it")
        if self.time is not None:
            return self._computed(self.time, place)
        name = by_lower.get(self.time_column.lower())
        if name is None:
            hint = closest(self.time_column, by_lower.values())
            raise CheckError(
                f"unknown column '{self.time_column}' in TIMESTAMP BY of {self.name}", time_place, hint=hint
            )
        if self.types[name] not in TIMES:
            message = f"TIMESTAMP BY needs a TIMESTAMP, and column '{name}' of {self.name} is {self.types[name]}"
            raise CheckError(message, time_place, hint=_conversion(name, self.types[name]))
        return replace(self, time_column=name)

    def _computed(self, time: Expr, place: Place | None) -> Stream:
        expr, type_ = resolve(time, self.types)
        if type_ not in TIMES:
            written = render(time)
            message = f"TIMESTAMP BY needs a TIMESTAMP, and {written} is {type_}"
            raise CheckError(message, time.place or place, hint=_conversion(written, type_))
        if is_kernel_only(expr):
            raise CheckError("TIMESTAMP BY must be an expression that Spark computes", time.place or place)
        if self.time_column.lower() in self.spelling:
            message = f"{self.name} has a column '{self.time_column}' already"
            raise CheckError(
                message, time.place or place, hint="give the event time another name: TIMESTAMP BY ... AS t"
            )
        return replace(self, time=expr, columns=(*self.columns, (self.time_column, type_)))


def _conversion(written: str, type_: Type) -> str:
    """How to make a time of something that is none."""
    if type_.is_numeric:
        forms = ", ".join(f"timestamp_{unit}({written})" for unit in ("seconds", "millis", "micros"))
        return f"write TIMESTAMP BY {forms}, as fits"
    if type_ == STRING:
        return f"write TIMESTAMP BY to_timestamp({written}), or to_timestamp({written}, 'dd/MM/yyyy HH:mm:ss')"
    return f"give the schema with {written} TIMESTAMP"


@dataclass(frozen=True)
class Table(_WithColumns):
    """Rows to join to a stream. `format` is 'frame' for rows that the caller handed over."""

    name: str
    columns: tuple[tuple[str, Type], ...]
    format: str
    options: tuple[tuple[str, str], ...] = field(default=())
    retroactive: bool = False
    """Whether a change of its rows also changes what earlier events find."""

    def check(self, place: Place | None = None) -> Table:
        """The table without columns of nested types, which serve no expression; refuses names that differ by case."""
        if len(self.spelling) < len(self.columns):
            raise CheckError(f"two columns of {self.name} have the same name", place)
        return replace(self, columns=tuple((name, type_) for name, type_ in self.columns if has_arrow_type(type_)))
