"""Where a stream is cut so that every window is made of whole slices.

     events   . . . . . . . . . . . . . . . . . . . . . . . . .
     W[18,15] |---------- 12 ---------|- 3 -|---------- 12 ---------|- 3 -|      paired: 2 slices a period
              |- 3 -|- 3 -|- 3 -|- 3 -|- 3 -|- 3 -|- 3 -|- 3 -|- 3 -|- 3 -|      paned: 5 slices a period
                                      ^start       ^end of the window that starts there

Edges lie where a window starts or ends: at `offset + k * slide` and `range` before it. Slices of many windows are
composed by taking the union of their edges (krishnamurthy 3.2.1); paired windows give the fewest (Theorem 1).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, count, groupby, islice
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mullion.algebra.grid import Grid
from mullion.expressions.arrays import Mask, Times
from mullion.instants import EVERYTHING
from mullion.language.query import Period


def distinct(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The different numbers in order. numpy's `unique` hashes them first, which takes far longer where they are in
    order already, as slices and times mostly are."""
    ordered = numbers.ravel()
    if not len(ordered):
        return ordered
    if (ordered[1:] < ordered[:-1]).any():
        ordered = np.sort(ordered)
    different: npt.NDArray[Any] = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    return different


def distinct_rows(rows: Times) -> Times:
    """The different rows in order. numpy's `unique` compares them byte by byte, which takes several times as long.

    >>> distinct_rows(np.array([[2, 1], [1, 9], [2, 1]])).tolist()
    [[1, 9], [2, 1]]
    """
    ordered = rows[np.lexsort(rows.T[::-1])]
    is_new = np.ones(len(ordered), np.bool_)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    different: Times = ordered[is_new]
    return different


def window_table(windows: Sequence[Period]) -> Times:
    """Rows (range, slide, offset). numpy takes a list of tuples apart in several times as long."""
    return np.fromiter(chain.from_iterable(windows), np.int64, 3 * len(windows)).reshape(-1, 3)


def edge_at(time: int) -> Period:
    """A window whose only edge is there: where a landmark window begins."""
    return Period(EVERYTHING, EVERYTHING, time)


def paned_slices(window: Period) -> int:
    """How many slices a period has if they are as long as the greatest common divisor (li 3.1): they may be more than
    fit into memory.

    >>> paned_slices(Period(18, 15))
    5
    """
    return 1 if window.range == EVERYTHING else window.slide // gcd(window.range, window.slide)


def paired(window: Period) -> tuple[int, ...]:
    """At most two slices a period, the second as long as the window reaches into an older period (krishnamurthy 3.1).

    >>> paired(Period(18, 15))
    (12, 3)
    >>> paired(Period(30, 15))
    (15,)
    """
    rest = 0 if window.range == EVERYTHING else window.range % window.slide
    return (window.slide - rest, rest) if rest else (window.slide,)


def residues(windows: Iterable[Period], slicing: str = "paired") -> Times:
    """The edges of the windows as arithmetic progressions: rows (first, step), each once.

    Remembered, since every batch asks for those of the same windows several times; the same tuple is known without a
    look at what it holds, which of 10,000 windows takes milliseconds.
    """
    asked = tuple(windows)
    key = id(asked), slicing
    known = _REMEMBERED.get(key)
    if known is None or known[0] is not asked:
        if len(_REMEMBERED) >= MOST_REMEMBERED:
            _REMEMBERED.clear()
        _REMEMBERED[key] = known = asked, _residues(asked, slicing)
    return known[1]


MOST_REMEMBERED = 256
_REMEMBERED: dict[tuple[int, str], tuple[tuple[Period, ...], Times]] = {}


@lru_cache(maxsize=4096)
def _residues(windows: tuple[Period, ...], slicing: str) -> Times:
    if slicing != "paned":
        return _pairs(window_table(windows), np.zeros(len(windows), np.intp))[:, 1:]
    range_, slide, offset = window_table(windows).T
    pane = np.where(range_ == EVERYTHING, slide, np.gcd(range_, slide))
    return distinct_rows(np.stack([offset % pane, pane], axis=1))


def _pairs(windows: Times, slot: npt.NDArray[np.intp]) -> Times:
    """Where windows, each of a slot, end and start: rows (slot, first, step), each once."""
    range_, slide, offset = windows.T
    ends, starts = offset % slide, (offset - range_) % slide
    starts = np.where(range_ == EVERYTHING, ends, starts)
    return distinct_rows(np.concatenate([np.stack([slot, at, slide], axis=1) for at in (ends, starts)]))


def most_edges(windows: Iterable[Period], low: int, high: int, slicing: str = "paired") -> int:
    """At most so many edges lie in [low, high]: of all time, more than a whole number of 64 bits holds."""
    return int(((high - low) // residues(windows, slicing)[:, 1] + 1).sum(dtype=np.float64))


def edges_between(windows: Iterable[Period], low: int, high: int, *, slicing: str = "paired") -> Times:
    """Every edge from the last one at or before `low` up to `high`, in order.

    Finds what the Slice Manager finds edge by edge (krishnamurthy 3.3, Algorithm 1), for a whole batch at once.
    Time: O(e + g) for e edges over g points of their grid, or O(e log e). Requires: nothing of the order of events.

    >>> edges_between([Period(18, 15)], 0, 30).tolist()
    [0, 12, 15, 27, 30]
    """
    return edges_on(residues(windows, slicing), low, high)


def edges_on(progressions: Times, low: int, high: int) -> Times:
    """The same for edges that are given as progressions, rows (first, step)."""
    own = Progressions(np.zeros(len(progressions), np.int64), progressions)
    edges = _in_order(own.edges(low, high)[1], _step(progressions))
    return edges[max(int(np.searchsorted(edges, low, "right")) - 1, 0) :]


def _step(rows: Times) -> int:
    """The step of the coarsest grid on which progressions lie."""
    first, step = rows.T
    return int(np.gcd.reduce(np.concatenate([step, first - first[:1]]))) if len(rows) else 0


def _in_order(edges: Times, step: int) -> Times:
    """The different edges in order. Where many fall on the same few points of a grid, as those of windows of whole
    seconds do, they are ticked off there, which takes a part of the time of sorting."""
    if len(edges) < MANY_EDGES:
        return distinct(edges)
    lowest, highest = int(edges.min()), int(edges.max())
    points = (highest - lowest) // step + 1
    if points > len(edges):
        return distinct(edges)
    is_edge = np.zeros(points, np.bool_)
    is_edge[(edges - lowest) // step] = True
    ticked: Times = lowest + np.flatnonzero(is_edge) * step
    return ticked


MANY_EDGES = 256
"""Fewer are sorted at once."""


def edges_before(
    edges: Times, windows: Iterable[Period], slicing: str, asked: int
) -> Callable[[Times], npt.NDArray[np.intp]]:
    """How many of the windows' edges, which are in order, lie before instants. About so many are `asked` for: where the
    grid has fewer points, they are counted for each of these."""
    step = _step(residues(windows, slicing))
    if not len(edges) or not step or (int(edges[-1]) - int(edges[0])) // step >= asked:
        return lambda instants: np.searchsorted(edges, instants)
    lowest = int(edges[0])
    is_edge = np.zeros((int(edges[-1]) - lowest) // step + 2, np.intp)
    is_edge[(edges - lowest) // step + 1] = 1
    before = np.cumsum(is_edge)
    return lambda instants: before[np.clip(-((lowest - instants) // step), 0, len(before) - 1)]


def first_edges(windows: Iterable[Period], most: int) -> list[int]:
    """The first edges after 0.

    >>> first_edges([Period(18, 15), Period(12, 9)], 5)
    [6, 9, 12, 15, 18]
    """
    edges = heapq.merge(*(count(first or step, step) for first, step in residues(windows).tolist()))
    return [edge for edge, _ in islice(groupby(edges), most)]


def is_hopping(window: Period) -> bool:
    """Whether there are gaps between its windows, so that some events are in none."""
    return window.range < window.slide


def is_inside(slices: Times, windows: Iterable[Period]) -> Mask:
    """Which slices, given by their starts, lie in a window. Requires: they are cut at the edges of these windows.

    >>> is_inside(np.array([0, 4, 7, 11]), [Period(3, 7)]).tolist()
    [False, True, False, True]
    """
    inside = np.zeros(len(slices), np.bool_)
    for range_, slide, offset in windows:
        inside |= (slices - offset) % slide >= slide - range_
    return inside


def lies_in(window: Period, others: Iterable[Period]) -> bool:
    """Whether every window lies in one of another period; with a slide of 0 there is one, which ends at the offset.

    >>> lies_in(Period(2, 14, 6), [Period(3, 7)]), lies_in(Period(2, 7, 1), [Period(3, 7)])
    (True, False)
    >>> lies_in(Period(3, 0, 21), [Period(3, 7)]), lies_in(Period(4, 0, 21), [Period(3, 7)])
    (True, False)
    """
    return any(
        window.slide % other.slide == 0 and (other.offset - window.offset) % other.slide + window.range <= other.range
        for other in others
    )


def covered_share(windows: Iterable[Period]) -> float:
    """About which part of time lies in a window, as if those of different periods lay anywhere.

    >>> covered_share([Period(1, 4), Period(1, 2)])
    0.625
    """
    return 1.0 - prod(1.0 - min(1.0, window.range / window.slide) for window in windows)


class Progressions(NamedTuple):
    """Edges of several slots as arithmetic progressions: each belongs to a slot and is a row (first, step)."""

    slot: Times
    rows: Times

    @staticmethod
    def of(windows: Times, slot: npt.NDArray[np.intp]) -> Progressions:
        """The edges of windows, given as a `window_table`, each of a slot, cut into pairs."""
        rows = _pairs(windows, slot)
        return Progressions(rows[:, 0], rows[:, 1:])

    def of_slots(self, slots: npt.NDArray[np.intp]) -> Progressions:
        """Those of some slots, which are numbered anew."""
        number = np.full(int(self.slot.max(initial=-1)) + 1, -1)
        number[slots] = np.arange(len(slots))
        own = number[self.slot]
        return Progressions(own[own >= 0], self.rows[own >= 0])

    def most(self, low: int, high: int) -> int:
        """At most so many edges lie in [low, high], counted for each slot."""
        return int(((high - low) // self.rows[:, 1] + 2).sum())

    def slices(self, span: int, slots: int) -> npt.NDArray[np.float64]:
        """About how many slices each of so many slots has of such a span. An edge that progressions share is one; where
        edges are very many, they are counted over a part of the span."""
        number = np.bincount(self.slot, span / self.rows[:, 1], slots)
        shared = np.flatnonzero(np.bincount(self.slot, minlength=slots) > 2)
        if len(shared):
            own, edges = self.of_slots(shared), float(number[shared].sum())
            parts = max(1, round(edges / MOST_COUNTED))
            number[shared] = own._counted(span // parts, len(shared)) * parts
        return np.maximum(1.0, number)

    def _counted(self, span: int, slots: int) -> npt.NDArray[np.intp]:
        """The edges of each of so many slots in a span, with those that lie just before it; each once."""
        slot, edge = self.edges(0, span - 1)
        low = int(edge.min(initial=0))
        length = span - low
        if slots * length >= EVERYTHING:
            return np.bincount(distinct_rows(np.stack([slot, edge], axis=1))[:, 0], minlength=slots)
        return np.bincount(distinct(slot * length + (edge - low)) // length, minlength=slots)

    def edges(self, low: int, high: int) -> tuple[Times, Times]:
        """(slot, edge) from the last edge of each progression at or before `low` up to `high`; an edge that two
        progressions of a slot share is given twice."""
        first, step = self.rows.T
        first = low - (low - first) % step
        counts = np.maximum((high - first) // step, 0) + 1
        index = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(self.slot, counts), np.repeat(first, counts) + index * np.repeat(step, counts)


def common_grid(windows: Iterable[Period]) -> Grid:
    """The coarsest grid that holds all edges of all windows.

    >>> common_grid([Period(18, 15), Period(9, 6, 3)])
    Grid(step=3, origin=0)
    """
    table = window_table(tuple(windows))
    if not len(table):
        return Grid(1, 0)
    range_, slide, offset = table.T
    anchor = int(offset[0])
    parts = np.concatenate([range_, slide])
    step = int(np.gcd.reduce(np.concatenate([parts[parts != EVERYTHING], np.abs(offset - anchor)])))
    return Grid(step, anchor % step) if step else Grid(1, 0)


MOST_COUNTED = 50_000
"""Edges that are counted one by one; of more, their number is estimated."""


def slices_of(
    windows: Iterable[Period], low: int, high: int, slicing: str, within: Sequence[Period] | None = None
) -> int:
    """How many slices cover [low, high), or lie there within some of the windows; where they are very many, about how
    many, by a shorter stretch."""
    return _slices_of(tuple(windows), low, high, slicing, None if within is None else tuple(within))


@lru_cache(maxsize=1024)
def _slices_of(
    windows: tuple[Period, ...], low: int, high: int, slicing: str, within: tuple[Period, ...] | None
) -> int:
    """Remembered: a plan and what is expected of it ask for the same."""
    if high <= low:
        return 0
    parts = -(-most_edges(windows, low, high, slicing) // MOST_COUNTED)
    stretch = max(1, (high - low) // max(1, parts))
    edges = edges_between(windows, low, low + stretch - 1, slicing=slicing)
    return (len(edges) if within is None else int(is_inside(edges, within).sum())) * max(1, parts)
