"""Questions asked once, against the reference: from events, from the newest of them, and from sub-windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_window import KINDS, examples_of
from mullion import reference
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.query import Named, Query, Window
from mullion.language.types import DOUBLE, STRING, TIMESTAMP
from mullion.planner.sliced import SlicedAggregation
from mullion.slices.kernels.partial import Input
from mullion.slices.once import (
    EventsBefore,
    are_enough,
    events_needed,
    from_events,
    from_sub_windows,
    kept_window,
    reaches_back,
)
from mullion.slices.order import times_of
from runtime.test_core_differential import Manner, Run, assert_same, bound_in, cut, rows_of, to_batch
from strategies import Example


def in_order(example: Example) -> pa.Table:
    """The events that have a time, as a stream keeps them."""
    events = sorted((e for e in example.events if e["ts"] is not None), key=lambda e: e["ts"])
    return pa.table(to_batch(example.stream, events))


def asked(example: Example, text: str) -> tuple[Query, SlicedAggregation, list[tuple[Any, ...]]]:
    query = parse_query(text)
    return query, bound_in(example, query), reference.ask(query, example.stream, example.events).rows


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6)
@given(data=st.data())
def test_from_all_events(kind: str, data: st.DataObject) -> None:
    example = data.draw(examples_of(kinds=[kind], created=False, most_queries=2))
    for text in example.queries:
        _, bound, wanted = asked(example, text)
        found = from_events(bound, example.stream, in_order(example), Input(example.stream.types), (), 0)
        assert_same(bound, rows_of(bound, found), wanted)


@settings(max_examples=25)
@given(examples_of(created=False, most_queries=3), st.integers(1, 20))
def test_from_the_newest_events_where_they_are_enough(example: Example, before: int) -> None:
    """Whatever was let go, an answer from the rest is right, or is said to be impossible."""
    every = in_order(example)
    times = times_of(every)
    if before >= len(times):
        return
    gone = EventsBefore(before, int(times[before - 1]) + 1)
    for text in example.queries:
        _, bound, wanted = asked(example, text)
        now = int(times[-1])
        if not are_enough(bound.frame, gone, len(every) - before, now):
            continue
        since = events_needed(bound.frame, now)
        kept = every.slice(before)
        held = kept if since is None else kept.filter(pa.array(times[before:] >= since))
        earlier = len(every) - len(held)
        if reaches_back(bound.frame, times_of(held), gone, earlier, now):
            found = from_events(bound, example.stream, held, Input(example.stream.types), (), earlier)
            assert_same(bound, rows_of(bound, found), wanted)


def test_what_is_enough() -> None:
    gone = EventsBefore(10, 100)
    assert are_enough(Window(range=20), gone, 0, 120)
    assert not are_enough(Window(range=21), gone, 0, 120)
    assert not are_enough(Window(range=20, slide=50), gone, 0, 120)
    assert are_enough(Window(rows=4, slide_rows=1), gone, 5, 120)
    assert not are_enough(Window(rows=5, slide_rows=1), gone, 5, 120)
    assert not are_enough(Window(unbounded=True), gone, 1000, 120)
    assert are_enough(Window(unbounded=True), EventsBefore(), 0, 120)
    assert are_enough(Window(since=100), gone, 0, 120) and not are_enough(Window(since=99), gone, 0, 120)
    assert not are_enough(Window(range=5, attribute="seq"), gone, 1000, 120)


def test_a_window_by_tuples_may_end_long_before_the_newest_event() -> None:
    """After two events the window reaches back from the second, however late the third comes."""
    frame, times = Window(range=50, slide_rows=2), np.array([40, 60, 200])
    assert reaches_back(frame, times, EventsBefore(2, 10), 2, 200)
    assert not reaches_back(frame, times, EventsBefore(2, 11), 2, 200)
    assert reaches_back(frame, times, EventsBefore(1, 150), 1, 200)
    assert not reaches_back(frame, times[2:], EventsBefore(4, 61), 4, 200)


METHODS = st.sampled_from(("fragments", "rows"))


class KeptRun(Run):
    """Standing queries, and what their sub-windows cover."""

    def __init__(self, example: Example, queries: list[SlicedAggregation], manner: Manner) -> None:
        super().__init__(example.stream, queries, manner, lateness=manner.lag)
        for batch in cut(example.events, manner.batches):
            self.take(batch)
        self.newest = self.run.newest
        sharing_set = self.run.sets["shared"]
        self.kept_stretches, self.tier = sharing_set.kept_stretches, sharing_set.tier


@settings(max_examples=12)
@given(
    examples_of(kinds=["periodic"], axes=["ts"]),
    st.sampled_from(("as it stands", "no slide")),
    st.booleans(),
    st.builds(
        Manner, batches=st.just(3), method=st.sampled_from(("fragments", "rows")), lag=st.sampled_from((0, 10**8))
    ),
)
def test_from_sub_windows(example: Example, form: str, exact: bool, manner: Manner) -> None:
    """A question with the aggregates of a standing query is answered as from events, at the instant that it says."""
    example = replace(example, events=sorted((e for e in example.events if e["ts"] is not None), key=lambda e: e["ts"]))
    standing = [bound_in(example, parse_query(text)) for text in example.queries]
    run = KeptRun(example, standing, manner)
    if run.newest is None:
        return
    for text in example.queries:
        query = parse_query(text)
        assert isinstance(query.source, Named) and query.source.window is not None
        window = query.source.window if form == "as it stands" else replace(query.source.window, slide=None, offset=0)
        question = replace(query, name=None, start_at=None, stop_at=None, source=replace(query.source, window=window))
        bound = bound_in(example, question)
        place = kept_window(bound, run.kept_stretches, run.newest, exact=exact)
        if place is None:
            continue
        (start, end), shown = place
        found = rows_of(bound, from_sub_windows(bound, example.stream, run.tier.entries, shown, (start, end)))
        if exact or form == "as it stands":
            wanted = reference.ask(question, example.stream, example.events).rows
        else:
            assert shown.closes - shown.opens == end - start == window.range and end <= run.newest + 1
            wanted = _at(example, question, end, shown.closes)
        assert_same(bound, found, wanted)


def _at(example: Example, question: Query, end: int, shown: int) -> list[tuple[Any, ...]]:
    """What a periodic query answers at an instant."""
    source = question.source
    assert isinstance(source, Named) and source.window is not None and source.window.range is not None
    size = source.window.range
    periodic = replace(source, window=replace(source.window, slide=size, offset=end % size))
    only = replace(question, name="q", source=periodic, start_at=end - size, stop_at=end)
    rows = reference.answer(only, example.stream, example.events).rows
    return [(shown - size, shown, *row[2:]) for row in rows]


def test_sub_windows_serve_a_question_at_the_newest_edge() -> None:
    """A standing query of ten microseconds every five, with its lateness, serves the last ten and the last five."""
    events = [{"ts": t, "symbol": "A", "price": float(t)} for t in (1, 6, 11, 16, 23)]
    stream = Stream("trades", (("ts", TIMESTAMP), ("symbol", STRING), ("price", DOUBLE)), "ts")
    example = Example(stream, events, [])
    text = "CREATE QUERY q AS SELECT sum(price) AS s, median(price) AS m FROM trades [RANGE 10 us SLIDE 5 us]"
    run = KeptRun(example, [bound_in(example, parse_query(text))], Manner(batches=5, lag=5))
    assert run.newest == 23

    def kept(window: str, *, exact: bool) -> Any:
        bound = bound_in(example, parse_query(f"SELECT sum(price) AS s FROM trades {window}"))
        place = kept_window(bound, run.kept_stretches, 23, exact=exact)
        if place is None:
            return None
        return rows_of(bound, from_sub_windows(bound, stream, run.tier.entries, place[1], place[0]))

    assert kept("[RANGE 10 us SLIDE 5 us]", exact=True) == [(10, 20, 27.0)]
    assert kept("[RANGE 5 us SLIDE 5 us]", exact=True) == [(15, 20, 16.0)]
    assert kept("[RANGE 10 us]", exact=True) is None
    assert kept("[RANGE 10 us]", exact=False) == [(10, 20, 27.0)]
    assert kept("[RANGE 4 us]", exact=True) == [(19, 23, 23.0)]
    assert kept("[RANGE 7 us SLIDE 7 us]", exact=False) is None
    assert kept("[ROWS 2]", exact=False) is None
