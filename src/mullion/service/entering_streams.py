"""Queries that slices run enter a stream with its next batch.

A query that comes while a batch is at work enters with the next one. With a checkpoint, the queries that a batch sees
are journaled before it begins, so that a batch that is played again sees the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mullion.algebra.relation import Relation
from mullion.binding.entering import Entrance, entered
from mullion.catalog.catalog import Catalog
from mullion.catalog.restart import as_journaled, from_journal, tables_declared_otherwise, to_journal
from mullion.errors import Place
from mullion.planner.query_set import QuerySet
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.stream_run import StreamRun
from mullion.service.pasts import Pasts
from mullion.service.runs import Runs
from mullion.service.ways import plan_of, sliced_over


class EnteringStreams:
    """`pasts` is told how queries that entered came by their past."""

    def __init__(self, catalog: Catalog, runs: Runs, pasts: Pasts) -> None:
        self._catalog, self._runs, self._pasts = catalog, runs, pasts
        self._fresh: list[Relation] = []
        """Queries that came after their stream had begun: those that are still there then enter with its next batch."""

    def admit(self, query: Relation, place: Place | None) -> None:
        """Let the query enter with the next batch, or raise what speaks against it."""
        plan = self._plan(query)
        run = self._runs.streams.get(plan.stream)
        if run is not None and run.begun:
            run.admission.check(plan, place)
            self._fresh.append(query)

    def _plan(self, query: Relation) -> SlicedAggregation:
        plan = plan_of(query, self._catalog)
        assert plan is not None, "operators run it"
        return plan

    def queries_of_batch(self, run: StreamRun, number: int) -> QuerySet:
        """The queries that the batch sees: as journaled if it was begun before, otherwise the present ones."""
        run.begun = True
        if run.journal is not None and run.journal.was_begun(number):
            return QuerySet(self._as_journaled(entry) for entry in run.journal.queries_of(number) or [])
        return self.queries_now(run, number)

    def queries_now(self, run: StreamRun, number: int | None) -> QuerySet:
        """The present queries, journaled under the number of a batch if there is one."""
        self._enter_fresh(run)
        self._let_share(run)
        queries = sliced_over(run.name, self._catalog)
        if run.journal is not None and number is not None:
            run.journal.begin(number, [to_journal(query) for query in queries])
        return queries

    def _as_journaled(self, entry: Mapping[str, Any]) -> SlicedAggregation:
        plan = plan_of(from_journal(entry, self._catalog), self._catalog)
        if plan is None:
            raise tables_declared_otherwise(entry["name"])
        return plan

    def _enter_fresh(self, run: StreamRun) -> None:
        """Let queries enter that came while the last batch was at work: they have missed all events up to its end."""
        fresh, self._fresh = self._fresh, []
        for query in fresh:
            if self._catalog.queries.get(query.name) is not query:
                continue
            if query.streams == (run.stream.name,):
                self._enter(run, query)
            else:
                self._fresh.append(query)
        self._pasts.tell()

    def _enter(self, run: StreamRun, query: Relation) -> None:
        entrance, how = run.admission.enter(self._plan(query))
        self._catalog.replace_query(entered(query, entrance))
        self._pasts.note(query, how)

    def _let_share(self, run: StreamRun) -> None:
        """Let queries go on with others that entered before and have answered the window for which they read a past."""
        for plan in sliced_over(run.name, self._catalog):
            if plan.is_newcomer and run.admission.may_share(plan):
                assert plan.start is not None
                entrance = Entrance(plan.start + 1, entered_after=plan.entered_after)
                self._catalog.replace_query(entered(self._catalog.queries[plan.name], entrance))

    def enter_again(self, run: StreamRun) -> None:
        """After a restart: queries that the checkpoint knows go on as they were. New ones enter with the next batch
        that is not played again, since one that is shows its events only to those that it saw then."""
        if run.begun:
            return
        assert run.journal is not None
        known = {entry["name"]: entry for entry in run.journal.last_queries()}
        for plan in sliced_over(run.name, self._catalog):
            query, entry = self._catalog.queries[plan.name], known.get(plan.name)
            if entry is None:
                self._runs.check_not_ended(query.name, query.streams)
                run.admission.check(plan)
                self._fresh.append(query)
            else:
                self._catalog.replace_query(as_journaled(query, entry))
        run.begun = True
