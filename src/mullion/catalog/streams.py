"""Streams and tables: a schema, and where the rows come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from mullion.errors import CheckError, Place, closest
from mullion.language.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, Type


@dataclass(frozen=True)
class Stream:
    """Events with a schema, an event-time column and a lateness bound (microseconds).

    `format` is empty for a stream that is a DataFrame of the caller's.
    """

    name: str
    columns: tuple[tuple[str, Type], ...]
    time_column: str
    lateness: int = 0
    format: str = ""
    options: tuple[tuple[str, str], ...] = ()

    @cached_property
    def types(self) -> Mapping[str, Type]:
        return dict(self.columns)

    @cached_property
    def spelling(self) -> Mapping[str, str]:
        """The names of the columns by their lower case."""
        return {name.lower(): name for name, _ in self.columns}

    def check(self, place: Place | None = None) -> Stream:
        """The stream with its time column spelt as in the schema; refuses one that cannot tell the time."""
        by_lower = {name.lower(): name for name, _ in self.columns}
        if len(by_lower) < len(self.columns):
            raise CheckError(f"two columns of {self.name} have the same name", place)
        name = by_lower.get(self.time_column.lower())
        if name is None:
            hint = closest(self.time_column, by_lower.values())
            raise CheckError(f"unknown column '{self.time_column}' in TIMESTAMP BY of {self.name}", place, hint=hint)
        if self.types[name] not in (TIMESTAMP, TIMESTAMP_NTZ, DATE):
            message = f"TIMESTAMP BY needs a TIMESTAMP, and column '{name}' of {self.name} is {self.types[name]}"
            raise CheckError(message, place, hint=f"give the schema with {name} TIMESTAMP")
        return Stream(self.name, self.columns, name, self.lateness, self.format, self.options)


@dataclass(frozen=True)
class Table:
    """Rows to join to a stream."""

    name: str
    columns: tuple[tuple[str, Type], ...]
    format: str
    options: tuple[tuple[str, str], ...] = field(default=())
