"""What a cluster of queries takes in a batch, in microseconds, as statistics of the batch tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mullion.language.query import Expr, Period
from mullion.planner.cluster import Cluster, Growth
from mullion.planner.plan import StateColumn, states_of
from mullion.planner.predicate_slot import PredicateSlot
from mullion.planner.sliced import AnswerTemplate, SlicedAggregation
from mullion.planner.statistics import ONE_GROUP, SampledGroups, Statistics, expected_cells
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


class _Fragments(NamedTuple):
    """What a cluster by fragments comes to."""

    events: float
    """Those that are given to a fragment."""
    cells: float
    given: float
    """How many slots a fragment is given to."""


class ClusterCosts:
    """Costs by what is known of a batch."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self.events = max(1, statistics.events or statistics.sampled)
        self._span = max(1, statistics.span or 1)
        self._selectivities: dict[str, Mapping[Expr, float]] = {}

    def _cluster(self, name: str, queries: Sequence[SlicedAggregation]) -> Cluster:
        cluster = Cluster(name, list(queries))
        before: frozenset[StateColumn] = frozenset()
        slots: dict[PredicateSlot, dict[Period, None]] = {}
        for query in queries:
            slots.setdefault(query.slot, {})[query.window] = None
            states = states_needed(query.template)
            if states is not before:
                cluster.states |= dict.fromkeys(states)
                before = states
        cluster.slots = {slot: WindowSet.of(windows) for slot, windows in slots.items()}
        only = len(slots) == 1
        cluster.windows = (
            next(iter(cluster.slots.values()))
            if only
            else WindowSet.of(dict.fromkeys(query.window for query in queries))
        )
        cells = self._cells_of(name, list(cluster.slots.items()))
        cluster.cells, cluster.all_cells = dict(zip(cluster.slots, cells, strict=True)), sum(cells)
        cluster.selected = sum(self._selected(name, slot, windows) for slot, windows in cluster.slots.items())
        return cluster

    def _growths(self, clusters: Sequence[Cluster], atom: Cluster) -> list[Growth]:
        """What each of these clusters would be with the atom."""
        slots = [
            {slot: cluster.slots.get(slot, NOTHING).union(windows) for slot, windows in atom.slots.items()}
            for cluster in clusters
        ]
        counted = iter(self._cells_of(atom.grouping, [both for own in slots for both in own.items()]))
        return [
            self._growth(cluster, atom, own, {slot: next(counted) for slot in own})
            for cluster, own in zip(clusters, slots, strict=True)
        ]

    def _growth(
        self,
        cluster: Cluster,
        atom: Cluster,
        slots: dict[PredicateSlot, WindowSet],
        cells: dict[PredicateSlot, float],
    ) -> Growth:
        windows, states = cluster.windows.union(atom.windows), cluster.states | atom.states
        if not are_dense(states):
            whole = Cluster(atom.grouping, [], cluster.slots | slots, windows, states)
            return Growth(slots, cells, windows, states, 0.0, 0.0, self._by_fragments(whole))
        name, selected, all_cells = atom.grouping, cluster.selected, cluster.all_cells
        for slot, both in slots.items():
            selected += self._selected(name, slot, both)
            all_cells += cells[slot]
            if slot in cluster.slots:
                selected -= self._selected(name, slot, cluster.slots[slot])
                all_cells -= cluster.cells[slot]
        number = len(cluster.slots) + sum(slot not in cluster.slots for slot in slots)
        cost = self._by_rows(name, number, selected, all_cells, states, windows)
        return Growth(slots, cells, windows, states, all_cells, selected, cost)

    def cost(self, cluster: Cluster) -> float:
        """By dense rows, where each slot is cut at the edges of its own windows; by fragments where states are of no
        fixed size."""
        if not are_dense(cluster.states):
            return self._by_fragments(cluster)
        number, selected, cells = len(cluster.slots), cluster.selected, cluster.all_cells
        return self._by_rows(cluster.grouping, number, selected, cells, cluster.states, cluster.windows)

    def _by_rows(
        self,
        name: str,
        slots: int,
        selected: float,
        cells: float,
        states: Iterable[StateColumn],
        windows: WindowSet,
    ) -> float:
        fields = fields_of(states)
        partials = cells * (CELL + CELL_FIELD * fields)
        return CLUSTER + self._added(name, slots, selected, fields) + partials + SLICE * self._slices(windows)

    def _added(self, name: str, slots: int, selected: float, fields: int) -> float:
        """Events that are added to partials, slot by slot."""
        if name == "()":
            return self.events * slots * DENSE_FIELD * fields
        return self.events * (slots * TESTED + selected * (GROUPED_EVENT + GROUPED_FIELD * fields))

    def _selected(self, name: str, slot: PredicateSlot, windows: WindowSet) -> float:
        """The share of the events that a slot adds to its partials."""
        return self._selectivity(name, slot) * windows.kept_share

    def _whole(self, cluster: Cluster) -> float:
        return min(self.cost(cluster), self._by_fragments(cluster))

    def _by_fragments(self, cluster: Cluster) -> float:
        """All slots are cut at the edges of all windows; a fragment is given to every slot that it satisfies."""
        fields, slices = fields_of(cluster.states), self._slices(cluster.windows)
        events, cells, given = self._fragments(cluster)
        work = self.events * HASHED_EVENT + events * HASHED_FIELD * fields
        return CLUSTER + work + cells * (CELL + CELL_FIELD * fields + given * COMBINED) + SLICE * slices

    def _fragments(self, cluster: Cluster) -> _Fragments:
        name = cluster.grouping
        conditions = tuple([slot.condition for slot in cluster.slots if slot.condition is not None])
        selective = len(conditions) == len(cluster.slots)
        groups, given = self._groups(name), float(len(cluster.slots))
        if conditions:
            fragments = self._statistics.fragments(name, conditions, with_groups=True)
            groups = _assumed_fragments(groups, self.events, len(conditions)) if fragments is None else fragments
            given = max(1.0, sum(self._selectivity(name, slot) for slot in cluster.slots))
        windows = cluster.windows
        events = self.events * (1.0 if not selective else min(1.0, given)) * windows.kept_share
        return _Fragments(events, float(expected_cells(self._kept_slices(windows), events, groups)), given)

    def _groups(self, name: str) -> SampledGroups:
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


def _assumed_fragments(groups: SampledGroups, events: int, conditions: int) -> SampledGroups:
    number = min(events, groups.number * min(events, 2 ** min(conditions, 20)))
    return SampledGroups(number, np.empty(0), unseen=1.0)


@lru_cache(maxsize=1 << 12)
def states_needed(template: AnswerTemplate) -> frozenset[StateColumn]:
    return frozenset(state for aggregate in template.aggregates for state in states_of(aggregate))


def are_dense(states: Iterable[StateColumn]) -> bool:
    return all(state.partial.is_dense for state in states)


def fields_of(states: Iterable[StateColumn]) -> int:
    return sum(len(state.partial.stored) for state in states)
