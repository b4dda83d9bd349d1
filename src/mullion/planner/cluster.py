"""A cluster of queries as it grows: what is counted of it to know what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from mullion.planner.plan import EVENTS, StateColumn
from mullion.planner.predicate_slot import PredicateSlot
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.window_set import NOTHING, WindowSet


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
    all_cells: float = 0.0
    """Those of all slots."""
    selected: float = 0.0
    """The share of the events that all slots select, together."""

    def take(self, other: Cluster, growth: Growth) -> None:
        """Share slices with the queries of another cluster too. It grows in place: a copy for each query of thousands
        would take longer than all else."""
        self.queries += other.queries
        self.slots |= growth.slots
        self.windows, self.states = growth.windows, growth.states
        self.cells |= growth.cells
        self.all_cells, self.selected = growth.all_cells, growth.selected


class Growth(NamedTuple):
    """What becomes of a cluster that takes another one."""

    slots: dict[PredicateSlot, WindowSet]
    """Those of the other one, with the windows of both."""
    cells: dict[PredicateSlot, float]
    windows: WindowSet
    states: dict[StateColumn, None]
    all_cells: float
    selected: float
    cost: float
