"""What windows have lost is told by window: how many of their events were kept, also where none was."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_batch import MemorySource
from mullion.kernels.thinning import identity_hash
from mullion.language.query import Period
from mullion.slices.bounds import EVERYWHERE, Stretch
from mullion.slices.shed_tally import ShedEvents, ShedTally
from mullion.slices.window_runs import Due
from runtime.test_shedding import ONE_WINDOW, S
from shed_trials import SHEDDING, Decisions, Event, Oracle, Trial, play, trials
from without_spark import local_engine

RANDOM = "WHEN BEHIND SHED RANDOM AT MOST 50 PERCENT MARK EXACT"
BY = "WHEN BEHIND SHED BY x AT MOST 50 PERCENT MARK EXACT"


def answered(behind: str, text: str, *batches: Sequence[Event]) -> list[Any]:
    """The answers when half of each batch is shed."""
    with local_engine(f"{S} {behind}; CREATE QUERY q AS {text}") as engine:
        for number, events in enumerate(batches):
            engine._runs.of("s").overload.monitor.steps["shed"] = 2
            engine.deliver("s", list(events), number)
        engine.end("s")
        return engine.results("q").to_arrow().drop_columns(["window_start"]).to_pylist()


def event(time: int, x: int = 0, k: str = "a") -> Event:
    return {"ts": time, "k": k, "x": x}


LOST = [place for place, hashed in enumerate(identity_hash(0, np.arange(50), "s").tolist()) if hashed >= 0]
KEPT = [place for place in range(50) if place not in LOST]


def test_a_window_that_lost_its_only_event_is_not_like_an_empty_one() -> None:
    """Windows of 10: one event that is kept, none, one that is shed, one that is kept."""
    places = {KEPT[-2]: 5, LOST[0]: 25, KEPT[-1]: 35}
    filler = [event(5) for _ in range(50)]
    events = [event(places[at]) if at in places else own for at, own in enumerate(filler)]
    text = "SELECT APPROX count(*) AS n, sum(x) AS s FROM s [RANGE 10 us SLIDE 10 us]"
    rows = answered(RANDOM, text, events)
    told = [(row["n"], row["n_error"], row["s_error"], row["kept_share"]) for row in rows]
    assert told[1] == (0, 0.0, 0.0, None)
    assert told[2] == (0, None, None, 0.0)
    assert told[3][0] == 2 and told[3][3] == 1.0


@pytest.mark.parametrize("place", [0, 49])
def test_a_first_or_last_window_that_was_shed_whole_is_answered(place: int) -> None:
    """By worth: the event at one end is the least of two."""
    events = [event(0, x=place), event(49, x=49 - place)]
    rows = answered(BY, "SELECT count(*) AS n FROM s [RANGE 10 us SLIDE 10 us]", events)
    told = [(row["n"], row["kept_share"]) for row in rows]
    ends = [(1, 1.0), (0, 0.0)] if place else [(0, 0.0), (1, 1.0)]
    assert told == [ends[0], (0, None), (0, None), (0, None), ends[1]]


def test_a_batch_of_which_nothing_was_kept_is_answered() -> None:
    """One event, at a place whose hash sheds it: after records without a time, which are set aside."""
    timeless: list[Event] = [{"ts": None, "k": "a", "x": 0}] * LOST[0]
    text = "SELECT APPROX count(*) AS n FROM s [RANGE 10 us SLIDE 10 us]"
    rows = answered(RANDOM, text, [*timeless, event(5)])
    assert [(row["n"], row["n_error"], row["kept_share"]) for row in rows] == [(0, None, 0.0)]


def test_shed_by_tells_the_share_of_each_window() -> None:
    """52 low and 48 high events, about half of them kept: only low ones are lost."""
    events = [event(i, x=0 if i < 52 else 1, k="low" if i < 52 else "high") for i in range(100)]
    (row,) = answered(BY, f"SELECT count(*) AS n {ONE_WINDOW}", events)
    assert row["kept_share"] == row["n"] / 100 < 0.6
    low, high = answered(BY, "SELECT count(*) AS n FROM s [RANGE 50 us SLIDE 50 us]", events)
    assert (low["kept_share"], high["kept_share"]) == (low["n"] / 50, high["n"] / 50)
    assert low["n"] + high["n"] == row["n"] and high["n"] >= 48


@pytest.mark.parametrize("rest", [f"{ONE_WINDOW} GROUP BY k", f"{ONE_WINDOW} WHERE k = 'low'"])
def test_shed_by_does_not_know_the_share_of_a_part(rest: str) -> None:
    events = [event(i, x=0 if i < 52 else 1, k="low" if i < 52 else "high") for i in range(100)]
    rows = answered(BY, f"SELECT count(*) AS n {rest}", events)
    assert rows and {row["kept_share"] for row in rows} == {None}


@pytest.mark.parametrize("rest", [f"{ONE_WINDOW} GROUP BY k", f"{ONE_WINDOW} WHERE k = 'a'"])
def test_a_part_of_a_window_that_lost_nothing_was_kept_whole(rest: str) -> None:
    with local_engine(f"{S} {BY}; CREATE QUERY q AS SELECT count(*) AS n {rest}") as engine:
        engine.deliver("s", [event(i) for i in range(10)], 0)
        engine.end("s")
        assert [row["kept_share"] for row in engine.results("q").to_arrow().to_pylist()] == [1.0]


def test_groups_of_a_random_sample_tell_the_estimate() -> None:
    rows = answered(RANDOM, f"SELECT APPROX k, count(*) AS n {ONE_WINDOW} GROUP BY k", [event(i) for i in range(100)])
    assert [row["kept_share"] for row in rows] == [0.5]


def test_questions_do_not_know_what_shed_by_has_lost() -> None:
    with local_engine(f"{S} KEEP 1000 ROWS {BY}") as engine:
        engine._runs.of("s").overload.monitor.steps["shed"] = 2
        engine.deliver("s", [event(i, x=i) for i in range(100)], 0)
        (row,) = engine.ask("SELECT count(*) AS n FROM s [RANGE 1 s]").to_arrow().to_pylist()
    assert row["n"] == 50 and row["kept_share"] is None


def test_a_share_may_be_asked_for() -> None:
    events = [event(i, x=int(i >= 50)) for i in range(100)]
    rows = answered(BY, "SELECT count(*) AS n FROM s [RANGE 50 us SLIDE 50 us] HAVING kept_share > 0.5", events)
    assert [(row["n"], row["kept_share"]) for row in rows] == [(50, 1.0)]


def test_the_newest_event_lets_time_go_on_though_it_is_shed() -> None:
    """What is late does not depend on what was kept."""
    with local_engine(f"{S} {BY}; CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 10 us SLIDE 10 us]") as engine:
        engine._runs.of("s").overload.monitor.steps["shed"] = 2
        engine.deliver("s", [event(5, x=1), event(25, x=0)], 0)
        assert engine.results("q").to_arrow().num_rows == 2
        engine.deliver("s", [event(7, x=1), event(26, x=1)], 1)
        assert engine.counts["s"].late == 1


@pytest.mark.parametrize("forgets", [False, True])
def test_a_past_that_is_read_again_was_not_shed(forgets: bool) -> None:
    """Three batches of which half is shed; a query enters before the third, and reads what came before. What the stream
    keeps of that is what was not shed, and of which windows the rest was is not known."""
    batches = [[event(20 * number + i, x=i) for i in range(20)] for number in range(3)]
    text = "SELECT count(*) AS n FROM s [RANGE 30 us SLIDE 10 us]"
    with local_engine(f"{S} KEEP 1000 ROWS {RANDOM}; CREATE QUERY other AS {text} WHERE x > 3") as engine:
        source = engine._runs.of("s").source
        assert isinstance(source, MemorySource)
        source.forgets = forgets
        for number, events in enumerate(batches):
            if number == 2:
                engine.execute(f"CREATE QUERY q BACKFILL AS {text}")
            engine._runs.of("s").overload.monitor.steps["shed"] = 2
            engine.deliver("s", events, number)
        engine.end("s")
        told = [(row["n"], row["kept_share"]) for row in engine.results("q").to_arrow().to_pylist()]
    if forgets:
        assert len(told) == 5 and {share for _, share in told} == {None}
        return
    assert told[0] == (30, 1.0) and 20 < told[1][0] < 30
    assert [share for _, share in told] == [n / came for (n, _), came in zip(told, (30, 30, 30, 20, 10), strict=True)]


# The tally by itself


def test_what_was_read_again_is_not_lost() -> None:
    shed, windows = ShedTally(), [Period(10, 10)]
    for batch, times in enumerate([[1, 2, 11], [3, 12]]):
        shed.add(batch, ShedEvents.at(np.array(times), EVERYWHERE, windows))
    due = Due(np.array([0, 0, 1, 1, 2]), np.array([0, 10, 0, 10, 0]), np.array([10, 20, 10, 20, 10]))
    lost = shed.of(due, [None, 0, 1])
    assert lost is not None and lost.tolist() == [3, 2, 1, 1, 0]
    again = ShedTally(*shed.snapshot())
    again.forget_before(10)
    left = again.of(due, [None, 0, 1])
    assert left is not None and left.tolist() == [0, 2, 0, 1, 0]


@given(st.lists(st.lists(st.integers(-50, 50), max_size=9), max_size=4))
def test_parts_of_a_batch_are_tallied_as_one(parts: list[list[int]]) -> None:
    windows = [Period(18, 15), Period(7, 4, 1)]
    every = (np.array(part, np.int64) for part in parts)
    made = ShedEvents.together((ShedEvents.at(part, Stretch(-20, 20), windows) for part in every), windows)
    times = np.array([time for part in parts for time in part], np.int64)
    whole = ShedEvents.at(times, Stretch(-20, 20), windows)
    assert (made.slices.tolist(), made.counts.tolist()) == (whole.slices.tolist(), whole.counts.tolist())
    assert (made.number, made.oldest, made.newest) == (whole.number, whole.oldest, whole.newest)


# Against every window by itself


def brute_force(oracle: Oracle, length: int, slide: int) -> dict[int, tuple[int, int]]:
    """By the ends of windows, how many events were kept and how many lost."""
    kept, lost = [row["ts"] for row in oracle.kept["s"]], oracle.lost["s"]
    ends = [e for e in range(200) if e % slide == 0 and any(e - length <= t < e for t in (*kept, *lost))]
    every = range(ends[0], ends[-1] + 1, slide) if ends else ()
    return {e: (sum(e - length <= t < e for t in kept), sum(e - length <= t < e for t in lost)) for e in every}


@pytest.mark.slow
@settings(max_examples=60)
@given(trial=trials(("totals", "chosen", "hops", "groups", "so_far")))
def test_every_window_tells_what_it_lost(trial: Trial) -> None:
    """Over batches, restarts, kills and queries that enter."""
    oracles: list[Oracle] = []
    begin = Oracle.__init__

    def noted(oracle: Oracle, trial: Trial, streams: Any, decisions: Decisions) -> None:
        begin(oracle, trial, streams, decisions)
        oracles.append(oracle)

    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Oracle, "__init__", noted)
        told = play(trial, Path(name))
    for query, shape in {"totals": (20, 10), "hops": (3, 7)}.items():
        if query in told:
            right = brute_force(oracles[-1], *shape)
            rows = {row["window_end"]: row for row in told[query]}
            found = {int(end.timestamp() * 1e6 + 0.5): row for end, row in rows.items()}
            assert found.keys() == right.keys()
            for end, (kept, lost) in right.items():
                share = found[end]["kept_share"]
                assert share == (kept / (kept + lost) if kept + lost else None)
                if query == "totals" and trial.behind["s"] == SHEDDING[0]:
                    assert (found[end]["n_error"] is None) == (lost > 0 and not kept)
