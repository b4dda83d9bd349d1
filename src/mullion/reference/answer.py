"""What the reference is given, and what it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mullion.algebra.streams import Table
from mullion.language.types import Type

DAY = 86_400_000_000

Rows = Sequence[Mapping[str, Any]]
TablesWithRows = Mapping[str, tuple[Table, Rows]]


@dataclass(frozen=True)
class Answer:
    """All rows that a query gives, by window and then in its order; times are microseconds, dates days."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    rows: list[tuple[Any, ...]]
