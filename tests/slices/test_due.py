"""Which windows are answered, and when: by hand, then in many steps of the watermark against one at the end, and at
chosen instants of all queries at once against query by query."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.expressions.arrays import Times
from mullion.instants import EVERYTHING
from mullion.language.query import Column, Period
from mullion.language.types import STRING
from mullion.planner.sliced import AnswerTemplate, SlicedAggregation
from mullion.planner.slices import edges_between
from mullion.slices import due
from mullion.slices.due import (
    Cursor,
    InstantRun,
    SeenEvents,
    due_windows,
    first_end,
    last_end,
    scheduled_windows,
)


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


# SLIDE AT MOST


@dataclass(frozen=True)
class Chosen:
    """A query with SLIDE AT MOST, how far it was answered, and the instants that were chosen for it."""

    range: int
    grouped: bool
    next_end: int | None
    begun: bool
    runs: list[InstantRun]
    inherited: list[int] | None

    def query(self, name: str) -> SlicedAggregation:
        return replace(query(Period(self.range, 2), name=name, grouped=self.grouped), at_most=6)


@st.composite
def instant_runs(draw: st.DrawFn) -> list[InstantRun]:
    """In the order of time, no instant twice."""
    runs, at = [], draw(st.integers(-60, 40))
    for gap, count, slide in draw(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 9), st.integers(1, 12)))):
        runs.append(InstantRun(at + gap, count, slide))
        at += gap + (count - 1) * slide
    return runs


some_slices = st.lists(st.integers(-60, 80), max_size=8)
chosen_instants = st.builds(
    Chosen,
    range=st.integers(1, 25) | st.just(EVERYTHING),
    grouped=st.booleans(),
    next_end=st.none() | st.integers(-60, 90),
    begun=st.booleans(),
    runs=instant_runs(),
    inherited=st.none() | st.none() | some_slices,
)


def sorted_slices(times: list[int]) -> Times:
    return np.array(sorted(set(times)), np.int64)


@settings(max_examples=300)
@given(
    st.lists(chosen_instants, min_size=1, max_size=5),
    some_slices,
    st.none() | st.integers(1, 6),
    st.sampled_from((-1, due.MOST_LOOKED_AT, 1_000)),
)
def test_chosen_instants_of_all_queries_at_once_are_those_of_each_by_itself(
    chosen: list[Chosen], slices: list[int], most: int | None, looked_at: int
) -> None:
    queries = [own.query(f"q{i}") for i, own in enumerate(chosen)]
    inherited = {q.name: sorted_slices(own.inherited) for q, own in zip(queries, chosen, strict=True) if own.inherited}
    seen = SeenEvents(-60, 80, sorted_slices(slices), inherited)
    scheduled = {q.name: own.runs for q, own in zip(queries, chosen, strict=True)}
    cursors = {q.name: Cursor(own.next_end, own.begun) for q, own in zip(queries, chosen, strict=True)}
    alone = deepcopy(cursors)
    with mock.patch.object(due, "MOST_LOOKED_AT", looked_at):
        found = due_windows(queries, cursors, seen, 0, most=most, scheduled=scheduled)
    wanted, exceeded = [], []
    for i, own in enumerate(queries):
        columns = scheduled_windows(own, alone[own.name], seen, scheduled[own.name])
        runs = zip(*(column.tolist() for column in columns), strict=True)
        ends = [first + n * slide for first, count, slide in runs for n in range(count)]
        wanted += [(i, end) for end in ends[:most]]
        exceeded += [i] if most is not None and len(ends) > most else []
    windows = found.whole()
    assert list(zip(windows.query.tolist(), windows.end.tolist(), strict=True)) == wanted
    assert found.exceeded == tuple(exceeded)
    assert cursors == alone


def test_chosen_instants_beside_plain_queries() -> None:
    """The plain one goes by the watermark, the other by what was chosen, from where its past is known on."""
    plain, chosen = (
        query(Period(5, 5), name="plain", grouped=True),
        Chosen(5, True, 11, False, [], None).query("chosen"),
    )
    cursors = {"plain": Cursor(), "chosen": Cursor(next_end=11)}
    seen = SeenEvents(1, 22, np.array([1, 12, 22]))
    found = due_windows([plain, chosen], cursors, seen, 20, scheduled={"chosen": [InstantRun(3, 4, 6)]}).whole()
    assert list(zip(found.query.tolist(), found.end.tolist(), strict=True)) == [(0, 5), (0, 15), (1, 15)]
    assert cursors == {"plain": Cursor(20, True), "chosen": Cursor(11, True)}


# Sets of every kind


@dataclass(frozen=True)
class Asked:
    """A query of any kind, how far it was answered, and what else is known of it."""

    query: SlicedAggregation
    next_end: int | None
    begun: bool
    waits: bool
    after: int | None
    inherited: list[int] | None

    def named(self, name: str) -> SlicedAggregation:
        keeps = self.after if self.query.start is None else None
        return replace(self.query, name=name, after=keeps, backfill=keeps is not None)


of_any_kind = st.builds(
    Asked,
    query=asked,
    next_end=st.none() | st.integers(-60, 90),
    begun=st.booleans(),
    waits=st.booleans(),
    after=st.none() | st.none() | st.integers(-60, 60),
    inherited=st.none() | st.none() | some_slices,
)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(of_any_kind, st.none() | chosen_instants), min_size=1, max_size=6),
    some_slices.filter(bool),
    st.none() | st.integers(-60, 90),
    st.none() | st.integers(1, 6),
    st.sampled_from((-1, due.MOST_LOOKED_AT, 1_000)),
)
def test_windows_of_all_queries_at_once_are_those_of_each_by_itself(
    both: list[tuple[Asked, Chosen | None]], slices: list[int], watermark: int | None, most: int | None, looked_at: int
) -> None:
    own = [chosen or plain for plain, chosen in both]
    queries = [q.query(f"q{i}") if isinstance(q, Chosen) else q.named(f"q{i}") for i, q in enumerate(own)]
    named = {query.name: of for query, of in zip(queries, own, strict=True)}
    inherited = {name: sorted_slices(q.inherited) for name, q in named.items() if q.inherited}
    scheduled = {name: q.runs for name, q in named.items() if isinstance(q, Chosen)}
    waiting = {name for name, q in named.items() if isinstance(q, Asked) and q.waits}
    cursors = {name: Cursor(q.next_end, q.begun) for name, q in named.items()}
    seen = SeenEvents(min(slices), max(slices), sorted_slices(slices), inherited)
    alone, wanted, exceeded = deepcopy(cursors), [], []
    with mock.patch.object(due, "MOST_LOOKED_AT", looked_at):
        found = due_windows(queries, cursors, seen, watermark, waiting, most, scheduled)
        for i, query in enumerate(queries):
            runs = due_windows([query], alone, seen, watermark, waiting, most, scheduled)
            wanted += [(i, end) for end in runs.whole().end.tolist()]
            exceeded += [i] * len(runs.exceeded)
    windows = found.whole()
    assert list(zip(windows.query.tolist(), windows.end.tolist(), strict=True)) == wanted
    assert found.exceeded == tuple(exceeded) and cursors == alone
