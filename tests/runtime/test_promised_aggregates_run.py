"""Aggregates over promising joins in whole runs: cut, crashed anywhere, entered and left, they are right or say so."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.surface.progress import warnings
from promising_runs import SCRIPT, World, batches, deliver
from without_spark import EngineOfFiles, local_engine

JOIN = "FROM s [RANGE 20 us SLIDE 5 us], t [RANGE 20 us] WHERE s.k = t.k"
ITEMS = "count(*) AS n, sum(abs(s.v)) AS total, min(t.v) AS low, max(t.v) AS high"
WHOLE = f"SELECT s.k, {ITEMS} {JOIN} GROUP BY s.k"
Answer = dict[tuple[Any, ...], dict[str, Any]]


def query(preference: str, budget: str, items: str = ITEMS, keys: str = "s.k") -> str:
    return f"SELECT {keys}, {items} {JOIN} GROUP BY {keys} WITH PREFERENCE {preference} BUDGET {budget}"


def answer(engine: EngineOfFiles, name: str) -> Answer:
    """The groups of all windows; each is there once."""
    rows = engine.results(name).to_arrow().to_pylist()
    found = {(row["window_end"], row["k"]): row for row in rows}
    assert len(found) == len(rows)
    return found


class Grouped(World):
    """Streams s and t in a directory, and the groups of their join."""

    exact = WHOLE

    def answers(self, engine: EngineOfFiles, name: str) -> Any:
        return answer(engine, name)


def check(part: Answer, whole: Answer, *, is_sample: bool) -> None:
    """Every group is one of the join's. Bounds are on their side, and what says that it is complete is."""
    for window, row in part.items():
        exact = whole[window]
        if row["is_complete"]:
            assert {name: row[name] for name in ("n", "total", "low", "high")} == {
                name: exact[name] for name in ("n", "total", "low", "high")
            }
        assert row["low"] >= exact["low"] and row["high"] <= exact["high"]
        if not is_sample:
            assert row["n"] <= exact["n"] and row["total"] <= exact["total"]
            assert row["n_bound"] == ("=" if row["is_complete"] else ">=")


@pytest.mark.slow
@settings(max_examples=30)
@given(batches, st.sampled_from(("DESC 1", "ASC s.v, t.v", "WEIGHTED 1", "WEIGHTED s.v, t.v")),
       st.sampled_from(("1 ROWS", "3 ROWS", "12 ROWS", "1000 ROWS", "'1 us'", "AUTO")),
       st.sampled_from((None, None, 300, 800)), st.booleans(), st.data())  # fmt: skip
def test_however_a_run_is_cut_and_crashed(
    parts: list, preference: str, budget: str, memory: int | None, sharded: bool, data: st.DataObject
) -> None:
    is_sample = preference.startswith("WEIGHTED")
    with tempfile.TemporaryDirectory() as base:
        world = Grouped(Path(base), None if is_sample else memory, sharded=sharded)
        part = world.run_cut_and_crashed(query(preference, budget), parts, data)
        whole = world.whole()
        check(part, whole, is_sample=is_sample)
        if budget == "1000 ROWS" and world.memory is None:
            assert part.keys() == whole.keys() and all(row["is_complete"] for row in part.values())


def run_in_batches(text: str, cuts: Sequence[int]) -> Answer:
    """Sixty events of each stream in batches that end at some times."""
    with local_engine(f"{SCRIPT} CREATE QUERY q AS {text};") as engine:
        events = [{"ts": i, "k": i % 3, "v": i} for i in range(60)]
        for number, (since, until) in enumerate(zip((0, *cuts), (*cuts, 60), strict=True)):
            for name in "st":
                engine.deliver(name, events[since:until], number)
        engine.end("s")
        engine.end("t")
        return answer(engine, "q")


@pytest.mark.parametrize("preference", ["DESC 1", "ASC 1", "WEIGHTED 1"])
@pytest.mark.slow
def test_batches_do_not_matter_without_shortage(preference: str) -> None:
    """However they are cut; with shortage answers depend on steps, and are checked against the whole."""
    text = query(preference, "100000 ROWS")
    whole = run_in_batches(WHOLE, [30])
    for cuts in ([], [7, 33], list(range(4, 60, 4))):
        found = run_in_batches(text, cuts)
        assert {w: {n: row[n] for n in ("n", "total", "low", "high")} for w, row in found.items()} == {
            w: {n: row[n] for n in ("n", "total", "low", "high")} for w, row in whole.items()
        }
        assert all(row["is_complete"] for row in found.values())
        check(run_in_batches(query(preference, "9 ROWS"), cuts), whole, is_sample=preference == "WEIGHTED 1")


def come_and_go(second: str) -> Answer:
    """What a query answers that comes after one and stays after it."""
    with local_engine(f"{SCRIPT} CREATE QUERY one AS {query('DESC 1', '4 ROWS')};") as engine:
        deliver(engine, 0, 10, [1, 1, 1])
        engine.execute(f"CREATE QUERY two AS {second}")
        deliver(engine, 1, 50, [1, 1, 1])
        deliver(engine, 2, 55, [2, 2])
        engine.execute("DROP QUERY one")
        deliver(engine, 3, 58, [3])
        engine.end("s")
        engine.end("t")
        return answer(engine, "two")


@pytest.mark.parametrize("preference", ["ASC 1", "DESC 1", "WEIGHTED 1"])
def test_queries_come_and_go(preference: str) -> None:
    whole = come_and_go(WHOLE)
    part = come_and_go(query(preference, "2 ROWS"))
    check(part, whole, is_sample=preference == "WEIGHTED 1")
    assert part and not all(row["is_complete"] for row in part.values())


@pytest.mark.parametrize("preference", ["DESC 1", "WEIGHTED s.v, t.v"])
def test_beside_the_exact_join_it_is_complete(preference: str) -> None:
    pairs = f"SELECT s.v AS v, t.v AS w {JOIN.replace(' SLIDE 5 us', '')}"
    with local_engine(f"{SCRIPT} CREATE QUERY pairs AS {pairs}; CREATE QUERY whole AS {WHOLE};") as engine:
        deliver(engine, 0, 10, [1, 1])
        engine.execute(f"CREATE QUERY part AS {query(preference, '1 ROWS')}")
        for number, at in enumerate((20, 50, 60, 85), 1):
            deliver(engine, number, at, [1, 1, 2])
        engine.end("s")
        engine.end("t")
        assert "exact_join: another query computes" in str(engine.explain("part"))
        part, whole = answer(engine, "part"), answer(engine, "whole")
        since = min(window for window, _ in part)
        assert part.keys() == {group for group in whole if group[0] >= since}
        assert all(row["is_complete"] for row in part.values())
        check(part, whole, is_sample=preference != "DESC 1")


def test_answers_at_every_change_say_when_they_lack_pairs() -> None:
    """Without SLIDE. Six of nine pairs at 10; with the next step the others are there, and a new row says so."""
    text = f"SELECT count(*) AS n {JOIN.replace(' SLIDE 5 us', '')} WITH PREFERENCE DESC 1 BUDGET 6 ROWS"
    with local_engine(f"{SCRIPT} CREATE QUERY q AS {text};") as engine:
        deliver(engine, 0, 10, [1, 1, 1])
        deliver(engine, 1, 15, [2])
        deliver(engine, 2, 17, [3])
        engine.end("s")
        engine.end("t")
        rows = engine.results("q").to_arrow().to_pylist()
    told = [(row["window_end"].microsecond, row["n"], row["n_bound"], row["is_complete"]) for row in rows]
    assert told[:2] == [(10, 6, ">=", False), (15, 10, "=", True)]
    assert all(is_complete for _, _, _, is_complete in told[1:])


def test_the_plan_and_the_end_say_what_is_told() -> None:
    for preference, wanted in (("WEIGHTED 1", "scaled"), ("DESC 1", "bounds")):
        with local_engine(f"{SCRIPT} CREATE QUERY q AS {query(preference, '3 ROWS')};") as engine:
            deliver(engine, 0, 10, [1, 1, 1])
            deliver(engine, 1, 100, [2])
            explained = str(engine.explain("q"))
            assert f"aggregates: {wanted}" in explained and "told_so_far: " in explained
            (sentence,) = warnings({}, Path(), promising=engine.relations.promising)
            assert re.match(r"query q is made of about \d+ % of its pairs \(BUDGET\): ", sentence)
            facts = engine.stats["relations"]["s + t"]["promising"]["q"]
            assert facts["offered"] == facts["told"] + facts["waiting"] + facts["expired"] + facts["shed"] == 9
