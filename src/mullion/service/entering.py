"""Queries enter and leave: which of them take part in the next batch of a stream and the next step of relations.

A query that comes while a batch is at work enters with the next one. With a checkpoint, the queries that a batch sees
are journaled before it begins, so that a batch that is played again sees the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mullion.algebra.nodes import TableLookup, nodes
from mullion.algebra.relation import Relation
from mullion.binding.entering import Entrance, entered
from mullion.binding.relations import bind
from mullion.catalog.catalog import Catalog
from mullion.catalog.restart import as_journaled, check_text, from_journal, tables_declared_otherwise, to_journal
from mullion.errors import CheckError, NotSupported, Place
from mullion.language.query import Query
from mullion.planner.physical import by_operators, sliced, sliced_of
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.sink import Sink
from mullion.runtime.stream_run import StreamRun
from mullion.service.runs import Runs


class Entering:
    def __init__(self, catalog: Catalog, runs: Runs, sink: Sink) -> None:
        self._catalog, self._runs, self._sink = catalog, runs, sink
        self._fresh: dict[str, None] = {}
        """Queries that came after the first batch and enter with the next."""
        self.pasts: dict[str, str] = {}
        """How queries that entered came by their past."""

    def add(self, query: Query) -> Relation:
        """Add a standing query to the catalog. It enters with the next batch."""
        catalog = self._catalog
        bound = bind(query, catalog.streams, catalog.tables, catalog.materialized)
        self._runs.check_not_ended(bound.name, bound.streams)
        plan = sliced(bound, catalog.streams)
        run = None if plan is None else self._runs.streams.get(plan.stream)
        if plan is not None and run is not None and run.begun:
            _check_can_enter(run, plan, query.place)
            self._fresh[bound.name] = None
        elif plan is None and bound.backfill and (reason := self._unreadable(bound)) is not None:
            raise NotSupported(f"BACKFILL of this query ({reason})", query.place)
        catalog.add_query(bound, query.place)
        return bound

    def sliced_over(self, stream: str) -> list[SlicedAggregation]:
        """What slices run of a stream's queries."""
        return sliced_of(self._catalog.queries_over(stream), self._catalog.streams)

    def queries_of_batch(self, run: StreamRun, number: int) -> Sequence[SlicedAggregation]:
        """The queries that the batch sees: as journaled if it was begun before, otherwise the present ones."""
        journal = run.journal
        run.begun = True
        if journal is None or not journal.was_begun(number):
            self.enter_fresh(run)
        queries = self.sliced_over(run.stream.name)
        if journal is None:
            return queries
        if journal.was_begun(number):
            return [self._as_journaled(entry) for entry in journal.queries_of(number) or []]
        journal.begin(number, [to_journal(q) for q in queries])
        return queries

    def _as_journaled(self, entry: Mapping[str, Any]) -> SlicedAggregation:
        plan = sliced(from_journal(entry, self._catalog), self._catalog.streams)
        if plan is None:
            raise tables_declared_otherwise(entry["name"])
        return plan

    def enter_fresh(self, run: StreamRun) -> None:
        """Let queries enter that came while the last batch was at work: they have missed all events up to its end."""
        for name in list(self._fresh):
            query = self._catalog.queries.get(name)
            if query is None:
                del self._fresh[name]
            elif (plan := sliced(query, self._catalog.streams)) is not None and plan.stream == run.stream.name:
                del self._fresh[name]
                self._enter(run, query, plan)

    def _enter(self, run: StreamRun, query: Relation, plan: SlicedAggregation) -> None:
        entrance, how = run.enter(plan)
        self._catalog.replace_query(entered(query, entrance))
        if query.backfill:
            self.pasts[query.name] = how

    def enter_again(self, run: StreamRun) -> None:
        """After a restart: queries that the checkpoint knows go on as they were, and new ones enter now."""
        assert run.journal is not None
        known = {entry["name"]: entry for entry in run.journal.last_queries()}
        by_operators_then = self._runs.relations.recorded((run.stream.name,))
        for query in self._catalog.queries_over(run.stream.name):
            plan, entry = sliced(query, self._catalog.streams), known.get(query.name)
            if plan is None and entry is not None and entry["text"] == query.text:
                raise tables_declared_otherwise(query.name)
            if plan is None:
                continue
            if entry is None and by_operators_then.get(query.name) == query.text:
                raise tables_declared_otherwise(query.name)
            if entry is None:
                self._runs.check_not_ended(query.name, query.streams)
            if run.newest is None:
                continue
            if entry is None:
                _check_can_enter(run, plan)
                self._enter(run, query, plan)
            else:
                check_text(query.name, query.text, entry["text"])
                self._catalog.replace_query(as_journaled(query, entry))

    def set_relations(self) -> None:
        """Let all present relations take part. A relation that is new to running streams answers only for windows
        that start after their newest event."""
        materialized = {relation.root for relation in self._catalog.materialized.values()}
        relations = by_operators(self._catalog.queries.values(), self._catalog.streams)
        for at, relation in enumerate(relations):
            if not relation.tag and self._runs.relations.went_by_itself(relation):
                relation = replace(relation, tag=relation.name)
            run = self._runs.relations.run_of(relation.streams, relation.tag)
            present = run.relations.get(relation.name)
            if present == relation:
                continue
            entry = run.known.get(relation.name) if present is None else None
            if entry is None:
                self._runs.check_not_ended(relation.name, relation.streams)
                entrance = self._entrance(relation)
            else:
                check_text(relation.name, relation.text, entry["text"])
                after = entry.get("after", relation.after)
                entrance = Entrance(entry["start"], after, relation.tag, relation.entered_after)
            relations[at] = entered(relation, entrance, materialized)
            self._catalog.replace_query(relations[at])
        self._runs.relations.set_relations(relations)
        for run in self._runs.relations.runs.values():
            self._sink.set_queries(run.name, {name: relation.text for name, relation in run.relations.items()})

    def _entrance(self, relation: Relation) -> Entrance:
        """From when on a relation answers that is new to its streams, and which run it goes with."""
        newest = max((run.newest for run in self._begun(relation) if run.newest is not None), default=None)
        entrance = Entrance(relation.start, relation.after)
        if newest is None:
            return entrance
        if relation.backfill and (reason := self._unreadable(relation)) is None:
            self.pasts[relation.name] = "by reading the files of its streams again"
            return entrance._replace(after=newest if relation.after is None else relation.after, tag=relation.name)
        if relation.backfill:
            self.pasts[relation.name] = f"not possible any more: {reason}"
            return Entrance(newest + 1)
        return entrance._replace(start=newest + 1 if relation.start is None else max(relation.start, newest + 1))

    def _begun(self, relation: Relation) -> list[StreamRun]:
        return [self._runs.streams[name] for name in relation.streams if name in self._runs.streams]

    def _unreadable(self, relation: Relation) -> str | None:
        """Why what its streams have read cannot be read for it once more; None when it can."""
        tables = [node.lookup.table for node in nodes(relation.plan) if isinstance(node, TableLookup)]
        reasons = (run.unreadable_again(tables) for run in self._begun(relation) if run.newest is not None)
        return next((reason for reason in reasons if reason is not None), None)


def _check_can_enter(run: StreamRun, query: SlicedAggregation, place: Place | None = None) -> None:
    reason = run.can_backfill(query)
    if reason is not None:
        raise NotSupported(f"BACKFILL of this query ({reason})", place)
    refused = run.refuses(query)
    if refused is not None:
        raise CheckError(refused[0], place, hint=refused[1])


__all__ = ["Entering"]
