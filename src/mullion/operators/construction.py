"""What operators are made with: how rows leave their state, and which columns those above read.

| expiry | rows leave |
|---|---|
| PATTERN_AWARE | as their update pattern allows; only what cannot be foreseen is told by retractions (golab 3.5) |
| NEGATIVE_TUPLES | when a retraction says so: windows announce every end (golab 3.2.2) |
| SCAN | when a scan of one list finds that they have ended (golab 3.2.1) |
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

from mullion.algebra.update_pattern import Pattern
from mullion.operators.expressions import KeyFunction
from mullion.operators.row_store import CalendarQueue, Fifo, Hash, RowStore, ScannedList
from mullion.options import Expiry


@dataclass(frozen=True)
class Construction:
    expiry: Expiry = Expiry.PATTERN_AWARE
    needed: Collection[str] | None = None
    """The columns that an operator above reads, for operators that can do with fewer. None: all."""

    def reads(self, name: str) -> bool:
        """Whether an operator above reads a column."""
        return self.needed is None or name in self.needed

    @property
    def scans(self) -> bool:
        return self.expiry is Expiry.SCAN

    def has_retractions(self, pattern: Pattern) -> bool:
        """Whether retractions tell when rows of such an input end."""
        return self.expiry is Expiry.NEGATIVE_TUPLES or pattern is Pattern.STRICT

    def store(self, pattern: Pattern, schema: pa.Schema, width: int, key: KeyFunction | None = None) -> RowStore:
        """A store for rows that leave by such a pattern."""
        if self.scans:
            return ScannedList(schema, width, key)
        if self.has_retractions(pattern):
            return Hash(schema, width, key)
        return CalendarQueue(schema, width, key) if pattern is Pattern.WEAK else Fifo(schema, width, key)


DEFAULT = Construction()
