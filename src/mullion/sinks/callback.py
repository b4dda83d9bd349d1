"""Answers handed to a function."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pyarrow as pa

from mullion.runtime.sink import Sink
from mullion.slices.finalize import Answers
from mullion.storage.marks import Mark

log = logging.getLogger("mullion")

OnAnswer = Callable[[str, pa.Table], None]


class CallbackSink(Sink):
    """Hands the rows of answers, with their query's name, to callbacks: those for all queries, and those for this one.
    After a crash a batch may be handed over again.

    A callback that raises is logged and counted, and the run goes on.
    """

    def __init__(self) -> None:
        self._of_all: list[OnAnswer] = []
        self._of_query: dict[str, OnAnswer] = {}
        self.failed: dict[str, int] = {}
        """How many calls raised, by what they were for."""

    def add(self, call: OnAnswer, query: str | None = None) -> None:
        if query is None:
            self._of_all.append(call)
        else:
            self._of_query[query.lower()] = call

    def forget(self, query: str) -> None:
        """Drop the callback for this query."""
        self._of_query.pop(query.lower(), None)

    def write(self, stream: str, mark: Mark, answers: Sequence[Answers], part: int = 0) -> None:
        for group in answers:
            for name, table in group:
                for call in tuple(self._of_all):
                    self.call(name, call, name, table)
                if (call_of_query := self._of_query.get(name.lower())) is not None:
                    self.call(name, call_of_query, name, table)

    def call(self, what: str, call: Callable[..., None], *arguments: object) -> None:
        """Call a function of the user's; what it raises does not go on from here."""
        try:
            call(*arguments)
        except Exception:
            self.failed[what] = self.failed.get(what, 0) + 1
            log.warning("a callback for %s raised (%d so far)", what, self.failed[what], exc_info=True)

    def aside(self, kind: str, stream: str, mark: Mark, rows: pa.Table) -> None:
        """Only answers are handed over."""
