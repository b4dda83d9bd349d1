"""What the run of a stream and that of relations have in common: where they write, and what they have committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from mullion.binding.entering import Standing
from mullion.options import Options
from mullion.planner.query_set import QuerySet
from mullion.runtime.counts import RunCounts
from mullion.runtime.lookup_tables import RunTables
from mullion.runtime.published import Published
from mullion.runtime.sink import Sink
from mullion.slices.limits import Limits
from mullion.storage.files import CommittedFiles
from mullion.storage.journal import Journal
from mullion.storage.marks import Mark
from mullion.storage.scratch import Scratch

StandingQuery = TypeVar("StandingQuery", bound=Standing)


class RunState:
    """`published` tells questions of commits."""

    timer: Callable[[], float] = staticmethod(time.perf_counter)
    """The seconds that batches and steps are timed by."""

    def __init__(
        self,
        name: str,
        sink: Sink,
        options: Options,
        *,
        journal: Journal | None,
        tables: RunTables,
        published: Published | None,
    ) -> None:
        self.name, self.sink, self.options, self.journal = name, sink, options, journal
        self.tables, self.published = tables, published or Published()
        self.limits = Limits(options.most_answers, options.most_held)
        self.counts = RunCounts()
        self.texts: dict[str, str] = {}
        """Of the queries that are answered now, by name."""
        self.committed: Mark | None = None
        self._scratch = Scratch()

    def admitted(self, queries: Sequence[StandingQuery]) -> Sequence[StandingQuery]:
        """Of the queries that are to be answered from now on, those that are not stopped. Each counts for itself."""
        admitted = queries
        if self.limits.stopped:
            admitted = [query for query in queries if not self.limits.is_stopped(query.name, query.text)]
        if isinstance(admitted, QuerySet):
            texts = admitted.texts
        else:
            texts = {query.name: query.text for query in admitted}
        if texts != self.texts or not texts:
            self.counts.keep(self.texts, texts)
            self.texts = texts
        return admitted

    @property
    def oldest_read(self) -> int | None:
        """The oldest batch whose tables events that wait are looked up in; None: no such event waits."""
        return None

    def tables_from(self, batch: int) -> int:
        """Tables are needed as they were with this batch, or since: a batch after the given one may come again."""
        oldest = self.oldest_read
        return batch if oldest is None else min(batch, oldest)

    @property
    def next_number(self) -> int:
        """The number of the batch or step that follows the last commit."""
        return 0 if self.committed is None else self.committed.batch + 1

    @property
    def files(self) -> CommittedFiles:
        """Files of the run: kept with the checkpoint, or as long as the run lasts."""
        return CommittedFiles(self._scratch.path) if self.journal is None else self.journal.files

    @property
    def has_files(self) -> bool:
        return self.journal is not None or bool(self._scratch)

    def discard(self) -> None:
        """Remove the files that were for this run alone."""
        self._scratch.discard()
