"""The clusters of a stream's queries at work: who is in which sharing set, and how queries move between sets.

A query that enters goes where it costs least, and moves nobody. All are divided anew where what is known of the events
says that this pays (`planner.clusters`): before the first batch, and when queries or batches have become others. Who
moves takes the sub-windows that were kept for him along, so that no window is answered twice or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from mullion.options import Sharing
from mullion.planner.clusters import LEAST_GAIN, WORTH_MOVING, Clustering
from mullion.planner.query_set import QuerySet
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.statistics import Statistics
from mullion.runtime.sharing_set import SharingSet
from mullion.runtime.stream_state import StreamState
from mullion.slices.kept_stretches import KeptStretches

SHARED = "shared"
"""The name of the first sharing set of all queries; with sharing off, each has one of its own name."""


class Clusters:
    def __init__(self, state: StreamState) -> None:
        self._state = state

    def assign(self, queries: Sequence[SlicedAggregation]) -> None:
        """Give each query to its sharing set; sets without one go."""
        found = placed(queries, self._state, self._new_name)
        self._set({label: QuerySet.of(own).names for label, own in found.items()})

    def _set(self, members: Mapping[str, Iterable[str]]) -> None:
        state = self._state
        newest = state.newest
        for label, names in members.items():
            if label not in state.sets:
                state.sets[label] = SharingSet(kept_stretches=KeptStretches(None if newest is None else newest + 1))
            state.sets[label].members = frozenset(names)
        state.sets = {label: state.sets[label] for label in members}

    def divide(self, statistics: Statistics, queries: QuerySet) -> bool:
        """Divide the queries anew where that pays by what is known of a batch; whether any moved. Those of a set in
        shards stay where they are."""
        state = self._state
        sharing = state.options.sharing
        sets = [own for own in state.sets.values() if not own.shards]
        queries = queries.of_names(frozenset().union(*(own.members for own in sets)))
        if sharing is Sharing.OFF or not queries:
            return False
        if sharing is Sharing.ON:
            return len(sets) > 1 and self._move([tuple(queries)])
        if len(sets) == 1 and Clustering.is_one(queries):
            return False
        clustering = Clustering.of(statistics)
        division = clustering.divide(queries)
        now = division.together
        if len(sets) > 1:
            by_name = {query.name: query for query in queries}
            now = clustering.cost_of([by_name[name] for name in sorted(own.members)] for own in sets)
        is_fresh = all(not own.tier.entries for own in sets)
        gain = now - division.cost
        if not (now > 1.1 * division.cost if is_fresh else now > WORTH_MOVING * division.cost and gain > LEAST_GAIN):
            return False
        return self._move(division.clusters)

    def _move(self, clusters: Sequence[Sequence[SlicedAggregation]]) -> bool:
        """Give queries to other sets. A set whose queries stay together stays as it is, and so does one in shards."""
        state = self._state
        before = {own.members: label for label, own in state.sets.items()}
        sets = {label: own for label, own in state.sets.items() if own.shards}
        for queries in clusters:
            names = frozenset(query.name for query in queries)
            if names in before:
                sets[before[names]] = state.sets[before[names]]
                continue
            sets[self._new_name()] = own = SharingSet(members=names)
            own.kept_stretches = KeptStretches(None if state.newest is None else state.newest + 1)
            for other in state.sets.values():
                moved = names & other.members
                if moved:
                    own.tier.inherit(other.tier, moved)
                    own.seen = other.seen
        changed = sets.keys() != state.sets.keys()
        state.sets = sets
        return changed

    def _new_name(self) -> str:
        """No set ever has the name of another: a checkpoint still has what that one kept."""
        self._state.clusters += 1
        return f"cluster {self._state.clusters}"


def placed(
    queries: Sequence[SlicedAggregation], state: StreamState, new_name: Callable[[], str]
) -> Mapping[str, Sequence[SlicedAggregation]]:
    """The queries of each sharing set, those that enter where they cost least."""
    if not state.options.is_shared:
        return {query.name: [query] for query in queries}
    if not state.sets:
        return {SHARED: queries} if queries else {}
    set_of = {name: label for label, own in state.sets.items() for name in own.members}
    members: dict[str, list[SlicedAggregation]] = {label: [] for label in state.sets}
    entering = []
    for query in queries:
        if query.name in set_of:
            members[set_of[query.name]].append(query)
        else:
            entering.append(query)
    known = [label for label, own in members.items() if own]
    if len(known) <= 1 or state.options.sharing is Sharing.ON:
        members.setdefault(next(iter(known or members), SHARED), []).extend(entering)
    else:
        for query in entering:
            there = {label: own for label, own in members.items() if own}
            label = None if state.statistics is None else Clustering.of(state.statistics).place(query, there)
            members.setdefault(new_name() if label is None else label, []).append(query)
    return {label: own for label, own in members.items() if own}
