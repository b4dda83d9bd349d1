"""When a query is answered that is not answered periodically, and which events its windows hold.

Events are in their order, each with a number; a window is a range of numbers [start, end).

    numbers      0    1    2    3    4    5
    times        3    5    5    9   12   20

    RANGE 6 SLIDE 2 TUPLES     after 1: (-1, 5] = 0..1     after 3: (3, 9] = 1..3     after 5: (14, 20] = 5
    RANGE 6                    at 3, 5, 9 (also the end of 3), 11 (the end of 5), 12, 15, 18, 20, 26
    NOW                        at 3, 5, 9, 12, 20
    ROWS 2 SLIDE 5 us          at 5: 0     at 10: 2..3     at 15: 3..4     at 20: 3..4     at 25: 4..5

Sliding by tuples does not use panes (li 1): any event may begin a window, so every event is a slice of its own. An
answer still takes constant or logarithmic time, because a window is one range of a synopsis.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Times
from mullion.instants import NO_START, ORIGIN
from mullion.language.query import Window
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.slices import distinct


class NumberedWindows(NamedTuple):
    """Windows as ranges of event numbers, and the bounds that are shown for them."""

    start: Times
    end: Times
    opens: Times
    closes: Times

    def part(self, first: int, last: int) -> NumberedWindows:
        return NumberedWindows(*(column[first:last] for column in self))

    def of(self, query: SlicedAggregation) -> NumberedWindows:
        """Those that the query answers."""
        inside = are_asked(query, self.opens, self.closes)
        return NumberedWindows(*(column[inside] for column in self))


def are_asked(query: SlicedAggregation, opens: Times, closes: Times) -> npt.NDArray[np.bool_]:
    """Whether windows open at the query's START or later, close after the time that its BACKFILL begins with, and close
    at its STOP or before."""
    inside = np.ones(len(opens), np.bool_)
    if query.start is not None:
        inside &= opens >= query.start
    if query.after is not None:
        inside &= closes > query.after
    if query.stop is not None:
        inside &= closes <= query.stop
    return inside


class Numbered(NamedTuple):
    """Events in their order, those before `first` forgotten."""

    first: int
    times: Times

    @property
    def end(self) -> int:
        return self.first + len(self.times)

    def after(self, times: Times) -> Times:
        """The number of the first event later than each time."""
        return self.first + np.searchsorted(self.times, times, "right")

    def time_of(self, numbers: Times) -> Times:
        return self.times[numbers - self.first]


def instants_of(window: Window, events: Numbered, since: int, until: int | None) -> tuple[NumberedWindows, int]:
    """The windows that are due, and where to go on from: after `since`, which is a number of events for a window that
    slides by tuples and else a time; for times, those before `until`, or all at the end of the input."""
    if window.slide_rows is not None:
        return _by_tuples(window, events, since), max(since, events.end)
    times = _times(window, events, since, until)
    return _at_times(window, events, times), int(times[-1]) if len(times) else since


def rows_in_time(
    window: Window, events: Numbered, since: int, until: int | None, most: int
) -> tuple[NumberedWindows, int]:
    """The last rows before every instant that is due, at most so many, and where to go on from. Where events were
    forgotten, or came before the first that is known, windows that would hold them are left out."""
    assert window.rows is not None
    times = slides_after(window, events.times, since, until, most)
    end = events.after(times - 1)
    start = np.maximum(end - window.rows, 0)
    whole = (start >= events.first) & (start < end)
    start, end, closes = start[whole], end[whole], times[whole]
    return NumberedWindows(start, end, events.time_of(start), closes), int(times[-1]) if len(times) else since


def slides_after(window: Window, events: Times, since: int, until: int | None, most: int) -> Times:
    """The instants of a slide in time, after `since` and after the first of the events, up to `until`; without it, up
    to the first after all of them."""
    assert window.slide is not None
    if not len(events):
        return np.empty(0, np.int64)
    offset, slide = window.offset, window.slide
    low = max(since, int(events[0]))
    first = offset + ((low - offset) // slide + 1) * slide
    last = offset + ((int(events[-1]) - offset) // slide + 1) * slide if until is None else until
    return first + np.arange(min(max((last - first) // slide + 1, 0), most), dtype=np.int64) * slide


def _by_tuples(window: Window, events: Numbered, since: int) -> NumberedWindows:
    """After every n-th event."""
    slide = window.slide_rows or 1
    first = max(since, events.first)
    numbers = np.arange(first + (slide - 1 - first) % slide, events.end, slide, dtype=np.int64)
    times = events.times[numbers - events.first]
    if window.since is not None:
        numbers, times = numbers[times >= window.since], times[times >= window.since]
    start, opens = _start(window, events, times)
    return NumberedWindows(start, numbers + 1, opens, times)


def _times(window: Window, events: Numbered, since: int, until: int | None) -> Times:
    """The instants at which the window's contents change."""
    times = events.times
    if window.since is not None:
        times = times[times >= window.since]
    if window.range is not None:
        times = np.concatenate([times, times + window.range])
    times = distinct(times)
    times = times[times > since]
    return times if until is None else times[times < until]


def _at_times(window: Window, events: Numbered, times: Times) -> NumberedWindows:
    if window.now:
        return NumberedWindows(events.after(times - 1), events.after(times), times, times)
    start, opens = _start(window, events, times)
    return NumberedWindows(start, events.after(times), opens, times)


def _start(window: Window, events: Numbered, times: Times) -> tuple[Times, Times]:
    """Where windows begin that are answered at the times, as a number and as it is shown."""
    if window.range is not None:
        return events.after(times - window.range), times - window.range
    shown = NO_START if window.since is None else window.since
    return np.full(len(times), ORIGIN), np.full(len(times), shown)


def needed_from(window: Window, events: Numbered, settled: int) -> int:
    """The number of the first event that a later window may hold, once all events before the time `settled` have their
    place. A window without a start needs no single event: what is old may be merged."""
    if window.rows is not None:
        return max(events.first, int(events.after(np.array([settled - 1]))[0]) - window.rows)
    if window.range is None:
        return events.end if not window.now else int(events.after(np.array([settled - 1]))[0])
    return int(events.after(np.array([settled - window.range - 1]))[0])
