"""Queries enter and leave: which of them take part in the next batch of a stream and the next step of relations.

How a query enters depends on what runs it: slices (`service.entering_streams`) or operators
(`service.entering_relations`). Both can say whether it can enter at all.
"""

from __future__ import annotations

from pathlib import Path

from mullion.algebra.relation import Relation
from mullion.binding.relations import bind
from mullion.catalog.catalog import Catalog
from mullion.catalog.restart import check_queries
from mullion.language.query import Query
from mullion.runtime.sink import Sink
from mullion.service.entering_relations import EnteringRelations
from mullion.service.entering_streams import EnteringStreams
from mullion.service.pasts import Pasts
from mullion.service.runs import Runs
from mullion.service.ways import plan_of, run_by_operators, sliced_over
from mullion.storage.manifest import queries_noted


class Entering:
    def __init__(self, catalog: Catalog, runs: Runs, sink: Sink) -> None:
        self._catalog, self._runs = catalog, runs
        self.pasts = Pasts()
        """How queries that entered came by their past."""
        self._has_begun = False
        self.streams = EnteringStreams(catalog, runs, self.pasts)
        self.relations = EnteringRelations(catalog, runs, sink, self.pasts)

    def add(self, query: Query) -> Relation:
        """Add a standing query to the catalog. It enters with the next batch."""
        catalog = self._catalog
        bound = bind(query, catalog.streams, catalog.tables, catalog.materialized, catalog.summaries)
        self._runs.check_not_ended(bound.name, bound.streams)
        admit = self.relations.admit if plan_of(bound, catalog) is None else self.streams.admit
        admit(bound, query.place)
        catalog.add_query(bound, query.name_place or query.place)
        return bound

    def take_up(self, checkpoint: Path) -> None:
        """Go on from a checkpoint: queries that it knows go on as they were, and new ones enter."""
        catalog, noted = self._catalog, set[str]()
        if not self._has_begun:
            by_slices = [plan for stream in catalog.streams for plan in sliced_over(stream, catalog)]
            check_queries(checkpoint, by_slices, run_by_operators(catalog))
            noted = {entry["name"] for entry in queries_noted(checkpoint, "relations")}
            self._runs.relations.take_up()
        for name in catalog.streams:
            run = self._runs.of(name)
            self.streams.enter_again(run)
            run.show_restored(catalog.synopses_on(name))
        if not self._has_begun:
            self.relations.check_new(noted)
        self._has_begun = True
