"""How much a query may answer in one batch, and hold. One that passes its limit is stopped; its neighbours go on.

    due of a query   |=========|=========|====  portions, written one after the other
                     '--- most answers ---'     what lies beyond is not answered: the query is stopped here

Answers up to the limit are right and stay. That a query is stopped, and why, is part of the commit of the batch that
stopped it, so a restart knows. A query of another text under its name is another query.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mullion.options import DEFAULTS
from mullion.slices.window_runs import Due, WindowRuns

log = logging.getLogger("mullion")

PORTION = 500_000
"""Windows that are answered at once, and about how many rows are written at once."""


class Stop(NamedTuple):
    """A query that was stopped: its text, and why."""

    text: str
    reason: str


class Limits:
    """What the queries of a run have answered in the batch at work, and which are stopped."""

    def __init__(self, most_answers: int = DEFAULTS.most_answers, most_held: int = DEFAULTS.most_held) -> None:
        self.most_answers, self.most_held = most_answers, most_held
        self.stopped: dict[str, Stop] = {}
        self._answered: dict[str, int] = {}
        self.over: set[str] = set()
        """Queries for which nothing more is made in this batch."""

    def begin(self) -> None:
        """A batch begins."""
        self._answered.clear()
        self.over.clear()

    def count(self, rows: Mapping[str, int], texts: Mapping[str, str]) -> None:
        """Count the rows that queries have answered; one that has more than it may is stopped. `texts` are theirs."""
        answered, most = self._answered, self.most_answers
        for name, number in rows.items():
            answered[name] = total = answered.get(name, 0) + number
            if total > most:
                self.over.add(name)
                self.stop_answering(name, texts[name])

    def note(self, due: WindowRuns) -> None:
        """Queries that have more windows to answer than they may are stopped with these."""
        for i in due.exceeded:
            self.stop_answering(due.queries[i].name, due.queries[i].text)

    def portions(self, due: WindowRuns) -> Iterator[Due]:
        """Windows to answer, some at a time."""
        self.note(due)
        return due.portions(PORTION)

    def stop_answering(self, name: str, text: str) -> None:
        limit = f"a batch made more than {self.most_answers:,} answers for it"
        self.stop(name, text, f"{limit}; see --most-answers (Engine: most_answers)")

    def stop_holding(self, name: str, text: str, held: int) -> None:
        limit = f"it holds {held:,} rows, more than {self.most_held:,}"
        self.stop(name, text, f"{limit}; shorten its windows, or see --most-held (Engine: most_held)")

    def stop(self, name: str, text: str, reason: str) -> None:
        if not self.is_stopped(name, text):
            self.stopped[name] = Stop(text, reason)
            log.warning("query %s is stopped: %s", name, reason)

    def is_stopped(self, name: str, text: str) -> bool:
        known = self.stopped.get(name)
        return known is not None and known.text == text

    def snapshot(self) -> dict[str, list[str]]:
        return {name: list(stop) for name, stop in self.stopped.items()}

    def restore(self, state: Mapping[str, list[str]]) -> None:
        self.stopped = {name: Stop(*stop) for name, stop in state.items()}


def no_limits() -> Limits:
    return Limits(sys.maxsize, sys.maxsize)
