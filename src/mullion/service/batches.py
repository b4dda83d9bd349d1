"""A batch of a stream: the queries that take part, its course, and what it hands on to relations."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mullion.catalog.catalog import Catalog
from mullion.catalog.restart import to_journal
from mullion.runtime.batch import Batch
from mullion.runtime.sink import Sink
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
        run, relations = self._runs.of(name), self._runs.relations
        with self._lock:
            queries = self._entering.streams.queries_of_batch(run, batch.number)
            synopses = self._catalog.synopses_on(name)
            self._entering.relations.enter()
            run.set_relations(relations.columns_needed(name), relations.names_over(name))
        self._sink.set_queries(name, {query.name: query.text for query in queries})
        self._runs.read_pasts(run)
        run.set_queries(queries, synopses)
        run.process(batch)
        self._runs.hand_over(run)
        self._done()

    def advance(self, name: str, time: int | None) -> None:
        """Event time goes on without events; None: it has, and an earlier run did not answer what that made due."""
        run, relations = self._runs.of(name), self._runs.relations
        with self._lock:
            self._entering.streams.enter_fresh(run)
            queries = self._entering.streams.queries_over(name)
            synopses = self._catalog.synopses_on(name)
            self._entering.relations.enter()
            run.set_relations(relations.columns_needed(name), relations.names_over(name))
            if run.journal is not None and run.committed is not None and run.committed.batch >= 0:
                run.journal.begin(run.committed.batch, [to_journal(query) for query in queries])
        self._sink.set_queries(name, {query.name: query.text for query in queries})
        self._runs.read_pasts(run)
        run.set_queries(queries, synopses)
        if time is None:
            run.catch_up()
        else:
            run.advance(time)
        self._runs.hand_over(run)
        self._done()

    def finish(self, name: str, *, close: bool) -> None:
        """A source has been read to its end. With `close` this is the end of the stream."""
        run = self._runs.of(name)
        with self._lock:
            self._entering.streams.enter_fresh(run)
            queries = self._entering.streams.queries_over(name)
            run.set_queries(queries, self._catalog.synopses_on(name))
            self._entering.relations.enter()
            if close and not run.closed and run.journal is not None:
                number = 0 if run.committed is None else run.committed.batch + 1
                run.journal.begin(number, [to_journal(query) for query in run.queries])
        self._sink.set_queries(name, {query.name: query.text for query in queries})
        self._runs.read_pasts(run)
        if close:
            run.finish()
        self._runs.hand_over(run)
        self._done()


__all__ = ["Batches"]
