"""Every window of a query, one by one: its bounds, and which events it holds.

Events are given by their places in the order of the stream. Time is the event time, or the column of WATTR.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

from mullion.algebra.nodes import has_total, scans
from mullion.algebra.relation import Relation
from mullion.language.query import Window


class WindowContent(NamedTuple):
    """A window at one instant. `start` is None when it reaches back to the first event."""

    start: int | None
    end: int
    places: Sequence[int]
    """The places of its events."""


Partitions = Sequence[Hashable]
"""For each event, what PARTITION BY makes of it."""


def answered(query: Relation, times: Sequence[int], partitions: Partitions) -> list[WindowContent]:
    """All windows that a standing query answers, in their order; `times` ascend."""
    frame, since = _frame(query), _since(query)
    if frame.at_most:
        return answered_at(query, times, None)
    if frame.slide is not None and frame.range is not None:
        return _periodic(query, times)
    if frame.slide is not None:
        ends = _ends_after_events(frame, times, since)
        views = [_before(frame, times, partitions, since, end) for end in ends]
    elif frame.slide_rows is not None:
        views = [_after_event(frame, times, partitions, since, at) for at in _every_nth(frame, times, since)]
    else:
        views = [_at(frame, times, since, instant) for instant in _changes(frame, times, since)]
    views = [view for view in views if _is_asked(query, view)]
    return _between_events(views) if has_total(query.root) else views


def answered_at(query: Relation, times: Sequence[int], instants: Collection[int] | None) -> list[WindowContent]:
    """The windows of a query with SLIDE AT MOST, given the instants that were chosen for it: those that it is asked
    about; without GROUP BY from the first that holds an event. None: at the multiples of its period, up to the last
    that may hold an event, which is what a scheduler does that shares nothing and is never late."""
    frame = _frame(query)
    assert frame.range is not None and frame.slide is not None
    if not times:
        return []
    if instants is None:
        instants = range(_next_end(frame, times[0]), times[-1] + frame.range + 1, frame.slide)
    views = [_before(frame, times, (), None, end) for end in sorted(instants)]
    views = [view for view in views if _is_asked(query, view)]
    holding = [i for i, view in enumerate(views) if view.places]
    return views[holding[0] :] if holding else []


def newest(
    query: Relation, times: Sequence[int], partitions: Partitions, now: int | None = None
) -> WindowContent | None:
    """The window of a question that is asked once, at the end of the input, or when it is `now`; None when there is
    none yet."""
    if not times and now is None:
        return None
    frame, now = _frame(query), times[-1] if now is None else now
    since = frame.since
    if frame.slide is not None:
        end = now - (now - frame.offset) % frame.slide
        return _before(frame, times, partitions, since, end)
    if frame.slide_rows is not None:
        instants = _every_nth(frame, times, since)
        return _after_event(frame, times, partitions, since, instants[-1]) if instants else None
    return _at(frame, times, since, now)


def _since(query: Relation) -> int | None:
    """Where the query begins to count. Everything so far, asked from some instant on, is everything since then; and so
    are the last events of each partition, which may be as old as the stream."""
    (scan,) = scans(query.root)
    return query.start if scan.window.unbounded or scan.partition else scan.window.since


def _frame(query: Relation) -> Window:
    (scan,) = scans(query.root)
    return scan.window


def _is_asked(query: Relation, view: WindowContent) -> bool:
    """Whether the query entered before the window and leaves after it."""
    begun = query.start is None or view.start is None or view.start >= query.start
    return begun and (query.after is None or view.end > query.after) and (query.stop is None or view.end <= query.stop)


def _between_events(views: list[WindowContent]) -> list[WindowContent]:
    """From the first window that holds an event to the last one."""
    holding = [i for i, view in enumerate(views) if view.places]
    return views[holding[0] : holding[-1] + 1] if holding else []


def _periodic(query: Relation, times: Sequence[int]) -> list[WindowContent]:
    """RANGE r SLIDE s: the windows that hold an event, and without GROUP BY those between them."""
    frame = _frame(query)
    assert frame.range is not None and frame.slide is not None
    asked = set()
    for time in times:
        end = _next_end(frame, time)
        while end - frame.range <= time:
            if _is_asked(query, WindowContent(end - frame.range, end, ())):
                asked.add(end)
            end += frame.slide
    ends = sorted(asked)
    if ends and has_total(query.root):
        ends = list(range(ends[0], ends[-1] + 1, frame.slide))
    return [_before(frame, times, (), None, end) for end in ends]


def _next_end(frame: Window, time: int) -> int:
    """The first instant of SLIDE s after a time."""
    assert frame.slide is not None
    return frame.offset + ((time - frame.offset) // frame.slide + 1) * frame.slide


def _ends_after_events(frame: Window, times: Sequence[int], since: int | None) -> Sequence[int]:
    """UNBOUNDED, FROM or ROWS with SLIDE s: from the first instant after an event to the first after all of them."""
    counted = [time for time in times if since is None or time >= since]
    if not counted:
        return ()
    assert frame.slide is not None
    return range(_next_end(frame, counted[0]), _next_end(frame, counted[-1]) + 1, frame.slide)


def _before(frame: Window, times: Sequence[int], partitions: Partitions, since: int | None, end: int) -> WindowContent:
    """The window that ends before an instant."""
    if frame.rows is not None:
        places = _last(frame.rows, partitions, _counted([time for time in times if time < end], since))
        return WindowContent(times[places[0]] if places else None, end, places)
    start = since if frame.range is None else end - frame.range
    return WindowContent(start, end, [i for i, t in enumerate(times) if t < end and (start is None or t >= start)])


def _every_nth(frame: Window, times: Sequence[int], since: int | None) -> Sequence[int]:
    """SLIDE n TUPLES: the places of every n-th event of the stream, from where the query begins to count."""
    assert frame.slide_rows is not None
    nth = range(frame.slide_rows - 1, len(times), frame.slide_rows)
    return [i for i in nth if since is None or times[i] >= since]


def _after_event(
    frame: Window, times: Sequence[int], partitions: Partitions, since: int | None, at: int
) -> WindowContent:
    """The window right after the event at a place."""
    if frame.rows is not None:
        places = _last(frame.rows, partitions, _counted(times[: at + 1], since))
        return WindowContent(times[places[0]], times[at], places)
    if frame.range is not None:
        start = times[at] - frame.range
        return WindowContent(start, times[at], [i for i in range(at + 1) if times[i] > start])
    return WindowContent(since, times[at], [i for i in range(at + 1) if since is None or times[i] >= since])


def _counted(times: Sequence[int], since: int | None) -> list[int]:
    """The places of the times that are not before the query begins to count."""
    return [place for place, time in enumerate(times) if since is None or time >= since]


def _last(rows: int, partitions: Partitions, counted: list[int]) -> list[int]:
    """The last rows of each partition, of those that count."""
    places: list[int] = []
    for place in reversed(counted):
        if sum(partitions[i] == partitions[place] for i in places) < rows:
            places.insert(0, place)
    return places


def _changes(frame: Window, times: Sequence[int], since: int | None) -> Sequence[int]:
    """Without SLIDE: whenever an event comes, and with RANGE r also when one leaves."""
    counted = {time for time in times if since is None or time >= since}
    if frame.range is not None:
        counted |= {time + frame.range for time in counted}
    return sorted(counted)


def _at(frame: Window, times: Sequence[int], since: int | None, instant: int) -> WindowContent:
    """The window at an instant, with the events of that very instant."""
    if frame.now:
        return WindowContent(instant, instant, [i for i, t in enumerate(times) if t == instant])
    if frame.range is not None:
        start = instant - frame.range
        return WindowContent(start, instant, [i for i, t in enumerate(times) if start < t <= instant])
    return WindowContent(
        since, instant, [i for i, t in enumerate(times) if t <= instant and (since is None or t >= since)]
    )
