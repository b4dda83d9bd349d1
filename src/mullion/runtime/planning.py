"""The plans of a stream's queries: which queries share partials, and how a batch's partials are made.

Two things change a plan. When queries come or go, `set_queries` makes a new one. Before every batch, `plan_batch`
chooses the way to partials anew, from what the last batch held and from whether the kernel may read its files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mullion.catalog.restart import to_journal
from mullion.catalog.synopses import Synopsis
from mullion.language.query import TIME_AXIS
from mullion.planner.plan import Grouping, Plan
from mullion.planner.rules import make_plan, reconsider
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.batch import Batch
from mullion.runtime.sharding_choice import ShardingChoice
from mullion.runtime.sharing_set import SharingSet
from mullion.runtime.stream_state import StreamState
from mullion.slices.answered import still_counted
from mullion.slices.coverage import Coverage
from mullion.slices.tier import check_complete

SHARED = "shared"
"""The name of the sharing set of all queries; with sharing off, each has one of its own name."""


class Planning:
    def __init__(self, state: StreamState) -> None:
        self._state = state
        self._sharding = ShardingChoice(state)

    def set_queries(self, queries: Sequence[SlicedAggregation], synopses: Sequence[Synopsis]) -> bool:
        """The queries that the next batch answers, and the synopses that it feeds; whether anything is new."""
        state = self._state
        queries = [query for query in queries if not state.limits.is_stopped(query.name, query.text)]
        same = tuple(queries) == state.queries and tuple(synopses) == state.synopses
        if same and not state.is_restored and (state.sets or state.ordered):
            return False
        self._forget_namesakes(queries)
        texts = [{query.name: query.text for query in some} for some in (state.queries, queries)]
        state.counts.answers_by_query = still_counted(state.counts.answers_by_query, *texts)
        state.queries, state.synopses = tuple(queries), tuple(synopses)
        state.backfilled &= {query.name for query in queries}
        self._set_ordered(queries, synopses)
        self._set_sharing_sets([query for query in queries if query.axis == TIME_AXIS])
        return True

    def _forget_namesakes(self, queries: Sequence[SlicedAggregation]) -> None:
        """A query that has taken the name of one that left goes on from nothing of it."""
        state = self._state
        before = {query.name: to_journal(query) for query in state.queries}
        for name in [q.name for q in queries if q.name in before and before[q.name] != to_journal(q)]:
            state.backfilled.discard(name)
            state.ordered.forget_query(name)
            for sharing_set in state.sets.values():
                sharing_set.tier.forget_query(name)

    def _set_ordered(self, queries: Sequence[SlicedAggregation], synopses: Sequence[Synopsis]) -> None:
        state = self._state
        state.ordered.feed(synopses, state.newest)
        if state.is_restored:
            state.ordered.restore(*state.restored_order, queries)
        state.ordered.set_queries(queries, state.options, before=state.counts.events)

    def _set_sharing_sets(self, queries: Sequence[SlicedAggregation]) -> None:
        state = self._state
        shared = state.options.is_shared
        names = [SHARED] if shared and queries else [q.name for q in queries]
        newest = state.newest
        for name in names:
            if name not in state.sets:
                state.sets[name] = SharingSet(coverage=Coverage(None if newest is None else newest + 1))
        state.sets = {name: state.sets[name] for name in names}
        for name, sharing_set in state.sets.items():
            own = [q for q in queries if shared or q.name == name]
            sharing_set.plan = make_plan(state.stream, own, state.options, seen=sharing_set.seen)
            if state.is_restored:
                check_complete(sharing_set.tier.entries, sharing_set.plan)

    def plan_batch(self, sharing_set: SharingSet, batch: Batch) -> Plan:
        """The plan as it is for a batch; groupings with very many groups are moved to shards first."""
        assert sharing_set.plan is not None
        files = batch.reads_files(sharing_set.plan.groupings)
        plan = sharing_set.plan = reconsider(replace(sharing_set.plan, files=files), sharing_set.seen)
        self._sharding.move_the_large(sharing_set, plan, batch)
        return plan


def with_groupings(plan: Plan, groupings: Sequence[Grouping]) -> Plan:
    """The plan for some of its groupings."""
    if len(groupings) == len(plan.groupings):
        return plan
    kept = {g.name for g in groupings}
    methods = tuple(m for g, m in zip(plan.groupings, plan.methods, strict=True) if g.name in kept)
    return replace(plan, groupings=tuple(groupings), methods=methods)


__all__ = ["SHARED", "Planning", "with_groupings"]
