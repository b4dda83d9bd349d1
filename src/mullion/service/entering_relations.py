"""Queries that operators run enter with the next step: all relations over the same streams go in step."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from mullion.algebra.nodes import nodes, tables_of
from mullion.algebra.relation import Relation
from mullion.binding.entering import (
    Entrance,
    Past,
    entered,
    entrance,
    gone,
    needed_since,
    no_past,
    read_once_more,
    starts_at,
)
from mullion.catalog.catalog import Catalog
from mullion.errors import NotSupported, Place
from mullion.runtime.sink import Sink
from mullion.runtime.stream_run import StreamRun
from mullion.service.pasts import Pasts
from mullion.service.runs import Runs
from mullion.service.ways import run_by_operators


class EnteringRelations:
    """`pasts` is told how queries that entered came by their past."""

    def __init__(self, catalog: Catalog, runs: Runs, sink: Sink, pasts: Pasts) -> None:
        self._catalog, self._runs, self._sink, self._pasts = catalog, runs, sink, pasts

    def admit(self, query: Relation, place: Place | None) -> None:
        """Let the query enter with the next step, or raise what speaks against it."""
        self._check_read(query, place)
        if query.backfill and (reason := self._unreadable(query)) is not None:
            raise no_past(query.name, reason, place)

    def _check_read(self, query: Relation, place: Place | None) -> None:
        """A query without a past shares the work of those over its streams, of whose past nothing is left there."""
        parts = set(nodes(query.root))
        read = [r for r in self._catalog.materialized.values() if r.root in parts and r.backfill]
        if read and not query.backfill:
            why = f"it holds results of a past that '{query.name}' does not have"
            what = f"reading '{read[0].name}' without BACKFILL ({why})"
            raise NotSupported(what, place, hint="add BACKFILL here too")

    def check_new(self, noted: Container[str]) -> None:
        """After a restart: refuse relations that are not noted in the checkpoint and cannot enter any more."""
        for relation in run_by_operators(self._catalog):
            if relation.name not in noted:
                self._runs.check_not_ended(relation.name, relation.streams)
                self.admit(relation, None)

    def enter(self) -> None:
        """Let all present relations take part. A relation that is new to running streams answers only for windows
        that start after their newest event."""
        materialized = {relation.root for relation in self._catalog.materialized.values()}
        relations = list(run_by_operators(self._catalog))
        for at, relation in enumerate(relations):
            if not relation.tag and self._runs.relations.went_by_itself(relation):
                relation = replace(relation, tag=relation.name)
            run = self._runs.relations.run_of(relation.streams, relation.tag)
            present = run.relations.get(relation.name)
            if present is relation:
                continue
            entry = run.known.get(relation.name) if present is None else None
            if entry is None:
                self._runs.check_not_ended(relation.name, relation.streams)
                entrance = self._entrance(relation)
            else:
                after = entry.get("after", relation.after)
                entrance = Entrance(entry["start"], after, relation.tag, relation.entered_after)
            relations[at] = entered(relation, entrance, materialized)
            self._catalog.replace_query(relations[at])
        self._runs.relations.set_relations(relations)
        for run in self._runs.relations.runs.values():
            self._sink.set_queries(run.name, run.texts)
        self._pasts.tell()

    def _entrance(self, relation: Relation) -> Entrance:
        """From when on a relation answers that is new to its streams, and which run it goes with."""
        newest = self._newest(relation)
        if newest is None:
            return Entrance(relation.start, relation.after)
        past, at_newest = lambda after: self._past_of(relation), lambda: self._at_newest(relation, newest)
        decided, how = entrance(relation, newest, newest + 1, past, at_newest)
        self._pasts.note(relation, how)
        return decided

    def _at_newest(self, relation: Relation, newest: int) -> Past:
        """From where the events of the newest time come, for a window that starts with it. Streams may not have handed
        them on, or not with all that this relation needs. No step has taken them, unless event time went on without
        events: then it goes by itself."""
        if not starts_at(relation, newest):
            return Past("", is_gone=True)
        begun, relations = self._begun(relation), self._runs.relations.run_of(relation.streams)
        reasons = [run.admission.no_newest((), newest) for run in begun if run.newest == newest]
        reason = next((reason for reason in reasons if reason is not None), None)
        if reason is not None:
            return gone(reason)
        if relations.now > newest:
            return Past(self._how(relation), tag=relation.name)
        relations.enter([run.stream.name for run in begun], newest)
        return Past(self._how(relation))

    def _past_of(self, relation: Relation) -> Past:
        reason = self._unreadable(relation)
        return Past(self._how(relation), tag=relation.name) if reason is None else gone(reason)

    def _how(self, relation: Relation) -> str:
        return read_once_more({run.name: run.admission.is_from_kept for run in self._begun(relation)})

    def _begun(self, relation: Relation) -> list[StreamRun]:
        """The runs of its streams that have seen events."""
        runs = [self._runs.streams[name] for name in relation.streams if name in self._runs.streams]
        return [run for run in runs if run.newest is not None]

    def _newest(self, relation: Relation) -> int | None:
        return max((run.newest for run in self._begun(relation) if run.newest is not None), default=None)

    def _unreadable(self, relation: Relation) -> str | None:
        """Why what its streams have read cannot be read for it once more; None when it can."""
        after = self._newest(relation) if relation.after is None else relation.after
        tables, since = tables_of(relation.plan), needed_since(relation, after or 0)
        reasons = (run.admission.no_past(tables, since) for run in self._begun(relation))
        return next((reason for reason in reasons if reason is not None), None)
