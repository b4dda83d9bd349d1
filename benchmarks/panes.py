"""What panes cost against visiting every tuple of every window (li 3.3.1, formulas 3.1 to 3.4).

A pane-level query (PLQ) makes one aggregate of each pane; a window-level query (WLQ) makes windows from panes. Max
stands for aggregates without an inverse, count for those with one.

    paned max       a T/P + b G + c P G        every tuple once, then every pane of every window
    paned count     a T/P + b G + 2 c G        every tuple once, then the panes that came and that left
    windowed max    a' T                       every tuple of every window
    windowed count  2 a' T/P                   the tuples that came and that left

The right side is for a slide of one pane. A longer one brings as many panes more: the paper says so of the panes that
count adds and takes away, and it holds of those that the PLQ makes as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Extent:
    """How much a window holds."""

    panes: float
    """P, in a window."""
    tuples_per_pane: float
    """T / P."""
    panes_per_slide: int = 1
    """SLIDE / GCD(RANGE, SLIDE)."""
    groups: float = 1.0
    """G, in a pane."""

    @property
    def tuples(self) -> float:
        """T, in a window."""
        return self.panes * self.tuples_per_pane

    @property
    def moved(self) -> float:
        """SLIDE T / RANGE: the tuples that come with a slide, as many as leave."""
        return self.panes_per_slide * self.tuples_per_pane


@dataclass(frozen=True)
class Costs:
    """What one step takes, in any unit of time."""

    tuple_in_pane: float
    """a: the PLQ takes a tuple."""
    pane_made: float
    """b: the PLQ gives a pane's aggregate, for each group."""
    pane_in_window: float
    """c: the WLQ takes a pane's aggregate into a window or out of it."""
    tuple_in_window: float
    """a': a tuple is taken into a window or out of it, without panes."""


def time_paned_max(extent: Extent, costs: Costs) -> float:
    """Panes for an aggregate without an inverse: every window looks at all its panes (li 3.3.1, formula 3.1).

    Requires: an associative combine.
    Time: a T/P + b G + c P G a window.
    Space: P G states.

    >>> time_paned_max(Extent(panes=5, tuples_per_pane=20), Costs(1, 1, 1, 1))
    26.0
    """
    return _panes_made(extent, costs) + costs.pane_in_window * extent.panes * extent.groups


def time_paned_count(extent: Extent, costs: Costs) -> float:
    """Panes for an aggregate with an inverse: panes that came are added, panes that left subtracted (li 3.3.1,
    formula 3.2).

    Requires: an exact inverse.
    Time: a T/P + b G + 2 c G SLIDE / GCD(RANGE, SLIDE) a window.
    Space: P G states.

    >>> time_paned_count(Extent(panes=5, tuples_per_pane=20), Costs(1, 1, 1, 1))
    23.0
    """
    return _panes_made(extent, costs) + 2 * costs.pane_in_window * extent.groups * extent.panes_per_slide


def _panes_made(extent: Extent, costs: Costs) -> float:
    return costs.tuple_in_pane * extent.moved + costs.pane_made * extent.groups * extent.panes_per_slide


def time_windowed_max(extent: Extent, costs: Costs) -> float:
    """No panes and no inverse: every window looks at all its tuples (li 3.3.1, formula 3.3).

    Requires: nothing of the aggregate.
    Time: a' T a window.
    Space: T tuples.

    >>> time_windowed_max(Extent(panes=5, tuples_per_pane=20), Costs(1, 1, 1, 1))
    100
    """
    return costs.tuple_in_window * extent.tuples


def time_windowed_count(extent: Extent, costs: Costs) -> float:
    """No panes, but an inverse: tuples that came are added, tuples that left subtracted (li 3.3.1, formula 3.4).

    Requires: an exact inverse.
    Time: 2 a' SLIDE T / RANGE a window.
    Space: T tuples.

    >>> time_windowed_count(Extent(panes=5, tuples_per_pane=20), Costs(1, 1, 1, 1))
    40
    """
    return 2 * costs.tuple_in_window * extent.moved


def ratio_max(extent: Extent, costs: Costs) -> float:
    """The time with panes over the time without; panes pay below 1."""
    return time_paned_max(extent, costs) / time_windowed_max(extent, costs)


def ratio_count(extent: Extent, costs: Costs) -> float:
    return time_paned_count(extent, costs) / time_windowed_count(extent, costs)


def crossover_max(panes: float, costs: Costs) -> float:
    """The tuples per pane above which panes pay, for a slide of one pane and one group.

    >>> crossover_max(2, Costs(1, 1, 1, 1))
    3.0
    """
    gained = costs.tuple_in_window * panes - costs.tuple_in_pane
    return (costs.pane_made + costs.pane_in_window * panes) / gained if gained > 0 else inf


def crossover_count(costs: Costs) -> float:
    """The same for an aggregate with an inverse, whatever the number of panes.

    >>> crossover_count(Costs(1, 1, 1, 1))
    3.0
    """
    gained = 2 * costs.tuple_in_window - costs.tuple_in_pane
    return (costs.pane_made + 2 * costs.pane_in_window) / gained if gained > 0 else inf
