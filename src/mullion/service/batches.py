"""A batch of a stream: the queries that take part, its course, and what it hands on to relations."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa

from mullion.catalog.catalog import Catalog
from mullion.planner.query_set import QuerySet
from mullion.runtime.batch import Batch
from mullion.runtime.sink import Sink
from mullion.runtime.stream_run import StreamRun
from mullion.service.entering import Entering
from mullion.service.runs import Runs


class Batches:
    """Called from the thread of a stream's batches. `done` is called after each."""

    def __init__(
        self,
        catalog: Catalog,
        lock: threading.RLock,
        runs: Runs,
        entering: Entering,
        sink: Sink,
        done: Callable[[], None],
    ) -> None:
        self._catalog, self._lock, self._runs, self._entering = catalog, lock, runs, entering
        self._sink, self._done = sink, done

    def process(self, name: str, batch: Batch) -> None:
        def queries(run: StreamRun) -> QuerySet:
            present = self._entering.streams.queries_of_batch(run, batch.number)
            if len(present) != len(run.queries) and not run.has_played(batch.number):
                batch.open_ahead()  # while the others are planned
            return present

        self._play(name, queries, lambda run: run.process(batch))

    def advance(self, name: str, time: int | None) -> None:
        """Event time goes on without events; None: it has, and an earlier run did not answer what that made due."""
        self._play(name, self._present, lambda run: run.catch_up() if time is None else run.advance(time))

    def punctuate(self, name: str, keys: pa.Table) -> None:
        """Keys of a stream are over."""
        self._play(name, self._present, lambda run: run.punctuate(keys))

    def _present(self, run: StreamRun) -> QuerySet:
        last = None if run.committed is None or run.committed.batch < 0 else run.committed.batch
        return self._entering.streams.queries_now(run, last)

    def finish(self, name: str, *, close: bool) -> None:
        """A source has been read to its end. With `close` this is the end of the stream."""

        def queries(run: StreamRun) -> QuerySet:
            return self._entering.streams.queries_now(run, run.next_number if close and not run.closed else None)

        self._play(name, queries, lambda run: run.finish() if close else None)

    def _play(self, name: str, queries: Callable[[StreamRun], QuerySet], work: Callable[[StreamRun], None]) -> None:
        """Let the queries that are there take part in some work of a stream, and relations take what it handed on."""
        run, relations = self._runs.of(name), self._runs.relations
        with self._lock:
            present = queries(run)
            synopses = self._catalog.synopses_on(name)
            self._entering.relations.enter()
            run.set_relations(relations.columns_needed(name), relations.texts_over(name), relations.tables_read(name))
            run.probing = relations.names_probing(name)
            run.has_scheduled_relations = any(own.has_scheduled for own in relations.over(name))
        self._sink.set_queries(name, present.texts)
        self._runs.read_pasts(run)
        run.set_queries(present, synopses)
        work(run)
        self._runs.hand_over(run)
        self._done()
