"""Which windows are answered, and when: by hand, then in many steps of the watermark against one at the end."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.language.query import Column, Period
from mullion.language.types import STRING
from mullion.planner.sliced import AnswerTemplate, SlicedAggregation
from mullion.planner.slices import edges_between
from mullion.slices import due
from mullion.slices.due import Cursor, SeenEvents, due_windows, first_end, last_end


def query(
    window: Period, *, name: str = "q", grouped: bool = False, start: int | None = None, stop: int | None = None
) -> SlicedAggregation:
    keys = (Column("symbol"),) if grouped else ()
    shape = AnswerTemplate((STRING,) if grouped else (), (), (), (), None, (), None)
    return SlicedAggregation(name, "", "trades", window, None, keys, shape, start, stop)


def brute(asked: SlicedAggregation, times: list[int]) -> list[int]:
    """The ends of all windows that the query answers, by trying every instant."""
    range_, slide, offset = asked.window
    if not times:
        return []
    instants = [t for t in range(min(times), max(times) + range_ + 1) if (t - offset) % slide == 0]
    held = [
        t
        for t in instants
        if any(t - range_ <= time < t for time in times)
        and (asked.start is None or t - range_ >= asked.start)
        and (asked.stop is None or t <= asked.stop)
    ]
    return held if asked.keys or not held else [t for t in instants if held[0] <= t <= held[-1]]


class Watched:
    """Queries whose events come in little by little."""

    def __init__(self, *queries: SlicedAggregation) -> None:
        self.queries = queries
        self.cursors = {q.name: Cursor() for q in queries}
        self.times: list[int] = []
        self.found: dict[str, list[int]] = {q.name: [] for q in queries}

    def step(self, times: list[int], watermark: int | None) -> None:
        self.times += times
        if not self.times:
            return
        windows = [q.window for q in self.queries]
        slices = sorted({int(edges_between(windows, t, t)[0]) for t in self.times})
        seen = SeenEvents(min(self.times), max(self.times), np.array(slices, np.int64))
        found = due_windows(self.queries, self.cursors, seen, watermark).whole()
        assert (np.diff(found.query) >= 0).all()
        for index, start, end in zip(found.query.tolist(), found.start.tolist(), found.end.tolist(), strict=True):
            assert end - start == self.queries[index].window.range
            assert watermark is None or end <= watermark
            self.found[self.queries[index].name].append(end)


def test_first_and_last_end_by_hand() -> None:
    """W[18,15]: the window that ends at 15 holds -3..14, the one that ends at 30 holds 12..29."""
    window = Period(18, 15)
    assert [first_end(t, window) for t in (-1, 0, 14, 15)] == [0, 15, 15, 30]
    assert [last_end(t, window) for t in (-4, -3, 11, 12)] == [0, 15, 15, 30]
    assert first_end(0, Period(18, 15, 2)) == 2
    assert last_end(0, Period(18, 15, 2)) == 17


def test_a_window_is_due_when_the_watermark_reaches_its_end() -> None:
    watched = Watched(query(Period(10, 5)))
    watched.step([3], 4)
    assert watched.found["q"] == []
    watched.step([], 5)
    assert watched.found["q"] == [5]
    watched.step([], 5)
    assert watched.found["q"] == [5]
    watched.step([], None)
    assert watched.found["q"] == [5, 10]


def test_empty_windows_are_due_between_full_ones_only() -> None:
    watched = Watched(query(Period(5, 5)), query(Period(5, 5), name="grouped", grouped=True))
    watched.step([1], 20)
    assert watched.found == {"q": [5], "grouped": [5]}
    watched.step([22], None)
    assert watched.found == {"q": [5, 10, 15, 20, 25], "grouped": [5, 25]}


def test_events_in_the_gaps_of_a_hopping_window_answer_nothing() -> None:
    """[RANGE 2 SLIDE 10] holds 8..9, 18..19, 28..29."""
    watched = Watched(query(Period(2, 10)))
    watched.step([1, 5], 8)
    assert watched.found["q"] == []
    watched.step([9, 12], 27)
    assert watched.found["q"] == [10]
    watched.step([29], None)
    assert watched.found["q"] == [10, 20, 30]


def test_a_query_that_starts_and_stops() -> None:
    """Of the windows that end at 5, 10, 15, 20, those within [5, 15]."""
    watched = Watched(query(Period(5, 5), start=1, stop=16))
    watched.step([0, 7, 12, 18], None)
    assert watched.found["q"] == [10, 15]
    exact = Watched(query(Period(5, 5), start=5, stop=15))
    exact.step([0, 7, 12, 18], None)
    assert exact.found["q"] == [10, 15]


def test_a_query_that_starts_within_nothing() -> None:
    """Its first window is the first of its own that holds an event."""
    watched = Watched(query(Period(5, 5), start=5))
    watched.step([1, 22, 31], None)
    assert watched.found["q"] == [25, 30, 35]


def test_before_the_epoch() -> None:
    watched = Watched(query(Period(18, 15)))
    watched.step([-20, -3], -15)
    assert watched.found["q"] == [-15]
    watched.step([], None)
    assert watched.found["q"] == [-15, 0, 15]


def test_nothing_seen_nothing_due() -> None:
    assert len(due_windows([query(Period(5, 5))], {"q": Cursor()}, None, None)) == 0


def test_a_long_silence_does_not_list_what_lies_in_it() -> None:
    """Grouped windows are found by what they hold, not by trying a year of microseconds."""
    year = 365 * 86_400 * 1_000_000
    watched = Watched(query(Period(3, 2), grouped=True))
    watched.step([1, year], None)
    assert watched.found["q"] == [2, 4, year + 2]


windows = st.builds(Period, st.integers(1, 25), st.integers(1, 20), st.integers(-12, 12))
asked = st.builds(
    query,
    windows,
    grouped=st.booleans(),
    start=st.none() | st.integers(-60, 60),
    stop=st.none() | st.integers(-40, 90),
)


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.lists(asked, min_size=1, max_size=4),
    st.lists(st.lists(st.integers(-50, 50), max_size=4), min_size=1, max_size=6),
    st.sampled_from((0, 1, 7)),
    st.sampled_from((-1, due.MOST_LOOKED_AT, 1_000)),
)
def test_many_steps_are_one_step_at_the_end(
    queries: list[SlicedAggregation], batches: list[list[int]], lag: int, looked_at: int
) -> None:
    """Windows of groups are found query by query, of all queries at once, or as it pays."""
    queries = [
        query(q.window, name=f"q{i}", grouped=bool(q.keys), start=q.start, stop=q.stop) for i, q in enumerate(queries)
    ]
    times = [t for batch in batches for t in batch]
    stepwise, at_once = Watched(*queries), Watched(*queries)
    with mock.patch.object(due, "MOST_LOOKED_AT", looked_at):
        for i, batch in enumerate(batches):
            ahead = [t for later in batches[i + 1 :] for t in later]
            stepwise.step(batch, min(ahead, default=max(times, default=0)) - lag)
        stepwise.step([], None)
        at_once.step(times, None)
    wanted = {q.name: brute(q, times) for q in queries}
    assert at_once.found == wanted
    assert stepwise.found == wanted
