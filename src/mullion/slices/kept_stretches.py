"""Which stretches of a stream sub-windows keep: whether these can answer a query that enters now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mullion.expressions.arrays import Times
from mullion.language.query import Period
from mullion.planner.plan import EVENTS, ROWS, Grouping, Plan, StateColumn, grouping_name, states_of
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.slices import edges_between, lies_in, most_edges, residues

GivenEdges = tuple[int, ...] | None
MOST_EDGES = 10_000
"""Ends of windows that are tried for a question."""


@dataclass
class KeptStretch:
    """What the batches under one plan kept, up to an event time."""

    plan: Plan | None
    newest: int

    def serves(self, query: SlicedAggregation, edges: GivenEdges = None, window: Period | None = None) -> bool:
        """Whether these batches kept the query's groups, slot and states of all events in its windows, or in the one
        given, and cut the stream at its edges, or at those given."""
        if self.plan is None:
            return False
        needed: dict[str, set[StateColumn]] = {grouping_name(query.keys, query.lookups): {EVENTS}}
        own = next(iter(needed.values()))
        for aggregate in query.template.aggregates:
            own.update(states_of(aggregate))
            if aggregate.values:
                needed[grouping_name(query.keys, query.lookups, [e for e, _ in aggregate.values])] = {EVENTS}
        window = query.window if window is None else window
        return all(self._keeps(query, name, states, edges, window) for name, states in needed.items())

    def _keeps(
        self, query: SlicedAggregation, name: str, states: set[StateColumn], edges: GivenEdges, window: Period
    ) -> bool:
        assert self.plan is not None
        for at, grouping in enumerate(self.plan.groupings):
            if grouping.name == name and query.slot in grouping.slots:
                hopping = self._hopping(query, grouping, at)
                if hopping and not lies_in(window, hopping):
                    return False
                cuts = self._cuts(query, grouping, at)
                if edges is None:
                    has_edges = _holds(cuts, residues([query.window]))
                else:
                    has_edges = all((((edge - cuts[:, 0]) % cuts[:, 1]) == 0).any() for edge in edges)
                return states <= grouping.state_set and has_edges
        return False

    def _cuts(self, query: SlicedAggregation, grouping: Grouping, at: int) -> Times:
        """Where the batches were cut for the query's slot, as progressions."""
        assert self.plan is not None
        if self.plan.way == "native":
            return np.array([[self.plan.grid.origin, self.plan.grid.step]], np.int64)
        if self.plan.methods[at] == ROWS:
            own = grouping.slots.index(query.slot)
            cuts: Times = grouping.progressions.rows[grouping.progressions.slot == own]
            return cuts
        return residues(self.plan.windows, self.plan.slicing)

    def _hopping(self, query: SlicedAggregation, grouping: Grouping, at: int) -> tuple[Period, ...]:
        """The windows between which events of the query's slot were not kept; none where all were."""
        assert self.plan is not None
        if self.plan.way != "native" and self.plan.methods[at] == ROWS:
            return grouping.hopping[grouping.slots.index(query.slot)]
        return grouping.all_hopping


class KeptStretches:
    """The plans under which batches were made into sub-windows, as far back as these are kept."""

    def __init__(self, since: int | None = None) -> None:
        self.since = since
        """What was kept before this time is not known; None when everything is."""
        self._kept: list[KeptStretch] = []

    def note(self, plan: Plan | None, newest: int) -> None:
        """A batch with events up to this time was aggregated under the plan; None: there was no query."""
        last = self._kept[-1] if self._kept else None
        if last is not None and _alike(last.plan, plan):
            last.newest = max(last.newest, newest)
        else:
            self._kept.append(KeptStretch(plan, newest))

    def forget(self, horizon: int) -> None:
        self._kept = [kept for kept in self._kept if kept.newest >= horizon]
        self.since = horizon if self.since is None else max(self.since, horizon)

    def copy(self) -> KeptStretches:
        copied = KeptStretches(self.since)
        copied._kept = [KeptStretch(kept.plan, kept.newest) for kept in self._kept]
        return copied

    def holds_window(self, query: SlicedAggregation, start: int, end: int, newest: int) -> bool:
        """Whether all events of a window are there, cut where it starts and, if events came after it, where it ends."""
        if not self._kept or (self.since is not None and start < self.since):
            return False
        edges = tuple(edge for edge in (start, end) if edge <= newest)
        seen = min(end, newest + 1)
        window = Period(seen - start, 0, seen)
        return all(kept.serves(query, edges, window) for kept in self._kept if kept.newest >= start)

    def edges(self, low: int, high: int) -> list[int]:
        """Where the newest batch was cut, the latest first."""
        plan = self._kept[-1].plan if self._kept else None
        if plan is None or most_edges(plan.windows, low, high, plan.slicing) > MOST_EDGES:
            return []
        latest_first: list[int] = edges_between(plan.windows, low, high, slicing=plan.slicing)[::-1].tolist()
        return latest_first

    def serves(self, query: SlicedAggregation, since: int) -> bool:
        """Whether all events from that time on are there as the query needs them."""
        if self.since is not None and since < self.since:
            return False
        return all(kept.serves(query) for kept in self._kept if kept.newest >= since)


def _holds(cuts: Times, edges: Times) -> bool:
    """Whether all edges of progressions lie on cuts."""
    return all(
        ((step % cuts[:, 1] == 0) & ((first - cuts[:, 0]) % cuts[:, 1] == 0)).any() for first, step in edges.tolist()
    )


def _alike(a: Plan | None, b: Plan | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.groupings is b.groupings and (a.way, a.methods, a.windows) == (b.way, b.methods, b.windows)
