"""Windows to answer, one by one or as runs.

Windows that follow one another are kept as a run, its first end and how many there are: a gap of a year that a query
with SLIDE '1 ms' has to fill is one run of 31,536,000,000 windows. They are counted before they are made, and made in
portions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Times
from mullion.instants import EVERYTHING, NO_START
from mullion.language.query import Period
from mullion.planner.query_set import QuerySet
from mullion.planner.slices import edges_before, edges_between, most_edges

NOT_KNOWN = -1


@dataclass(frozen=True)
class Due:
    """Windows to answer: `query` is the index among the grouping's queries; sorted by query, then by end."""

    query: npt.NDArray[np.intp]
    start: Times
    end: Times
    opens: Times | None = None
    closes: Times | None = None
    """The bounds that are shown, where they are not start and end; see `instants.NO_START`."""
    shed: Times | None = None
    """How many events that came were shed, by window, or `NOT_KNOWN`; None: none of any."""

    def __len__(self) -> int:
        return len(self.query)

    def part(self, low: int, high: int) -> Due:
        """The windows from one number to another."""
        return self._taken(slice(low, high))

    def of(self, queries: Sequence[int]) -> Due:
        """The windows of some queries."""
        return self.where(np.isin(self.query, np.array(queries, np.intp)))

    def where(self, wanted: npt.NDArray[np.bool_]) -> Due:
        """Some of the windows."""
        return self if wanted.all() else self._taken(wanted)

    def _taken(self, which: slice | npt.NDArray[np.bool_]) -> Due:
        columns = self.query, self.start, self.end, self.opens, self.closes, self.shed
        return Due(*(None if column is None else column[which] for column in columns))  # type: ignore[arg-type]


@dataclass(frozen=True)
class WindowRuns:
    """Windows to answer, as runs that follow one another: those of query[i] end at first[i] and every slide[i] after,
    count[i] of them. Sorted by query, then by end."""

    queries: QuerySet
    query: npt.NDArray[np.intp]
    first: Times
    count: Times
    slide: Times
    exceeded: tuple[int, ...] = ()
    """The queries that have more windows to answer than they may: these are the first of them."""

    def __len__(self) -> int:
        return int(self.count.sum())

    @staticmethod
    def none(queries: QuerySet) -> WindowRuns:
        nothing = np.empty(0, np.int64)
        return WindowRuns(queries, np.empty(0, np.intp), nothing, nothing, nothing)

    def whole(self) -> Due:
        """All windows at once."""
        if not len(self.query):
            return Due(np.empty(0, np.intp), np.empty(0, np.int64), np.empty(0, np.int64))
        range_ = self.queries.windows[self.query, 0]
        step = np.arange(len(self)) - np.repeat(np.cumsum(self.count) - self.count, self.count)
        end = np.repeat(self.first, self.count) + step * np.repeat(self.slide, self.count)
        return Due(np.repeat(self.query, self.count), end - np.repeat(range_, self.count), end)

    def portions(self, most: int) -> Iterator[Due]:
        """The windows in their order, at most so many at once, with the bounds that are shown."""
        ends = np.cumsum(self.count)
        for low in range(0, len(self), most):
            yield shown(self._between(ends, low, min(low + most, len(self))).whole(), self.queries)

    def _between(self, ends: Times, low: int, high: int) -> WindowRuns:
        """The windows from one number to another."""
        begins = ends - self.count
        at = slice(int(np.searchsorted(ends, low, "right")), int(np.searchsorted(begins, high)))
        skipped = np.maximum(low - begins[at], 0)
        slides = self.slide[at]
        count = np.minimum(high, ends[at]) - np.maximum(low, begins[at])
        return WindowRuns(self.queries, self.query[at], self.first[at] + skipped * slides, count, slides)


def slices_within(due: Due, windows: Sequence[Period], slicing: str) -> int:
    """How many slices the windows are made of, counted once for each window (krishnamurthy Table 3)."""
    if not len(due):
        return 0
    low, high = int(due.start.min()), int(due.end.max())
    if most_edges(windows, low, high, slicing) > MOST_EDGES:
        return 0
    before = edges_before(edges_between(windows, low, high, slicing=slicing), windows, slicing, len(due))
    return int((before(due.end) - before(due.start)).sum())


def shown(due: Due, queries: QuerySet) -> Due:
    """The windows with the bounds that are shown: one that reaches back to the first event has no start, a landmark
    window the landmark's."""
    if (queries.windows[:, 0] != EVERYTHING).all():
        return due
    frames = [(q.window.range == EVERYTHING, NO_START if q.frame.since is None else q.frame.since) for q in queries]
    endless, opens = np.array([e for e, _ in frames]), np.array([o for _, o in frames], np.int64)
    return replace(due, opens=np.where(endless[due.query], opens[due.query], due.start), closes=due.end)


MOST_EDGES = 5_000_000
"""A gap of years in the event times is not counted out."""
