"""Answers kept in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from mullion.sinks.base import Sink
from mullion.storage.marks import Mark
from mullion.windows.finalize import Answers


class MemorySink(Sink):
    """Keeps answers as they came; a query's own are cut out when they are asked for."""

    def __init__(self) -> None:
        self.answers: dict[tuple[Mark, str], Sequence[Answers]] = {}
        self.asides: dict[tuple[str, str, Mark], pa.Table] = {}

    def write(self, stream: str, mark: Mark, answers: Sequence[Answers]) -> None:
        self.answers[mark, stream] = answers

    def aside(self, kind: str, stream: str, mark: Mark, rows: pa.Table) -> None:
        self.asides[kind, stream, mark] = rows

    def tables(self, query: str) -> list[pa.Table]:
        """The query's answers, oldest first."""
        return [
            table
            for mark in sorted(self.answers)
            for answers in self.answers[mark]
            if query in answers.queries
            for name, table in answers
            if name == query
        ]

    def aside_tables(self, kind: str) -> list[pa.Table]:
        return [table for (of, _, _), table in self.asides.items() if of == kind]
