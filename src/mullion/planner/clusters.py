"""Which queries share slices: queries are divided into clusters, a key set at a time, by what that costs.

All queries share the read and the expressions. Slices are shared inside a cluster only: its windows are cut at the
edges of all of them. That saves the work of a pass for each query and adds partials, since slices become shorter.

    W[60, 7] and W[90, 7], same WHERE      the edges are nearly the same: one cluster
    W[60, 7] and W[61, 11] by a key of     together almost every event is a partial of its own, which is worked on
    4,000 values                           again for each window: two clusters

What is counted: events that are added to a partial, by each slot (a different WHERE); partials, of which there is one
for every slice, group and fragment that holds an event (krishnamurthy 3.2.2, inequality 1, and Table 5; li 3.1-3.4);
and what a cluster takes whatever it holds. Clusters are merged greedily: a query enters the cluster that becomes dearer
by less than the query alone would cost. The whole set as one cluster, by fragments or by dense rows, is what this is
compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mullion.language.query import Period
from mullion.planner.cluster import Cluster
from mullion.planner.cluster_costs import CLUSTER, ClusterCosts, are_dense, fields_of, states_needed
from mullion.planner.plan import EVENTS, StateColumn, grouping_name
from mullion.planner.predicate_slot import PredicateSlot
from mullion.planner.query_set import QuerySet
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.statistics import Statistics

MOST_CANDIDATES = 12
"""Clusters that a query is tried with."""
MOST_COMPARED = 128
"""Of more clusters EXPLAIN does not look for the best other one of each: a second would not do."""
WORTH_MOVING, LEAST_GAIN = 2.0, 20_000.0
"""How many times dearer the clusters of now must be, and by how many microseconds a batch, before queries that have
sub-windows already are divided anew."""


@dataclass(frozen=True)
class Division:
    """Queries as clusters: what a batch costs by them, and in one cluster for all, in microseconds."""

    clusters: tuple[tuple[SlicedAggregation, ...], ...]
    cost: float
    together: float


class Clustering(ClusterCosts):
    """Divides queries by what is known of a batch."""

    def __init__(self, statistics: Statistics) -> None:
        super().__init__(statistics)
        self._wholes: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        self._divided: tuple[tuple[SlicedAggregation, ...], Division] | None = None
        self._merged: dict[tuple[int, ...], Cluster] = {}
        """Those of the last division, by which queries they are."""

    @staticmethod
    def of(statistics: Statistics) -> Clustering:
        """The same one for the same statistics, with what it has reckoned."""
        known: dict[str, Clustering] = statistics.__dict__
        return known.setdefault("_clustering", Clustering(statistics))

    @staticmethod
    def is_one(queries: Sequence[SlicedAggregation]) -> bool:
        """Whether no division takes less than one cluster, whatever a batch holds (see `_least_divided`): all have the
        same keys and keep the same states, so that none has a field less to add by itself."""
        queries = QuerySet.of(queries)
        states = set(map(states_needed, queries.templates[1]))
        return len(states) == 1 and are_dense(*states) and len(queries.key_sets) == 1

    def divide(self, queries: Sequence[SlicedAggregation]) -> Division:
        """The cheapest division that greedy merging finds, or one cluster for all where that costs no more."""
        asked, last = tuple(queries), self._divided
        if last is None or last[0] != asked:
            self._merged.clear()
            last = self._divided = asked, self._divide(asked)
        return last[1]

    def _divide(self, queries: Sequence[SlicedAggregation]) -> Division:
        cost = together = 0.0
        clusters: list[tuple[SlicedAggregation, ...]] = []
        by_keys = _by_key_set(queries)
        for name, own in by_keys.items():
            all_ = self._cluster(name, own)
            least, parts = self._whole(all_), [tuple(own)]
            together += least
            if least > self._least_divided(all_):
                merged = self._merge(name, own)
                divided = sum(map(self.cost, merged))
                if divided < least:
                    least, parts = divided, [tuple(cluster.queries) for cluster in merged]
                    self._merged |= {_identity(cluster.queries): cluster for cluster in merged}
            clusters += parts
            cost += least
        together -= CLUSTER * (len(by_keys) - 1)
        if together <= 1.2 * cost:
            return Division((tuple(queries),) if queries else (), together, together)
        return Division(tuple(clusters), cost, together)

    def text(self, name: str, clusters: Mapping[str, Sequence[SlicedAggregation]]) -> str:
        """Why the queries of one of the clusters are one, with both costs."""
        queries = clusters[name]
        alone = sum(self.cost(self._cluster(key_set(query), [query])) for query in queries)
        which = "all queries share slices" if len(clusters) == 1 else f"{name}, one of {len(clusters):,}"
        if len(queries) > 1:
            together = self.cost_of([queries])
            return f"{which}: {together / 1e3:,.1f} ms a batch together, {alone / 1e3:,.1f} ms with slices of their own"
        text = f"slices of its own, {alone / 1e3:,.1f} ms a batch"
        if len(clusters) == 1:
            return f"the only query: {text}"
        if len(clusters) > MOST_COMPARED:
            return f"{which}: {text}"
        best = self._least_growth(queries[0], {label: own for label, own in clusters.items() if label != name})
        if best is None:
            return f"{which}: {text}; no other groups by its keys"
        return f"{which}: {text}; in {best[0]}, the best other, it would cost {best[1] / 1e3:,.1f} ms"

    def cost_of(self, clusters: Iterable[Sequence[SlicedAggregation]]) -> float:
        """What a batch costs by these clusters."""
        cost = 0.0
        for queries in clusters:
            by_keys = _by_key_set(queries)
            cost += sum(self.whole(name, own) for name, own in by_keys.items()) - CLUSTER * (len(by_keys) - 1)
        return cost

    def partials(self, clusters: Iterable[Sequence[SlicedAggregation]]) -> float:
        """About how many partials a batch leaves by these clusters."""
        cells = 0.0
        for queries in clusters:
            for name, own in _by_key_set(queries).items():
                known = self._merged.get(_identity(own))
                cluster = self._cluster(name, own) if known is None else known
                by_rows = are_dense(cluster.states)
                if len(cluster.slots) > 1:  # of a single one both leave the same
                    by_rows = self.cost(cluster) < self._by_fragments(cluster)
                cells += cluster.all_cells if by_rows else self._fragments(cluster).cells
        return cells

    def place(self, query: SlicedAggregation, clusters: Mapping[str, Sequence[SlicedAggregation]]) -> str | None:
        """The cluster that becomes dearer by less than the query alone would cost; None where none does."""
        best = self._least_growth(query, clusters)
        return None if best is None or best[1] >= self.cost(self._cluster(key_set(query), [query])) else best[0]

    def _least_growth(
        self, query: SlicedAggregation, clusters: Mapping[str, Sequence[SlicedAggregation]]
    ) -> tuple[str, float] | None:
        """The cluster of its key set that becomes dearer by the least when a query enters it, and by how much."""
        name, best = key_set(query), None
        for label, queries in clusters.items():
            if not queries or any(key_set(other) != name for other in queries):
                continue
            more = self.whole(name, [*queries, query]) - self.whole(name, queries)
            if best is None or more < best[1]:
                best = label, more
        return best

    # One key set

    def _merge(self, name: str, queries: Sequence[SlicedAggregation]) -> list[Cluster]:
        """Queries of one window and the same states are one from the start: they are cut alike."""
        alike: dict[tuple[Period, frozenset[StateColumn]], list[SlicedAggregation]] = {}
        for query in queries:
            alike.setdefault((query.window, states_needed(query.template)), []).append(query)
        clusters: list[Cluster] = []
        costs: list[float] = []
        by_slot: dict[PredicateSlot, dict[int, None]] = {}
        by_states: dict[frozenset[StateColumn], dict[int, None]] = {}
        for (_, states), own in sorted(alike.items(), key=lambda item: (-len(item[1]), item[0][0].slide)):
            atom = self._cluster(name, own)
            at, growth, least = len(clusters), None, self.cost(atom)
            candidates = self._candidates(atom, by_slot, by_states.get(states, {}))
            grown = self._growths([clusters[candidate] for candidate in candidates], atom)
            for candidate, both in zip(candidates, grown, strict=True):
                more = both.cost - costs[candidate]
                if more < least:
                    at, growth, least = candidate, both, more
            if growth is None:
                clusters.append(atom)
                costs.append(least)
            else:
                clusters[at].take(atom, growth)
                costs[at] = growth.cost
            for slot in atom.slots:
                by_slot.setdefault(slot, {})[at] = None
            by_states.setdefault(states, {})[at] = None
        return clusters

    @staticmethod
    def _candidates(
        atom: Cluster, by_slot: Mapping[PredicateSlot, dict[int, None]], by_states: dict[int, None]
    ) -> list[int]:
        slots = list(atom.slots)[:MOST_CANDIDATES]
        sharing = [at for slot in slots for at in list(by_slot.get(slot, {}))[-MOST_CANDIDATES:]]
        return list(dict.fromkeys([*sharing, *list(by_states)[-MOST_CANDIDATES:]]))

    def _least_divided(self, cluster: Cluster) -> float:
        """No division of it takes less. It has two clusters, adds events at least once to each slot, to a single one in
        both, and is cut at every edge somewhere: slots have no fewer partials when others are cut elsewhere. It saves
        fields that not all queries need."""
        if not are_dense(cluster.states):
            return 2 * CLUSTER
        needed = {states_needed(query.template) for query in cluster.queries}
        fewest = dict.fromkeys(min(({EVENTS, *states} for states in needed), key=fields_of))
        name, slots, cells = cluster.grouping, len(cluster.slots), cluster.all_cells
        once = self._by_rows(name, slots, cluster.selected, cells, fewest, cluster.windows)
        again = self._added(name, slots, cluster.selected, fields_of(fewest)) if slots == 1 else 0.0
        return CLUSTER + once + again

    def whole(self, name: str, queries: Sequence[SlicedAggregation]) -> float:
        """All of them as one cluster, by dense rows or by fragments."""
        key = name, frozenset((query.name, query.text) for query in queries)
        if key not in self._wholes:
            self._wholes[key] = self._whole(self._cluster(name, queries))
        return self._wholes[key]


def _identity(queries: Iterable[SlicedAggregation]) -> tuple[int, ...]:
    """Which queries they are, and in which order: the division that they are of has them all."""
    return tuple(map(id, queries))


def key_set(query: SlicedAggregation) -> str:
    return grouping_name(query.keys, query.lookups)


def _by_key_set(queries: Iterable[SlicedAggregation]) -> dict[str, list[SlicedAggregation]]:
    by_name: dict[str, list[SlicedAggregation]] = {}
    for own in QuerySet.of(queries).key_sets:
        by_name.setdefault(key_set(own[0]), []).extend(own)
    return by_name
