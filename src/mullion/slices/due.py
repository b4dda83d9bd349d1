"""Which windows are to be answered now.

A window is due when the watermark passes its end; at the end of bounded input every window that holds an event is.
A query without GROUP BY answers every instant from its first to its last window that holds an event, so an empty
window waits until a later one is known to hold something.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from mullion.expressions.arrays import Index, Mask, Times
from mullion.instants import EVERYTHING
from mullion.language.query import Period
from mullion.planner.query_set import QuerySet
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.slices import distinct
from mullion.questions_first import give_way
from mullion.slices.window_runs import WindowRuns


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


@dataclass(slots=True)
class Cursor:
    """How far a query has been answered."""

    next_end: int | None = None
    begun: bool = False
    """A window that held an event has been answered; from then on empty ones are answers too."""


@dataclass(frozen=True)
class InstantRun:
    """Instants that were chosen for a query: the first, how many, and how far apart."""

    first: int
    count: int
    slide: int


_Runs = tuple[Times, Times, Times, Times]
"""Runs of windows: the number of the query of each, its first end, how many there are, and how far apart."""

NOT_SCHEDULED: Mapping[str, Sequence[InstantRun]] = {}


@dataclass
class SeenEvents:
    """What is known of a stream's events: the extremes of their times, and the slices that hold one."""

    oldest: int
    newest: int
    slices: Times = field(default_factory=lambda: np.empty(0, np.int64))
    inherited: Mapping[str, Times] = field(default_factory=dict)
    """Of queries that were cut otherwise before, by their names: the slices of that time that hold one."""

    def slices_of(self, query: str) -> Times:
        before = self.inherited.get(query)
        return self.slices if before is None else distinct(np.concatenate([before, self.slices]))


def due_windows(
    queries: Sequence[SlicedAggregation],
    cursors: dict[str, Cursor],
    seen: SeenEvents | None,
    watermark: int | None,
    waiting: Collection[str] = (),
    most: int | None = None,
    scheduled: Mapping[str, Sequence[InstantRun]] = NOT_SCHEDULED,
) -> WindowRuns:
    """The windows to answer, at most so many of each query, moving the cursors past them. `watermark` is None at the
    end of the input. Queries that are waiting for their past are not answered yet, those with SLIDE AT MOST at the
    instants that are `scheduled`."""
    queries = QuerySet.of(queries)
    if seen is None:
        return WindowRuns.none(queries)
    parts = [] if queries.is_scheduled.all() else _slid_windows(queries, cursors, seen, watermark, waiting)
    if scheduled:
        parts += _scheduled_together(queries, cursors, seen, scheduled)
    if not parts:
        return WindowRuns.none(queries)
    at, first, count, slide = (np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True))
    order = np.lexsort((first, at))
    at, first, count, slide = at[order].astype(np.intp), first[order], count[order], slide[order]
    exceeded: Sequence[int] = ()
    if most is not None:
        before = np.cumsum(count) - count
        begins = np.searchsorted(at, at)
        before -= before[begins] if len(at) else 0
        exceeded = np.unique(at[before + count > most]).tolist()
        count = np.clip(most - before, 0, count)
    kept = count > 0
    return WindowRuns(queries, at[kept], first[kept], count[kept], slide[kept], tuple(exceeded))


def _slid_windows(
    queries: QuerySet,
    cursors: Mapping[str, Cursor],
    seen: SeenEvents,
    watermark: int | None,
    waiting: Collection[str],
) -> list[_Runs]:
    """The due windows of those queries that have no SLIDE AT MOST."""
    own = [cursors[name] for name in queries.names]
    goes_on = _goes_on(queries, own)
    plain = np.flatnonzero(queries.is_plain & goes_on)
    windows, own_cursors = queries.windows[plain], [own[i] for i in plain.tolist()]
    parts = [(plain, *_plain_windows(windows, own_cursors, seen, watermark), windows[:, 1])]
    others = ~(queries.is_plain & goes_on | queries.is_scheduled)
    if not others.any():
        return parts
    may_hold = np.flatnonzero(others & goes_on & queries.has_keys & (queries.windows[:, 0] != EVERYTHING)).tolist()
    apart = {*waiting, *seen.inherited}
    grouped = [i for i in may_hold if queries.names[i] not in apart] if apart else may_hold
    windows, own_cursors = queries.windows[grouped], [own[i] for i in grouped]
    held = _windows_that_hold(windows, own_cursors, seen, watermark)
    if held is not None:
        parts.append((np.array(grouped, np.int64)[held[0]], held[1], np.ones_like(held[1]), windows[held[0], 1]))
        others[grouped] = False
    for i in np.flatnonzero(others).tolist():
        give_way()
        query = queries[i]
        if query.name not in waiting and not _is_ahead(cursors[query.name], watermark):
            first, count = _special_windows(query, cursors[query.name], seen, watermark)
            parts.append((np.full(len(first), i), first, count, np.full(len(first), query.window.slide)))
    return parts


def _goes_on(queries: QuerySet, own: Sequence[Cursor]) -> Mask:
    """Of which queries all windows from the next one on may be due."""
    if queries.starts_anywhere.all():
        return queries.never_stops
    begun = np.fromiter((cursor.begun for cursor in own), np.bool_, len(own))
    return queries.never_stops & (begun | queries.starts_anywhere)


def _is_ahead(cursor: Cursor, watermark: int | None) -> bool:
    """The next window is not due yet: with hundreds of queries most are not, at any one time."""
    return watermark is not None and cursor.begun and cursor.next_end is not None and cursor.next_end > watermark


def _next_ends(windows: Times, own: Sequence[Cursor], oldest: int) -> Times:
    """The next window of each query, by where it ends."""
    _, slide, offset = windows.T
    fresh = np.array([c.next_end is None for c in own], np.bool_)
    next_end = np.array([c.next_end or 0 for c in own], np.int64)
    return np.where(fresh, offset + ((oldest - offset) // slide + 1) * slide, next_end)


def _plain_windows(
    windows: Times, own: Sequence[Cursor], seen: SeenEvents, watermark: int | None
) -> tuple[Times, Times]:
    """Of queries with these windows and cursors: the first window of each that is due, and how many are."""
    range_, slide, offset = windows.T
    next_end = _next_ends(windows, own, seen.oldest)
    reach = np.where(range_ == EVERYTHING, slide, range_)
    upper = offset + (seen.newest + reach - offset) // slide * slide
    if watermark is not None:
        upper = np.minimum(upper, watermark)
    counts = np.maximum((upper - next_end) // slide + 1, 0)
    after = (next_end + counts * slide).tolist()
    for cursor, end, any_ in zip(own, after, (counts > 0).tolist(), strict=True):
        if any_:
            cursor.next_end, cursor.begun = end, True
    return next_end, counts


def _windows_that_hold(
    windows: Times, own: Sequence[Cursor], seen: SeenEvents, watermark: int | None
) -> tuple[Index, Times] | None:
    """Of queries with these windows and cursors: whose windows that hold an event are due, by query, and their ends.
    None where that is better found for each query by itself, since there are many to look at: gaps between events may
    be long."""
    range_, slide, offset = windows.T
    next_end = _next_ends(windows, own, seen.oldest)
    upper = offset + (seen.newest + range_ - offset) // slide * slide
    if watermark is not None:
        upper = np.minimum(upper, watermark)
    counts = np.maximum((upper - next_end) // slide + 1, 0)
    if counts.sum(dtype=np.float64) > MOST_LOOKED_AT * len(own):
        return None
    at, end = _windows_with_events(seen.slices, range_, next_end, counts, slide)
    for i, after in zip(at.tolist(), (end + slide[at]).tolist(), strict=True):
        own[i].next_end, own[i].begun = after, True
    return at, end


def _windows_with_events(slices: Times, range_: Times, first: Times, count: Times, slide: Times) -> tuple[Index, Times]:
    """Of runs of windows: which run each window that holds an event is of, and where it ends."""
    at = np.repeat(np.arange(len(first)), count)
    end = first[at] + (np.arange(len(at)) - np.repeat(np.cumsum(count) - count, count)) * slide[at]
    holds = np.searchsorted(slices, end - range_[at]) < np.searchsorted(slices, end)
    return at[holds], end[holds]


MOST_LOOKED_AT = 8
"""Windows of a query, on the average, of which it is seen one by one whether they hold an event."""


def _special_windows(
    query: SlicedAggregation, cursor: Cursor, seen: SeenEvents, watermark: int | None
) -> tuple[Times, Times]:
    """The due windows of one query that has keys, gaps, a start or a stop: the first ends of runs, and how many."""
    window, slices = query.window, seen.slices_of(query.name)
    if query.frame.since is not None and not cursor.begun:
        later = slices[slices >= query.frame.since]
        if len(later):
            # Until a window was answered an earlier event may come; slices, however, may be forgotten meanwhile.
            end = first_end(int(later[0]), window)
            cursor.next_end = end if cursor.next_end is None else min(end, cursor.next_end)
        elif cursor.next_end is None:
            return _NONE, _NONE
    lowest = first_end(seen.oldest, window) if cursor.next_end is None else cursor.next_end
    since = query.frame.since
    if window.range == EVERYTHING and query.start is not None and (since is None or since < query.start):
        return _NONE, _NONE
    if query.start is not None and window.range != EVERYTHING:
        lowest = max(lowest, first_end(query.start + window.range - 1, window))
    if query.after is not None:
        lowest = max(lowest, first_end(query.after, window))
    highest = last_end(seen.newest, window)
    if query.stop is not None:
        highest = min(highest, first_end(query.stop, window) - window.slide)
    first, last = _ends_that_hold(slices, window, lowest, highest)
    if not query.keys and len(first):
        first, last = np.array([lowest if cursor.begun else first[0]]), last[-1:]
    if watermark is not None:
        closed = window.offset + (watermark - window.offset) // window.slide * window.slide
        last = np.minimum(last, closed)
        first, last = first[first <= last], last[first <= last]
    if len(last):
        cursor.next_end, cursor.begun = int(last[-1]) + window.slide, True
    return first, (last - first) // window.slide + 1


def _scheduled_together(
    queries: Sequence[SlicedAggregation],
    cursors: Mapping[str, Cursor],
    seen: SeenEvents,
    scheduled: Mapping[str, Sequence[InstantRun]],
) -> list[_Runs]:
    """`scheduled_windows` of all queries. Where all instants are answers, and where it is seen window by window whether
    they hold an event, that is done for all queries at once."""
    whole, grouped, apart = [], [], []
    for i in [i for i, q in enumerate(queries) if q.at_most is not None and q.name in scheduled]:
        query = queries[i]
        if query.window.range == EVERYTHING or (not query.keys and cursors[query.name].begun):
            whole.append(i)
        elif query.keys and query.name not in seen.inherited:
            grouped.append(i)
        else:
            apart.append(i)
    found = [_instants_of(queries, whole, cursors, scheduled)] if whole else []
    if grouped:
        at, first, count, slide = _instants_of(queries, grouped, cursors, scheduled)
        if count.sum(dtype=np.float64) > MOST_LOOKED_AT * len(at):
            apart += grouped
        else:
            range_ = np.array([queries[i].window.range for i in at.tolist()], np.int64)
            run, end = _windows_with_events(seen.slices, range_, first, count, slide)
            found.append((at[run], end, np.ones_like(end), slide[run]))
    for i in {i for at, *_ in found for i in at.tolist()}:
        cursors[queries[i].name].begun = True
    for i in apart:
        give_way()
        own = scheduled_windows(queries[i], cursors[queries[i].name], seen, scheduled[queries[i].name])
        found.append((np.full(len(own[0]), i), *own))
    return found


def _instants_of(
    queries: Sequence[SlicedAggregation],
    some: Sequence[int],
    cursors: Mapping[str, Cursor],
    scheduled: Mapping[str, Sequence[InstantRun]],
) -> _Runs:
    """The instants that were chosen for some of the queries, without those that their cursors are past."""
    rows = [
        (i, run.first, run.count, run.slide, run.first if next_end is None else next_end)
        for i, name in [(i, queries[i].name) for i in some]
        for next_end in [cursors[name].next_end]
        for run in scheduled[name]
    ]
    table = np.fromiter(chain.from_iterable(rows), np.int64, 5 * len(rows)).reshape(-1, 5)
    at, first, count, slide, next_end = table.T
    passed = np.maximum(0, -((first - next_end) // slide))
    is_left = passed < count
    return at[is_left], (first + passed * slide)[is_left], (count - passed)[is_left], slide[is_left]


def scheduled_windows(
    query: SlicedAggregation, cursor: Cursor, seen: SeenEvents, runs: Sequence[InstantRun]
) -> tuple[Times, Times, Times]:
    """The windows of a query with SLIDE AT MOST at instants that were chosen for it: the first ends of runs, how many,
    and how far apart. With GROUP BY those that hold an event; without, all from the first that does."""
    parts: list[tuple[Times, Times, Times]] = []
    slices = seen.slices_of(query.name)
    for run in runs:
        window = Period(query.window.range, run.slide, run.first % run.slide)
        highest = run.first + (run.count - 1) * run.slide
        lowest = run.first
        if cursor.next_end is not None:  # what came before was lost: its past could not be read
            lowest += max(0, -((lowest - cursor.next_end) // run.slide)) * run.slide
        first, last = _ends_that_hold(slices, window, lowest, highest)
        if not query.keys and (cursor.begun or len(first)) and lowest <= highest:
            first, last = np.array([lowest if cursor.begun else first[0]]), np.array([highest])
        if len(first):
            cursor.begun = True
            parts.append((first, (last - first) // run.slide + 1, np.full(len(first), run.slide)))
    if not parts:
        return _NONE, _NONE, _NONE
    first, count, slide = (np.concatenate(column) for column in zip(*parts, strict=True))
    return first, count, slide


_NONE: Times = np.empty(0, np.int64)


def _ends_that_hold(slices: Times, window: Period, lowest: int, highest: int) -> tuple[Times, Times]:
    """The instants in [lowest, highest] whose window holds one of the slices: from each first to each last one, in
    order and apart."""
    if highest < lowest:
        return _NONE, _NONE
    if window.range == EVERYTHING:
        return np.array([lowest]), np.array([highest])
    offset, slide = window.offset, window.slide
    first = np.maximum(offset + ((slices - offset) // slide + 1) * slide, lowest)
    last = np.minimum(offset + (slices + window.range - offset) // slide * slide, highest)
    first, last = first[first <= last], last[first <= last]
    # Both grow with the slices: a run begins after the one before, and is dropped when that one has all of it.
    first[1:] = np.maximum(first[1:], last[:-1] + slide)
    return first[first <= last], last[first <= last]
