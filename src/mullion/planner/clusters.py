"""Which queries share slices: queries are divided into clusters, a key set at a time, by what that costs.

All queries share the read and the expressions. Slices are shared inside a cluster only: its windows are cut at the
edges of all of them. That saves the work of a pass for each query and adds partials, since slices become shorter.

    W[60, 7] and W[90, 7], same WHERE      the edges are nearly the same: one cluster
    W[60, 7] and W[61, 11] by a key of     together almost every event is a partial of its own, which is worked on
    4,000 values                           again for each window: two clusters

What is counted: events that are added to a partial, by each slot (a different WHERE); partials, of which there is one
for every slice, group and fragment that holds an event (krishnamurthy 3.2.2, inequality 1, and Table 5; li 3.1-3.4);
and what a cluster takes whatever it holds. Clusters are merged greedily: a query joins the cluster that becomes dearer
by less than the query alone would cost. The whole set as one cluster, by fragments or by dense rows, is what this is
compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mullion.language.query import Expr, Period
from mullion.planner.plan import EVENTS, PredicateSlot, StateColumn, grouping_name, slot_of, states_of
from mullion.planner.sliced import AnswerTemplate, SlicedAggregation
from mullion.planner.statistics import ONE_GROUP, Groups, Statistics, expected_cells
from mullion.planner.window_set import NOTHING, WindowSet

CLUSTER = 2_500.0
"""Microseconds that a cluster takes in a batch, whatever it holds."""
TESTED = 0.0012
"""An event that is asked whether it satisfies a slot's WHERE."""
GROUPED_EVENT, GROUPED_FIELD = 0.003, 0.0015
"""An event that is added to the partial of its group, and each field of its states."""
DENSE_FIELD = 0.0004
"""The same without groups, where all slots are gone through at once."""
CELL, CELL_FIELD = 0.1, 0.02
"""A partial, from the kernel to answers, and each field of its states."""
HASHED_EVENT, HASHED_FIELD = 0.25, 0.02
"""An event that is given to its fragment, and each field of its states."""
COMBINED = 0.1
"""A fragment that is given to one of the slots whose WHERE it satisfies."""
SLICE = 0.05
"""A slice that is noted to hold an event."""
ASSUMED_SELECTIVITY = 0.3
MOST_CANDIDATES = 12
"""Clusters that a query is tried with."""
WORTH_MOVING, LEAST_GAIN = 2.0, 20_000.0
"""How many times dearer the clusters of now must be, and by how many microseconds a batch, before queries that have
sub-windows already are divided anew."""


@dataclass
class Cluster:
    """Queries that share slices, and what is counted of them."""

    grouping: str
    queries: list[SlicedAggregation] = field(default_factory=list)
    slots: dict[PredicateSlot, WindowSet] = field(default_factory=dict)
    windows: WindowSet = NOTHING
    """Those of all slots."""
    states: dict[StateColumn, None] = field(default_factory=lambda: {EVENTS: None})
    cells: dict[PredicateSlot, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Division:
    """Queries as clusters: what a batch costs by them, and in one cluster for all, in microseconds."""

    clusters: tuple[tuple[SlicedAggregation, ...], ...]
    cost: float
    together: float


class _Fragments(NamedTuple):
    """What a cluster by fragments comes to."""

    events: float
    """Those that are given to a fragment."""
    cells: float
    given: float
    """How many slots a fragment is given to."""


class Clustering:
    """Divides queries by what is known of a batch."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self.events = max(1, statistics.events or statistics.sampled)
        self._span = max(1, statistics.span or 1)
        self._selectivities: dict[str, Mapping[Expr, float]] = {}
        self._wholes: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        self._divided: tuple[tuple[SlicedAggregation, ...], Division] | None = None

    @staticmethod
    def of(statistics: Statistics) -> Clustering:
        """The same one for the same statistics, with what it has reckoned."""
        known: dict[str, Clustering] = statistics.__dict__
        return known.setdefault("_clustering", Clustering(statistics))

    def divide(self, queries: Sequence[SlicedAggregation]) -> Division:
        """The cheapest division that greedy merging finds, or one cluster for all where that costs no more."""
        asked, last = tuple(queries), self._divided
        if last is None or last[0] != asked:
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
            clusters += parts
            cost += least
        together -= CLUSTER * (len(by_keys) - 1)
        if together <= 1.2 * cost:
            return Division((tuple(queries),) if queries else (), together, together)
        return Division(tuple(clusters), cost, together)

    def text(self, queries: Sequence[SlicedAggregation], clusters: int) -> str:
        """Why these queries are a cluster, with both costs."""
        alone = sum(self.cost(self._cluster(key_set(query), [query])) for query in queries)
        which = "all queries share slices" if clusters == 1 else f"one of {clusters:,} clusters"
        if len(queries) == 1:
            return f"{which}: slices of its own, {alone / 1e3:,.1f} ms a batch"
        together = self.cost_of([queries])
        return f"{which}: {together / 1e3:,.1f} ms a batch together, {alone / 1e3:,.1f} ms with slices of their own"

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
                cluster = self._cluster(name, own)
                by_rows = self.cost(cluster) < self._by_fragments(cluster)
                cells += sum(cluster.cells.values()) if by_rows else self._fragments(cluster).cells
        return cells

    def place(self, query: SlicedAggregation, clusters: Mapping[str, Sequence[SlicedAggregation]]) -> str | None:
        """The cluster that becomes dearer by less than the query alone would cost; None where none does."""
        name = key_set(query)
        alone, best = self.cost(self._cluster(name, [query])), None
        for label, queries in clusters.items():
            if not queries or any(key_set(other) != name for other in queries):
                continue
            more = self.whole(name, [*queries, query]) - self.whole(name, queries)
            if more < alone:
                alone, best = more, label
        return best

    # One key set

    def _merge(self, name: str, queries: Sequence[SlicedAggregation]) -> list[Cluster]:
        """Queries of one window and the same states are one from the start: they are cut alike."""
        alike: dict[tuple[Period, frozenset[StateColumn]], list[SlicedAggregation]] = {}
        for query in queries:
            alike.setdefault((query.window, _states(query.template)), []).append(query)
        clusters: list[Cluster] = []
        costs: list[float] = []
        by_slot: dict[PredicateSlot, dict[int, None]] = {}
        by_states: dict[frozenset[StateColumn], dict[int, None]] = {}
        for (_, states), own in sorted(alike.items(), key=lambda item: (-len(item[1]), item[0][0].slide)):
            atom = self._cluster(name, own)
            at, best, least = len(clusters), atom, self.cost(atom)
            candidates = self._candidates(atom, by_slot, by_states.get(states, {}))
            joined = self._joined([clusters[candidate] for candidate in candidates], atom)
            for candidate, both in zip(candidates, joined, strict=True):
                more = self.cost(both) - costs[candidate]
                if more < least:
                    at, best, least = candidate, both, more
            clusters[at:], costs[at:] = [best, *clusters[at + 1 :]], [self.cost(best), *costs[at + 1 :]]
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

    def _cluster(self, name: str, queries: Sequence[SlicedAggregation]) -> Cluster:
        cluster = Cluster(name, list(queries))
        before: frozenset[StateColumn] = frozenset()
        slots: dict[PredicateSlot, dict[Period, None]] = {}
        for query in queries:
            slots.setdefault(slot_of(query), {})[query.window] = None
            states = _states(query.template)
            if states is not before:
                cluster.states |= dict.fromkeys(states)
                before = states
        cluster.slots = {slot: WindowSet.of(windows) for slot, windows in slots.items()}
        cluster.windows = WindowSet.of(dict.fromkeys(query.window for query in queries))
        cells = self._cells_of(name, list(cluster.slots.items()))
        cluster.cells = dict(zip(cluster.slots, cells, strict=True))
        return cluster

    def _joined(self, clusters: Sequence[Cluster], atom: Cluster) -> list[Cluster]:
        """The atom with each of these clusters."""
        slots = [
            [(slot, cluster.slots.get(slot, NOTHING).union(windows)) for slot, windows in atom.slots.items()]
            for cluster in clusters
        ]
        counted = iter(self._cells_of(atom.grouping, [both for own in slots for both in own]))
        return [
            Cluster(
                atom.grouping,
                cluster.queries + atom.queries,
                cluster.slots | dict(both),
                cluster.windows.union(atom.windows),
                cluster.states | atom.states,
                cluster.cells | {slot: next(counted) for slot, _ in both},
            )
            for cluster, both in zip(clusters, slots, strict=True)
        ]

    # Costs

    def cost(self, cluster: Cluster) -> float:
        """By dense rows, where each slot is cut at the edges of its own windows; by fragments where states are of no
        fixed size."""
        if not all(state.partial.is_dense for state in cluster.states):
            return self._by_fragments(cluster)
        fields = _fields(cluster.states)
        cells = sum(cluster.cells.values()) * (CELL + CELL_FIELD * fields)
        return CLUSTER + self._added(cluster, fields) + cells + SLICE * self._slices(cluster.windows)

    def _added(self, cluster: Cluster, fields: int) -> float:
        """Events that are added to partials, slot by slot."""
        if cluster.grouping == "()":
            return self.events * len(cluster.slots) * DENSE_FIELD * fields
        name, slots = cluster.grouping, cluster.slots.items()
        selected = sum(self._selectivity(name, slot) * windows.kept_share for slot, windows in slots)
        return self.events * (len(cluster.slots) * TESTED + selected * (GROUPED_EVENT + GROUPED_FIELD * fields))

    def _least_divided(self, cluster: Cluster) -> float:
        """No division of it takes less: that has two clusters, and adds events at least once to each slot."""
        if not all(state.partial.is_dense for state in cluster.states):
            return 2 * CLUSTER
        fewest = min(_fields(states) for states in {_states(query.template) for query in cluster.queries})
        return 2 * CLUSTER + self._added(cluster, fewest)

    def whole(self, name: str, queries: Sequence[SlicedAggregation]) -> float:
        """All of them as one cluster, by dense rows or by fragments."""
        key = name, frozenset((query.name, query.text) for query in queries)
        if key not in self._wholes:
            self._wholes[key] = self._whole(self._cluster(name, queries))
        return self._wholes[key]

    def _whole(self, cluster: Cluster) -> float:
        return min(self.cost(cluster), self._by_fragments(cluster))

    def _by_fragments(self, cluster: Cluster) -> float:
        """All slots are cut at the edges of all windows; a fragment is given to every slot that it satisfies."""
        fields, slices = _fields(cluster.states), self._slices(cluster.windows)
        events, cells, given = self._fragments(cluster)
        work = self.events * HASHED_EVENT + events * HASHED_FIELD * fields
        return CLUSTER + work + cells * (CELL + CELL_FIELD * fields + given * COMBINED) + SLICE * slices

    def _fragments(self, cluster: Cluster) -> _Fragments:
        name = cluster.grouping
        conditions = [slot.condition for slot in cluster.slots if slot.condition is not None]
        selective = len(conditions) == len(cluster.slots)
        groups, given = self._groups(name), float(len(cluster.slots))
        if conditions:
            fragments = self._statistics.fragments(name, conditions, with_groups=True)
            groups = _assumed_fragments(groups, self.events, len(conditions)) if fragments is None else fragments
            given = max(1.0, sum(self._selectivity(name, slot) for slot in cluster.slots))
        windows = cluster.windows
        events = self.events * (1.0 if not selective else min(1.0, given)) * windows.kept_share
        return _Fragments(events, float(expected_cells(self._kept_slices(windows), events, groups)), given)

    def _groups(self, name: str) -> Groups:
        return ONE_GROUP if name == "()" else self._statistics.groups.get(name, ONE_GROUP)

    def _selectivity(self, name: str, slot: PredicateSlot) -> float:
        if slot.predicate is None:
            return 1.0
        if name not in self._selectivities:
            self._selectivities[name] = self._statistics.selectivities(name)
        return self._selectivities[name].get(slot.predicate, ASSUMED_SELECTIVITY)

    def _cells_of(self, name: str, slots: Sequence[tuple[PredicateSlot, WindowSet]]) -> list[float]:
        """The partials of each slot with its windows. All are counted together: each by itself takes longer than a
        hundred of them."""
        slices = np.array([self._kept_slices(windows) for _, windows in slots])
        shares = np.array([windows.kept_share for _, windows in slots])
        counted = self._statistics.cells(name, [slot.predicate for slot, _ in slots], slices, shares)
        if counted is None:
            selected = np.array([self._selectivity(name, slot) for slot, _ in slots])
            counted = expected_cells(slices, self.events * shares * selected, self._groups(name))
        return list(counted.tolist())

    def _kept_slices(self, windows: WindowSet) -> float:
        """The slices whose events are kept."""
        kept = (windows.slices_a_microsecond - windows.gaps_a_microsecond) * self._span
        return max(1.0, min(self.events * windows.kept_share, kept))

    def _slices(self, windows: WindowSet) -> float:
        return max(1.0, min(float(self.events), windows.slices_a_microsecond * self._span))


def _assumed_fragments(groups: Groups, events: int, conditions: int) -> Groups:
    number = min(events, groups.number * min(events, 2 ** min(conditions, 20)))
    return Groups(number, np.empty(0), unseen=1.0)


def key_set(query: SlicedAggregation) -> str:
    return grouping_name(query.keys, query.lookups)


def _by_key_set(queries: Iterable[SlicedAggregation]) -> dict[str, list[SlicedAggregation]]:
    by_keys: dict[str, list[SlicedAggregation]] = {}
    for query in queries:
        by_keys.setdefault(key_set(query), []).append(query)
    return by_keys


@lru_cache(maxsize=1 << 12)
def _states(template: AnswerTemplate) -> frozenset[StateColumn]:
    return frozenset(state for aggregate in template.aggregates for state in states_of(aggregate))


def _fields(states: Iterable[StateColumn]) -> int:
    return sum(len(state.partial.stored) for state in states)
