"""Promising selections in whole runs: cut, crashed anywhere, entered and left, every row is one of them, once."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.algebra.streams import Stream
from mullion.language.types import BIGINT, TIMESTAMP
from mullion.surface.progress import warnings
from mullion.testing import STEPS, Crash, crash_at
from without_spark import engine_without_spark, local_engine, write_events

EVENTS = Stream("s", (("ts", TIMESTAMP), ("k", BIGINT), ("v", BIGINT)), "ts")
STREAM = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) USING parquet OPTIONS (path '{}') TIMESTAMP BY ts;"
SUMMARY = "CREATE SUMMARY keys ON s(k) WITH GRANULARITY '5 us' AND COLLAPSE (2, 3){};"
SCRIPT = STREAM.format("nowhere") + SUMMARY
PLAIN = "SELECT k, v FROM s [RANGE 20 us] WHERE v % 5 <> 2"
PREFERENCES = ("DESC estimate(s.k) FADE FACTOR 0.5", "ASC estimate(s.k) * s.v", "DESC v", "WEIGHTED estimate(k)")
BUDGETS = ("1 ROWS", "3 ROWS", "2 EVENTS", "1000 ROWS", "'1 us'", "AUTO")
LITTLE = (1, 300, 800)
MEMORY = (None, *LITTLE, 1_000_000)
Rows = list[tuple[Any, ...]]


def query(preference: str = "DESC v", budget: str = "3 ROWS", plain: str = PLAIN) -> str:
    return f"{plain} WITH PREFERENCE {preference} BUDGET {budget}"


def kept(memory: int | None) -> str:
    return "" if memory is None else f" MEMORY '{memory} B'"


def told(engine: Any, name: str) -> Rows:
    rows = engine.results(name).to_arrow().to_pylist()
    return sorted((row["k"], row["v"], row["inserted_at"], row["expires_at"]) for row in rows)


def check_tally(engine: Any, memory: int | None) -> None:
    for facts in engine.relations.promising.values():
        assert facts["offered"] == facts["told"] + facts["waiting"] + facts["expired"] + facts["shed"]
        assert memory is None or facts["bytes"] <= memory


class World:
    """A stream in a directory that grows by a file with every run."""

    def __init__(self, base: Path, memory: int | None = None) -> None:
        self.base, self.files, self.memory = base, 0, memory

    def add(self, events: list[tuple[int, int]]) -> None:
        rows = [{"ts": at, "k": key, "v": 1000 * self.files + i} for i, (at, key) in enumerate(events)]
        write_events(self.base / "s", self.files, EVENTS, rows)
        self.files += 1

    def run(self, text: str, crash: tuple[str, int] | None = None, *, close: bool, state: str = "state") -> Rows | None:
        """What the query has answered after one more run; None if it crashed."""
        with engine_without_spark(out=self.base / f"{state}.out", checkpoint=self.base / state) as engine:
            engine.execute(STREAM.format(self.base / "s") + SUMMARY.format(kept(self.memory)))
            engine.query(f"CREATE QUERY q AS {text}")
            try:
                with crash_at(*crash) if crash else nullcontext():
                    engine.run(close=close)
            except Crash:
                return None
            check_tally(engine, self.memory)
            return told(engine, "q")


batches = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=8), min_size=1, max_size=4
)


@pytest.mark.slow
@given(batches, st.sampled_from(PREFERENCES), st.sampled_from(BUDGETS), st.sampled_from(MEMORY), st.data())
def test_however_a_run_is_cut_and_crashed(
    parts: list, preference: str, budget: str, memory: int | None, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as base:
        world, part = World(Path(base), memory), None
        for number, events in enumerate(parts):
            world.add(sorted((10 * number + at, key) for at, key in events))
            crash = data.draw(st.sampled_from((None, *((step, n) for step in STEPS for n in (1, 2, 3)))))
            close = number == len(parts) - 1
            part = world.run(query(preference, budget), crash, close=close)
            while part is None:
                part = world.run(query(preference, budget), close=close)
        whole = world.run(PLAIN, close=True, state="whole")
        assert part is not None and whole is not None
        assert len(set(part)) == len(part) and set(part) <= set(whole)
        assert part == whole or budget != "1000 ROWS"


@given(batches, st.sampled_from(PREFERENCES), st.sampled_from(BUDGETS), st.sampled_from(MEMORY), st.data())
def test_however_it_enters_and_leaves(
    parts: list, preference: str, budget: str, memory: int | None, data: st.DataObject
) -> None:
    """Beside the plain selection, which enters and leaves with it, and another promising one that leaves or stays."""
    enters = data.draw(st.integers(0, len(parts)))
    leaves = data.draw(st.one_of(st.none(), st.integers(enters, len(parts))))
    other = data.draw(st.sampled_from((None, query(preference, budget, PLAIN.replace("k, v", "k, v, ts AS t")))))
    with local_engine(SCRIPT.format(kept(memory))) as engine:
        if other is not None:
            engine.execute(f"CREATE QUERY other AS {other}")
        for number in range(len(parts) + 1):
            if number == enters:
                engine.execute(f"CREATE QUERY part AS {query(preference, budget)}; CREATE QUERY whole AS {PLAIN}")
            if number == leaves:
                engine.execute("DROP QUERY part; DROP QUERY whole")
            if number < len(parts):
                rows = sorted((10 * number + at, key) for at, key in parts[number])
                events = [{"ts": at, "k": key, "v": 100 * number + i} for i, (at, key) in enumerate(rows)]
                engine.deliver("s", events, number)
                check_tally(engine, memory)
        if leaves is None:
            engine.end("s")
            check_tally(engine, memory)
        part, whole = told(engine, "part"), told(engine, "whole")
        assert len(set(part)) == len(part) and set(part) <= set(whole)
        assert part == whole or budget != "1000 ROWS"
        if other is not None and leaves is None:
            assert not {row for row in told(engine, "other") if row[1] is None}


def test_what_waits_at_a_restart_is_told_after_it(tmp_path: Path) -> None:
    """Six rows, three a step. They say when they came."""
    world = World(tmp_path)
    world.add([(1, 0)] * 7)
    for at in (5, 6, 7, 8):
        world.add([(at, 1)])
        found = world.run(query(), close=False)
    assert found is not None
    assert [row[2].microsecond for row in found].count(1) == 6


def test_periodic_answers_see_what_was_found_by_then() -> None:
    """Four rows at 1, one a step: the answers at 5, 10 and 15 see what the steps before them found."""
    text = query(budget="1 ROWS", plain=PLAIN.replace("20 us", "20 us SLIDE 5 us"))
    with local_engine(f"{SCRIPT.format('')} CREATE QUERY q AS {text};") as engine:
        engine.deliver("s", [{"ts": 1, "k": 1, "v": v} for v in (0, 1, 3, 4)], 0)
        for number, at in enumerate((6, 11, 16), 1):
            engine.deliver("s", [{"ts": at, "k": 2, "v": 2}], number)
        rows = engine.results("q").to_arrow().to_pylist()
        ends = [row["window_end"].microsecond for row in rows]
        assert [ends.count(5 * i) for i in (1, 2, 3)] == [1, 2, 3]


def test_explain_and_the_end_say_what_was_not_told(tmp_path: Path) -> None:
    """Of six rows three are told, though the plain selection stands beside it: it saves telling rows."""
    text = query("DESC estimate(s.k) FADE FACTOR 0.5", "3 ROWS")
    with local_engine(f"{SCRIPT.format('')} CREATE QUERY whole AS {PLAIN}; CREATE QUERY q AS {text};") as engine:
        assert "decided in each step" in str(engine.explain("q"))
        engine.deliver("s", [{"ts": 1, "k": v % 2, "v": v} for v in (0, 1, 3, 4, 5, 6)], 0)
        engine.deliver("s", [{"ts": 3, "k": 2, "v": 2}], 1)
        explained = str(engine.explain("q"))
        assert "weak ── PROMISING DESC estimate(k), fade 0.5, budget 3 ROWS a step" in explained
        assert "promising_selection: about " in explained and "summary keys: s(k) by counts" in explained
        assert "summary keys" not in str(engine.explain("whole"))
        assert "the last step offered 6 rows, 2.0 x the budget: it was not" in explained
        assert "told_so_far: 3 of 6 rows (50 %); 3 wait, 0 expired unseen, 0 shed" in explained
        assert "last_step: 3 of 6 rows (50 %) in " in explained and "3 wait, the oldest for 2e-06 s" in explained
        (sentence,) = warnings({}, tmp_path, promising=engine.relations.promising)
        assert sentence == "query q answered about 50 % of its results (BUDGET): 3 wait"


def test_memory_lets_the_least_promising_of_what_waits_go(tmp_path: Path) -> None:
    """Two rows a step are told of twenty that come, and there is room for about twelve that wait."""
    with local_engine(f"{SCRIPT.format(kept(2000))} CREATE QUERY q AS {query('DESC v', '2 ROWS')};") as engine:
        for number in range(4):
            engine.deliver("s", [{"ts": number, "k": v % 3, "v": 5 * (v + 20 * number)} for v in range(20)], number)
            check_tally(engine, 2000)
        facts = engine.relations.promising["q"]
        assert facts["rows_shed"] == facts["shed"] == facts["shed_by_memory"] > 20 and facts["waiting"] > 5
        assert sorted(row[1] for row in told(engine, "q")) == [90, 95, 190, 195, 290, 295]
        assert "memory: 2000 bytes" in str(engine.explain("q"))


@pytest.mark.parametrize("budget", ["1000 ROWS", "1000 EVENTS", "'1 h'", "AUTO"])
def test_without_shortage_nobody_is_warned(budget: str, tmp_path: Path) -> None:
    with local_engine(f"{SCRIPT.format('')} CREATE QUERY q AS {query(budget=budget)};") as engine:
        for number in range(3):
            engine.deliver("s", [{"ts": 1_000_000 * number + i, "k": 1, "v": 5 * i} for i in range(9)], number)
        engine.end("s")
        assert not list(warnings({}, tmp_path, promising=engine.relations.promising))
        assert len(told(engine, "q")) == 27
