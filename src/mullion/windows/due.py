"""Which windows are to be answered now.

A window is due when the watermark passes its end; at the end of bounded input every window that holds an event is.
A query without GROUP BY answers every instant from its first to its last window that holds an event, so an empty
window waits until a later one is known to hold something.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mullion.catalog.queries import StandingQuery
from mullion.language.query import EVERYTHING, Period
from mullion.planner.slices import distinct, edges_between, most_edges

Times = npt.NDArray[np.int64]


def first_end(time: int, window: Period) -> int:
    """The earliest instant after `time`: the end of the first window that can hold an event of that time.

    >>> first_end(12, Period(18, 15)), first_end(15, Period(18, 15)), first_end(-1, Period(18, 15))
    (15, 30, 0)
    """
    return window.offset + ((time - window.offset) // window.slide + 1) * window.slide


def last_end(time: int, window: Period) -> int:
    """The end of the last window that starts at or before `time`; it holds an event of that time unless it ends first.
    A window that reaches back to the first event is answered last after the newest one.

    >>> last_end(12, Period(18, 15)), last_end(11, Period(18, 15))
    (30, 15)
    """
    reach = window.slide if window.range == EVERYTHING else window.range
    return window.offset + (time + reach - window.offset) // window.slide * window.slide


@dataclass
class Cursor:
    """How far a query has been answered."""

    next_end: int | None = None
    begun: bool = False
    """A window that held an event has been answered; from then on empty ones are answers too."""


@dataclass(frozen=True)
class Due:
    """Windows to answer: `query` is the index among the grouping's queries; sorted by query, then by end."""

    query: npt.NDArray[np.intp]
    start: Times
    end: Times
    opens: Times | None = None
    closes: Times | None = None
    """The bounds that are shown, where they are not start and end; see `instants.NO_START`."""

    def __len__(self) -> int:
        return len(self.query)


@dataclass
class Seen:
    """What is known of a stream's events: the extremes of their times, and the slices that hold one."""

    oldest: int
    newest: int
    slices: Times = field(default_factory=lambda: np.empty(0, np.int64))


def due_windows(
    queries: Sequence[StandingQuery],
    cursors: dict[str, Cursor],
    seen: Seen | None,
    watermark: int | None,
    waiting: Collection[str] = (),
) -> Due:
    """The windows to answer, moving the cursors past them. `watermark` is None at the end of the input. Queries that
    are waiting for their past are not answered yet."""
    if seen is None:
        return _due([], [], [])
    is_plain = [_is_plain(q, cursors[q.name]) for q in queries]
    plain = [i for i, simple in enumerate(is_plain) if simple]
    index, ends, ranges = _plain_windows(plain, queries, cursors, seen, watermark)
    parts = [(index, ends, ranges)]
    for i, query in enumerate(queries):
        if not is_plain[i] and query.name not in waiting:
            own = _special_windows(query, cursors[query.name], seen, watermark)
            parts.append((np.full(len(own), i), own, np.full(len(own), query.window.range)))
    return _due(*(list(column) for column in zip(*parts, strict=True)))


def _is_plain(query: StandingQuery, cursor: Cursor) -> bool:
    """Every event falls into one of its windows, and it answers from the first on, or has begun to."""
    if query.keys or query.window.range < query.window.slide or query.stop is not None:
        return False
    if query.frame.since is not None and not cursor.begun:
        return False
    return (query.start is None and query.after is None) or cursor.begun


def _due(index: list[Any], ends: list[Any], ranges: list[Any]) -> Due:
    if not index:
        return Due(np.empty(0, np.intp), np.empty(0, np.int64), np.empty(0, np.int64))
    query, end = np.concatenate(index).astype(np.intp), np.concatenate(ends).astype(np.int64)
    start = end - np.concatenate(ranges).astype(np.int64)
    order = np.argsort(query, kind="stable")
    return Due(query[order], start[order], end[order])


def _plain_windows(
    plain: list[int],
    queries: Sequence[StandingQuery],
    cursors: dict[str, Cursor],
    seen: Seen,
    watermark: int | None,
) -> tuple[Any, Any, Any]:
    if not plain:
        empty = np.empty(0, np.int64)
        return empty, empty, empty
    windows = np.array([queries[i].window for i in plain], np.int64)
    range_, slide, offset = windows.T
    own = [cursors[queries[i].name] for i in plain]
    fresh = np.array([c.next_end is None for c in own])
    next_end = np.array([c.next_end or 0 for c in own], np.int64)
    next_end = np.where(fresh, offset + ((seen.oldest - offset) // slide + 1) * slide, next_end)
    reach = np.where(range_ == EVERYTHING, slide, range_)
    upper = offset + (seen.newest + reach - offset) // slide * slide
    if watermark is not None:
        upper = np.minimum(upper, watermark)
    counts = np.maximum((upper - next_end) // slide + 1, 0)
    after = (next_end + counts * slide).tolist()
    for cursor, end, any_ in zip(own, after, (counts > 0).tolist(), strict=True):
        if any_:
            cursor.next_end, cursor.begun = end, True
    step = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    ends = np.repeat(next_end, counts) + step * np.repeat(slide, counts)
    return np.repeat(np.array(plain), counts), ends, np.repeat(range_, counts)


def _special_windows(query: StandingQuery, cursor: Cursor, seen: Seen, watermark: int | None) -> Times:
    """The due windows of one query that has keys, gaps, a start or a stop."""
    window = query.window
    if query.frame.since is not None and cursor.next_end is None:
        later = seen.slices[seen.slices >= query.frame.since]
        if not len(later):
            return np.empty(0, np.int64)
        cursor.next_end = first_end(int(later[0]), window)
    lowest = first_end(seen.oldest, window) if cursor.next_end is None else cursor.next_end
    since = query.frame.since
    if window.range == EVERYTHING and query.start is not None and (since is None or since < query.start):
        return np.empty(0, np.int64)
    if query.start is not None and window.range != EVERYTHING:
        lowest = max(lowest, first_end(query.start + window.range - 1, window))
    if query.after is not None:
        lowest = max(lowest, first_end(query.after, window))
    highest = last_end(seen.newest, window)
    if query.stop is not None:
        highest = min(highest, first_end(query.stop, window) - window.slide)
    held = _ends_that_hold(seen.slices, window, lowest, highest)
    closed = held if watermark is None else held[held <= watermark]
    if query.keys:
        ends = closed
    else:
        first = lowest if cursor.begun else (int(held[0]) if len(held) else highest + 1)
        last = int(held[-1]) if len(held) else first - 1
        if watermark is not None:
            last = min(last, watermark)
        ends = _steps(first, last, window.slide)
    if len(ends):
        cursor.next_end, cursor.begun = int(ends[-1]) + window.slide, True
    return ends


def _ends_that_hold(slices: Times, window: Period, lowest: int, highest: int) -> Times:
    """The instants in [lowest, highest] whose window holds one of the slices, in order."""
    if window.range == EVERYTHING:
        return _steps(lowest, highest, window.slide)
    if highest < lowest or not len(slices):
        return np.empty(0, np.int64)
    instants = (highest - lowest) // window.slide + 1
    if instants <= 4 * len(slices) * (window.range // window.slide + 1):
        ends = _steps(lowest, highest, window.slide)
    else:
        first = window.offset + ((slices - window.offset) // window.slide + 1) * window.slide
        later = np.arange(window.range // window.slide + 1) * window.slide
        ends = distinct(first[:, None] + later[None, :])
        ends = ends[(ends >= lowest) & (ends <= highest)]
    holds = np.searchsorted(slices, ends) > np.searchsorted(slices, ends - window.range)
    return ends[holds]


def _steps(first: int, last: int, step: int) -> Times:
    """first, first + step, .. up to last. numpy's own `arange` reckons how many there are in doubles, which leaves one
    out now and then where they lie centuries apart."""
    return first + step * np.arange(max(0, (last - first) // step + 1), dtype=np.int64)


def slices_within(due: Due, windows: Sequence[Period], slicing: str) -> int:
    """How many slices the windows are made of, counted once for each window (krishnamurthy Table 3)."""
    if not len(due):
        return 0
    low, high = int(due.start.min()), int(due.end.max())
    if most_edges(windows, low, high, slicing) > MOST_EDGES:
        return 0
    edges = edges_between(windows, low, high, slicing=slicing)
    return int((np.searchsorted(edges, due.end) - np.searchsorted(edges, due.start)).sum())


MOST_EDGES = 5_000_000
"""A gap of years in the event times is not counted out."""
