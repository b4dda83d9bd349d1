"""Answers handed to a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from mullion.catalog.journal import Mark
from mullion.sinks.base import Sink
from mullion.windows.finalize import Answers

OnAnswer = Callable[[str, pa.Table], None]


class CallbackSink(Sink):
    """Calls with the query's name and its rows. After a crash a batch may be handed over again."""

    def __init__(self, call: OnAnswer, query: str | None = None) -> None:
        self.call, self.query = call, query

    def write(self, stream: str, mark: Mark, answers: Sequence[Answers]) -> None:
        for some in answers:
            for name, table in some:
                if self.query in (None, name):
                    self.call(name, table)

    def aside(self, kind: str, stream: str, mark: Mark, rows: pa.Table) -> None:
        """Only answers are handed over."""
