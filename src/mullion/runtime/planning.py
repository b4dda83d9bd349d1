"""The plans of a stream's queries: which queries share partials, and how a batch's partials are made.

Three things change a plan. When queries come or go, `set_queries` gives them to sharing sets (`runtime.clusters`) and
makes new ones. Before a batch that may hold something else than the one before, `plan_batch` asks it for statistics and
divides queries anew where that pays. And before every batch it chooses the way to partials, from what the last batch
held and from whether the kernel may read its files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from mullion.catalog.restart import to_journal
from mullion.catalog.summaries import StreamStructure
from mullion.planner.expected import expectations, observed_before
from mullion.planner.few import are_few
from mullion.planner.observed import NOTHING_SEEN
from mullion.planner.plan import Grouping, Plan
from mullion.planner.query_set import QuerySet
from mullion.planner.rules import for_batch, groupings_of, make_plan, reconsider, taken_from_rows
from mullion.planner.schedules.steps import stepped
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.statistics import Statistics
from mullion.runtime.batch import Batch
from mullion.runtime.clusters import Clusters
from mullion.runtime.sharding_choice import ShardingChoice
from mullion.runtime.sharing_set import SharingSet
from mullion.runtime.stream_state import StreamState
from mullion.slices.tier import check_complete

OTHER = 4
"""A batch with so many times more or fewer events than the one that was looked at last may hold something else."""

LONGEST_WAIT = 64
"""Batches after which a plan that is misjudged again and again is looked at once more, though that moved nobody."""

MANY_PREDICATES = 64
"""So many that it matters how they are aggregated."""


ReadNewest = Callable[[Sequence[SlicedAggregation]], tuple[int, pa.Table] | None]
"""The events of queries from a time on, and that time."""


class Planning:
    def __init__(self, state: StreamState) -> None:
        self._state = state
        self._clusters = Clusters(state)
        self._sharding = ShardingChoice(state)
        self._looked_at: int | None = None
        """How many events the batch had whose statistics the clusters stand on; None when queries are others since."""
        self._wait, self._waited = 1, 1
        """Batches from one look at a misjudged plan to the next, and those since the last one."""

    def set_queries(
        self, queries: Sequence[SlicedAggregation], synopses: Sequence[StreamStructure], newest: ReadNewest
    ) -> bool:
        """The queries that the next batch answers, and the synopses that it feeds; whether anything is new. `newest`
        reads the events that queries over their order entered with."""
        state = self._state
        queries = stepped(state.admitted(queries), shared=state.options.is_shared)
        same = queries == state.queries and tuple(synopses) == state.synopses
        if same and not state.is_restored and (state.sets or state.ordered):
            return False
        self._forget_namesakes(queries)
        state.scheduling.set_queries(queries, state.newest)
        state.queries, state.synopses = queries, tuple(synopses)
        state.backfilled.intersection_update(queries.names)
        self._set_ordered(queries.over_others, synopses, newest)
        self._set_sharing_sets(queries.over_time)
        return True

    def _forget_namesakes(self, queries: Sequence[SlicedAggregation]) -> None:
        """A query that has taken the name of one that left goes on from nothing of it. Who was there at the last commit
        is in the journal: it may have entered with a batch that was not committed."""
        state = self._state
        if not state.queries and not state.is_restored:
            return
        before = {query.name: to_journal(query) for query in state.queries}
        if state.is_restored and state.journal is not None and state.committed is not None:
            known = state.journal.queries_of(state.committed.batch) or []
            before = {entry["name"]: entry for entry in known}
        for name in [q.name for q in queries if q.name in before and _is_another(before[q.name], to_journal(q))]:
            state.backfilled.discard(name)
            state.ordered.forget_query(name)
            state.scheduling.forget_query(name)
            for sharing_set in state.sets.values():
                sharing_set.tier.forget_query(name)

    def _set_ordered(self, queries: QuerySet, synopses: Sequence[StreamStructure], newest: ReadNewest) -> None:
        state = self._state
        state.ordered.feed(synopses, state.newest)
        if state.is_restored:
            state.ordered.restore(*state.restored_order, queries)
        read = newest(queries)
        if read is not None:
            state.ordered.replace(*read)
        state.ordered.set_queries(queries, state.options, before=state.counts.events)

    def _set_sharing_sets(self, queries: QuerySet) -> None:
        state = self._state
        self._clusters.assign(queries)
        self._looked_at, self._wait = None, 1
        self._make_plans(queries)
        for sharing_set in state.sets.values() if state.is_restored else ():
            assert sharing_set.plan is not None
            check_complete(sharing_set.tier.entries, sharing_set.plan)

    def _make_plans(self, queries: QuerySet, *, with_way: bool = True) -> None:
        """The plan of each set; one whose queries are the same stays."""
        state = self._state
        for sharing_set in state.sets.values():
            own = queries.of_names(sharing_set.members)
            if sharing_set.plan is None or sharing_set.plan.queries != own:
                sharing_set.plan = plan = make_plan(
                    state.stream, own, state.options, seen=sharing_set.seen, with_way=with_way
                )
                sharing_set.expected = {}
                self._sharding.keep_together(sharing_set, plan)

    def plan_batch(self, batch: Batch) -> list[tuple[SharingSet, Plan]]:
        """The sets and their plans as they are for a batch; groupings with very many groups are moved to shards
        first."""
        state = self._state
        statistics = self._look_at(batch)
        sets = [(own, own.plan) for own in state.sets.values() if own.plan is not None]
        files = batch.reads_files([grouping for _, plan in sets for grouping in plan.groupings])
        plans = reconsider([replace(plan, files=files) for _, plan in sets], [own.seen for own, _ in sets])
        anew = [
            (own, plan)
            for (own, before), plan in zip(sets, plans, strict=True)
            if statistics is not None or (plan.way, plan.methods) != (before.way, before.methods)
        ]
        for (own, _), expected in zip(anew, expectations([plan for _, plan in anew], state.statistics), strict=True):
            own.expected = expected
        for (own, _), plan in zip(sets, plans, strict=True):
            own.plan = plan
            if state.punctuations is None:  # whose events are all looked at here
                self._sharding.move_the_large(own, plan, batch)
        events = self._expected_events(batch)
        takes_rows = self._takes_rows([own for own, _ in sets], events)
        plans = [taken_from_rows(plan) if takes_rows else for_batch(plan, events) for plan in plans]
        for (own, _), plan in zip(sets, plans, strict=True):
            own.plan = plan
        return [(own, plan) for (own, _), plan in zip(sets, plans, strict=True)]

    def _expected_events(self, batch: Batch) -> int | None:
        """How many events a batch has, or the last one had; None where nothing is known."""
        if batch.size is not None:
            return batch.size
        seen = (own.seen for own in self._state.sets.values())
        return next((observed.events for observed in seen if observed is not NOTHING_SEEN), None)

    def _takes_rows(self, sets: Sequence[SharingSet], events: int | None) -> bool:
        """Whether the driver makes the partials, of rows that it has for others: faster than a job would while they are
        few, and always where all events are looked at for the ends of keys."""
        state = self._state
        if not state.needs_rows or state.punctuations is not None:
            return state.needs_rows
        return are_few(events) and not any(own.shards for own in sets)

    def _look_at(self, batch: Batch) -> Statistics | None:
        """Learn what the batch holds, where it may be something else than what the clusters stand on."""
        state = self._state
        queries = state.queries.over_time
        if not queries:
            return None
        was_misjudged = self._was_misjudged()
        if not was_misjudged and not self._may_be_other(batch):
            self._count_fragments(batch)
            return None
        groupings = self._groupings_of_all(queries)
        state.statistics = known = self._statistics(batch, groupings)
        self._looked_at = known.events or known.sampled
        has_moved = self._clusters.divide(known, queries)
        if has_moved:
            self._make_plans(queries, with_way=False)
        if was_misjudged:
            self._wait, self._waited = 1 if has_moved else min(2 * self._wait, LONGEST_WAIT), 0
        for own in state.sets.values():
            if own.seen is NOTHING_SEEN and own.plan is not None:
                own.seen = observed_before(known, own.plan.groupings)
        return known

    def _groupings_of_all(self, queries: QuerySet) -> tuple[Grouping, ...]:
        """As if all queries were one cluster; often they are, and what was made for their plan serves here too."""
        for own in self._state.sets.values():
            if own.plan is not None and own.plan.queries == queries:
                return own.plan.groupings
        return groupings_of(self._state.stream, queries)

    def _count_fragments(self, batch: Batch) -> None:
        """How many predicates share is not known before a first batch, however small it is; a sample tells."""
        state = self._state
        for own in state.sets.values():
            groupings = () if own.plan is None or own.seen is not NOTHING_SEEN else own.plan.groupings
            if any(len(grouping.bits) >= MANY_PREDICATES for grouping in groupings):
                own.seen = observed_before(self._statistics(batch, groupings), groupings)

    def _statistics(self, batch: Batch, groupings: Sequence[Grouping]) -> Statistics:
        """What can be known of the batch. What is planned by it takes one core, and meanwhile a large batch is read."""
        if not are_few(self._expected_events(batch)):
            batch.read_ahead(groupings)
        return batch.statistics(groupings, self._state.lookups.at(groupings, batch.number))

    def _was_misjudged(self) -> bool:
        """Whether the last batch was not as expected. After a look that moved nobody the next one waits for twice as
        many batches: where batches take turns, none is as the one before."""
        was_misjudged, self._state.is_misjudged = self._state.is_misjudged, False
        self._waited += 1
        return was_misjudged and self._waited >= self._wait

    def _may_be_other(self, batch: Batch) -> bool:
        """Whether what is known may not hold of the batch. Of few events it does not matter."""
        size, before = self._expected_events(batch), self._looked_at
        if are_few(size):
            return False
        return before is None or (size is not None and not before / OTHER <= size <= before * OTHER)


def _is_another(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a query of the same name is another one. One that is a newcomer no more is the same."""
    same = "joined" in before and all(before.get(part) == now.get(part) for part in ("text", "joined"))
    return before != now and not same


def with_groupings(plan: Plan, groupings: Sequence[Grouping]) -> Plan:
    """The plan for some of its groupings."""
    if len(groupings) == len(plan.groupings):
        return plan
    names = {g.name for g in groupings}
    methods = tuple(m for g, m in zip(plan.groupings, plan.methods, strict=True) if g.name in names)
    return replace(plan, groupings=tuple(groupings), methods=methods)
