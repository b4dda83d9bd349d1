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
from math import gcd
from typing import NamedTuple

import numpy as np

from mullion.instants import EVERYTHING
from mullion.language.query import Expr, Period
from mullion.planner.plan import EVENTS, PredicateSlot, StateColumn, grouping_name, slot_of, states_of
from mullion.planner.sliced import AnswerTemplate, SlicedAggregation
from mullion.planner.slices import covered_share, is_hopping
from mullion.planner.statistics import ONE_GROUP, Groups, Statistics, expected_cells

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
    slots: dict[PredicateSlot, dict[Period, None]] = field(default_factory=dict)
    states: dict[StateColumn, None] = field(default_factory=lambda: {EVENTS: None})
    cells: dict[PredicateSlot, float] = field(default_factory=dict)

    @property
    def windows(self) -> dict[Period, None]:
        return {window: None for windows in self.slots.values() for window in windows}


@dataclass(frozen=True)
class Division:
    """Queries as clusters: what a batch costs by them, and in one cluster for all, in microseconds."""

    clusters: tuple[tuple[SlicedAggregation, ...], ...]
    cost: float
    together: float
    apart: float
    """What it costs when every query has slices of its own."""


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
        self._cells: dict[tuple[str, Expr | None, tuple[Period, ...]], float] = {}
        self._wholes: dict[tuple[str, frozenset[str]], float] = {}

    def divide(self, queries: Sequence[SlicedAggregation]) -> Division:
        """The cheapest division that greedy merging finds, or one cluster for all where that costs no more."""
        cost = together = apart = 0.0
        clusters: list[tuple[SlicedAggregation, ...]] = []
        by_keys = _by_key_set(queries)
        for name, own in by_keys.items():
            merged = self._merge(name, own)
            found, whole = sum(map(self.cost, merged)), self.whole(name, own)
            apart += sum(self._alone(name, query) for query in own)
            together += whole
            if whole <= found:
                clusters.append(tuple(own))
            else:
                clusters += [tuple(cluster.queries) for cluster in merged]
            cost += min(found, whole)
        together -= CLUSTER * (len(by_keys) - 1)
        if together <= 1.2 * cost:
            return Division((tuple(queries),) if queries else (), together, together, apart)
        return Division(tuple(clusters), cost, together, apart)

    def text(self, queries: Sequence[SlicedAggregation], clusters: int) -> str:
        """Why these queries are a cluster, with both costs."""
        alone = sum(self._alone(key_set(query), query) for query in queries)
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
        alone, best = self._alone(name, query), None
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
        by_slot: dict[PredicateSlot, dict[int, None]] = {}
        by_states: dict[frozenset[StateColumn], dict[int, None]] = {}
        for (_, states), own in sorted(alike.items(), key=lambda item: (-len(item[1]), item[0][0].slide)):
            atom = self._cluster(name, own)
            best, least = -1, self.cost(atom)
            for at in self._candidates(atom, by_slot, by_states.get(states, {})):
                more = self._joined_cost(clusters[at], atom) - self.cost(clusters[at])
                if more < least:
                    best, least = at, more
            if best < 0:
                best = len(clusters)
                clusters.append(atom)
            else:
                self._join(clusters[best], atom)
            for slot in atom.slots:
                by_slot.setdefault(slot, {})[best] = None
            by_states.setdefault(states, {})[best] = None
        return clusters

    @staticmethod
    def _candidates(
        atom: Cluster, by_slot: Mapping[PredicateSlot, dict[int, None]], by_states: dict[int, None]
    ) -> list[int]:
        slots = list(atom.slots)[:MOST_CANDIDATES]
        sharing = [at for slot in slots for at in list(by_slot.get(slot, {}))[-MOST_CANDIDATES:]]
        return list(dict.fromkeys([*sharing, *list(by_states)[-MOST_CANDIDATES:]]))

    def _cluster(self, name: str, queries: Sequence[SlicedAggregation]) -> Cluster:
        cluster = Cluster(name)
        before: frozenset[StateColumn] = frozenset()
        for query in queries:
            cluster.queries.append(query)
            cluster.slots.setdefault(slot_of(query), {})[query.window] = None
            states = _states(query.template)
            if states is not before:
                cluster.states |= dict.fromkeys(states)
                before = states
        cluster.cells = self._cells_of(name, cluster.slots)
        return cluster

    def _join(self, cluster: Cluster, atom: Cluster) -> None:
        cluster.queries += atom.queries
        cluster.states |= atom.states
        for slot, windows in atom.slots.items():
            own = cluster.slots.setdefault(slot, {})
            own |= windows
            cluster.cells |= self._cells_of(cluster.grouping, {slot: own})

    def _joined_cost(self, cluster: Cluster, atom: Cluster) -> float:
        slots, cells = dict(cluster.slots), dict(cluster.cells)
        both = {slot: {**slots.get(slot, {}), **windows} for slot, windows in atom.slots.items()}
        slots |= both
        cells |= self._cells_of(cluster.grouping, both)
        return self.cost(Cluster(cluster.grouping, [], slots, cluster.states | atom.states, cells))

    def _alone(self, name: str, query: SlicedAggregation) -> float:
        return self.cost(self._cluster(name, [query]))

    # Costs

    def cost(self, cluster: Cluster) -> float:
        """By dense rows, where each slot is cut at the edges of its own windows; by fragments where states are of no
        fixed size."""
        if not all(state.partial.is_dense for state in cluster.states):
            return self._by_fragments(cluster)
        fields = _fields(cluster.states)
        if cluster.grouping == "()":
            added = len(cluster.slots) * DENSE_FIELD * fields
        else:
            name, slots = cluster.grouping, cluster.slots.items()
            selected = sum(self._selectivity(name, slot) * kept_share(tuple(windows)) for slot, windows in slots)
            added = len(cluster.slots) * TESTED + selected * (GROUPED_EVENT + GROUPED_FIELD * fields)
        cells = sum(cluster.cells.values()) * (CELL + CELL_FIELD * fields)
        return CLUSTER + self.events * added + cells + SLICE * self._slices(cluster.windows)

    def whole(self, name: str, queries: Sequence[SlicedAggregation]) -> float:
        """All of them as one cluster, by dense rows or by fragments."""
        key = name, frozenset(query.name for query in queries)
        if key not in self._wholes:
            cluster = self._cluster(name, queries)
            self._wholes[key] = min(self.cost(cluster), self._by_fragments(cluster))
        return self._wholes[key]

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
            groups = self._assumed_fragments(name, len(conditions)) if fragments is None else fragments
            given = max(1.0, sum(self._selectivity(name, slot) for slot in cluster.slots))
        windows = tuple(cluster.windows)
        events = self.events * (1.0 if not selective else min(1.0, given)) * kept_share(windows)
        return _Fragments(events, float(expected_cells(self._kept_slices(windows), events, groups)), given)

    def _assumed_fragments(self, name: str, conditions: int) -> Groups:
        groups = self._groups(name).number * min(self.events, 2 ** min(conditions, 20))
        number = int(min(self.events, groups))
        return Groups(number, np.empty(0), unseen=1.0)

    def _groups(self, name: str) -> Groups:
        return ONE_GROUP if name == "()" else self._statistics.groups.get(name, ONE_GROUP)

    def _selectivity(self, name: str, slot: PredicateSlot) -> float:
        if slot.predicate is None:
            return 1.0
        if name not in self._selectivities:
            self._selectivities[name] = self._statistics.selectivities(name)
        return self._selectivities[name].get(slot.predicate, ASSUMED_SELECTIVITY)

    def _cells_of(self, name: str, slots: Mapping[PredicateSlot, Iterable[Period]]) -> dict[PredicateSlot, float]:
        """The partials of each slot. All that are not known yet are counted together: each by itself takes longer than
        a hundred of them."""
        keys = {slot: (name, slot.predicate, tuple(windows)) for slot, windows in slots.items()}
        new = {key: slot for slot, key in keys.items() if key not in self._cells}
        if new:
            slices = np.array([self._kept_slices(windows) for _, _, windows in new])
            shares = np.array([kept_share(windows) for _, _, windows in new])
            counted = self._statistics.cells(name, [predicate for _, predicate, _ in new], slices, shares)
            if counted is None:
                selected = np.array([self._selectivity(name, slot) for slot in new.values()])
                counted = expected_cells(slices, self.events * shares * selected, self._groups(name))
            self._cells |= dict(zip(new, counted.tolist(), strict=True))
        return {slot: self._cells[key] for slot, key in keys.items()}

    def _kept_slices(self, windows: tuple[Period, ...]) -> float:
        """The slices whose events are kept."""
        kept = (slices_a_microsecond(windows) - gaps_a_microsecond(windows)) * self._span
        return max(1.0, min(self.events * kept_share(windows), kept))

    def _slices(self, windows: Iterable[Period]) -> float:
        return max(1.0, min(float(self.events), slices_a_microsecond(tuple(windows)) * self._span))


def key_set(query: SlicedAggregation) -> str:
    return grouping_name(query.keys, query.lookups)


def _by_key_set(queries: Iterable[SlicedAggregation]) -> dict[str, list[SlicedAggregation]]:
    by_keys: dict[str, list[SlicedAggregation]] = {}
    for query in queries:
        by_keys.setdefault(key_set(query), []).append(query)
    return by_keys


@lru_cache(maxsize=1 << 14)
def slices_a_microsecond(windows: tuple[Period, ...]) -> float:
    """About how many slices the edges of all windows cut, as if edges that do not fall on one another by their steps
    lay anywhere on the common grid.

    >>> round(3_600_000_000 * slices_a_microsecond((Period(1_800_000_000, 60_000_000), Period(60_000_000, 60_000_000))))
    60
    """
    progressions = dict.fromkeys(progression for window in windows for progression in _progressions(window))
    grid = 0
    for first, step in progressions:
        grid = gcd(grid, step, first)
    free = 1.0
    for _, step in progressions:
        free *= 1.0 - grid / step
    return (1.0 - free) / grid if grid else 0.0


@lru_cache(maxsize=1 << 14)
def kept_share(windows: tuple[Period, ...]) -> float:
    """About which part of the events is kept: those between windows are not, if all windows hop."""
    return covered_share(windows) if all(map(is_hopping, windows)) else 1.0


@lru_cache(maxsize=1 << 14)
def gaps_a_microsecond(windows: tuple[Period, ...]) -> float:
    """About how many slices lie in no window: those that begin where a window ends, outside of all others.

    >>> 8 * gaps_a_microsecond((Period(1, 4),)), 8 * gaps_a_microsecond((Period(1, 4), Period(4, 8)))
    (2.0, 1.75)
    """
    if not all(map(is_hopping, windows)):
        return 0.0
    return sum(
        (1.0 - covered_share([*windows[:at], *windows[at + 1 :]])) / window.slide for at, window in enumerate(windows)
    )


def _progressions(window: Period) -> tuple[tuple[int, int], ...]:
    if window.slide >= EVERYTHING:
        return ()
    end = window.offset % window.slide, window.slide
    if window.range >= EVERYTHING or window.range % window.slide == 0:
        return (end,)
    return end, ((window.offset - window.range) % window.slide, window.slide)


@lru_cache(maxsize=1 << 12)
def _states(template: AnswerTemplate) -> frozenset[StateColumn]:
    return frozenset(state for aggregate in template.aggregates for state in states_of(aggregate))


def _fields(states: Iterable[StateColumn]) -> int:
    return sum(len(state.partial.stored) for state in states)


__all__ = ["LEAST_GAIN", "WORTH_MOVING", "Clustering", "Division", "key_set", "slices_a_microsecond"]
