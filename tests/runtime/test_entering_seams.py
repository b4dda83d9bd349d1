"""Queries that enter streams at work, one after the other: each answers as if it were alone. Without a JVM."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from operator import add
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.testing import STEPS, Crash, crash_at
from runtime.test_seams import COUNTS, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


ANCHORS = {f"of_{name}": f"SELECT count(*) AS n FROM {name} [RANGE 5 us SLIDE 5 us]" for name in "st"}
PAIRS = "SELECT x.v * 100 + y.v AS n FROM s [RANGE 10 us SLIDE 10 us] x, t [RANGE 10 us SLIDE 10 us] y WHERE x.k = y.k"


@pytest.mark.parametrize("killed", [False, True])
def test_who_enters_later_takes_nothing_from_who_waits(world: World, killed: bool) -> None:
    """At the second entry the slower stream still holds the steps back, and what the other one handed on since the
    first is in its intake alone."""
    other = "SELECT x.v AS n FROM s [RANGE 5 us] x, t [RANGE 5 us] y WHERE x.v = y.v"
    runs = [((5,), (10,), ANCHORS), ((7,), (16, 20), {**ANCHORS, "pairs": PAIRS})]
    for s_times, t_times, queries in runs:
        world.add(s_times)
        world.add(t_times, "t")
        world.run(queries)
    queries = {**ANCHORS, "pairs": PAIRS, "other": other}
    world.add((14, 40))
    world.add((40,), "t")
    if killed:
        with crash_at("before operators"), pytest.raises(Crash):
            world.run(queries)
    assert sorted(world.run(queries, close=True)["pairs"]) == [(20, 1410), (20, 1416), (50, 4040)]


@pytest.mark.parametrize("window", ["RANGE UNBOUNDED SLIDE 5 us", "RANGE UNBOUNDED", "RANGE UNBOUNDED SLIDE 1 TUPLE"])
def test_a_start_that_the_stream_has_passed_is_that_of_any_newcomer(world: World, window: str) -> None:
    """It counts from the newest event on, with the events of that time."""
    world.add([1, 5, 10, 10])
    world.run({"anchor": COUNTS})
    count = f"AS SELECT count(*) AS n FROM s [{window}]"
    plain, early = (
        f"CREATE QUERY plain {count}",
        f"CREATE QUERY early START AT TIMESTAMP '1970-01-01 00:00:00.000003' {count}",
    )
    world.add([17])
    world.run({"anchor": COUNTS, "plain": plain, "early": early})
    world.add([24])
    found = world.run({"anchor": COUNTS, "plain": plain, "early": early}, close=True)
    assert found["plain"] == found["early"] and found["plain"][-1][1] == 4


@dataclass(frozen=True)
class Entering:
    """Relations over two streams that enter one after the other; with each run come some events of both."""

    slides: list[tuple[int, int, int]]
    """Of each query the range and slide of its windows, and the run with which it enters."""
    times: list[tuple[list[int], list[int]]]
    kills: list[tuple[str, int] | None]

    def answers(self, base: Path, only: int | None = None) -> dict[str, list[Any]]:
        world, found, all_pairs = World(base), dict[str, list[Any]](), PAIRS.replace("x.k = y.k", "x.v % 1 = y.v % 1")
        for run, (of_s, of_t) in enumerate(self.times):
            world.add(of_s)
            world.add(of_t, "t")
            queries = dict(ANCHORS)
            for i, (range_, slide, enters) in enumerate(self.slides):
                if enters <= run and only in (None, i):
                    queries[f"q{i}"] = all_pairs.replace(
                        "RANGE 10 us SLIDE 10 us", f"RANGE {range_} us SLIDE {slide} us"
                    )
            close = run == len(self.times) - 1
            kill = None if only is not None else self.kills[run]
            for crash in ([crash_at(*kill)] if kill else []) + [nullcontext()]:
                try:
                    with crash:
                        found = world.run(queries, close=close, lateness=0)
                except Crash:
                    continue
                break
        return {name: sorted(rows) for name, rows in found.items() if name not in ANCHORS}


def coming(runs: int) -> st.SearchStrategy[list[tuple[list[int], list[int]]]]:
    """One stream is slower than the other, so that steps wait for it."""

    def of_run(run: int) -> st.SearchStrategy[tuple[list[int], list[int]]]:
        slow, fast = (st.integers(0, 20).map(partial(add, speed * run)) for speed in (3, 12))
        return st.tuples(st.lists(slow, min_size=1, max_size=3), st.lists(fast, min_size=1, max_size=4))

    return st.tuples(*map(of_run, range(runs))).map(list)


entering = st.integers(3, 5).flatmap(
    lambda runs: st.builds(
        Entering,
        slides=st.lists(
            st.tuples(st.integers(5, 30), st.integers(2, 12), st.integers(1, runs - 1)), min_size=2, max_size=3
        ),
        times=coming(runs),
        kills=st.lists(st.none() | st.tuples(st.sampled_from(STEPS), st.integers(1, 2)), min_size=runs, max_size=runs),
    )
)


@pytest.mark.slow
@settings(max_examples=20)
@given(entering)
def test_relations_that_enter_do_not_depend_on_each_other(trial: Entering) -> None:
    """Killed or not, all together answer what each does by itself."""
    with tempfile.TemporaryDirectory() as base:
        together = trial.answers(Path(base) / "all")
        for i in range(len(trial.slides)):
            assert {f"q{i}": together[f"q{i}"]} == trial.answers(Path(base) / f"{i}", only=i)
