"""Promising joins in whole runs: cut, crashed anywhere, entered and left, every row is one of the join, once."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.errors import CheckError
from mullion.surface.progress import warnings
from mullion.testing import STEPS
from promising_runs import JOIN, OF_THREE, SCRIPT, STREAMS, SUMMARY, Rows, World, batches, deliver, told
from without_spark import local_engine

PREFERENCES = ("DESC 1", "ASC s.v, t.v", "WEIGHTED 1")
JOINS = ((JOIN.format(""), PREFERENCES), (OF_THREE.format(""), ("DESC 1", "ASC s.v, t.v, u.v", "WEIGHTED 1")))
"""Of two streams, and of three of which two are windows of one; each with what may be preferred."""
BUDGETS = ("1 ROWS", "3 ROWS", "2 EVENTS", "1000 ROWS", "'1 us'", "AUTO")
LITTLE = (1, 300, 800)
MEMORY = (None, *LITTLE, 1_000_000)


def query(preference: str = "DESC 1", budget: str = "3 ROWS", join: str = JOIN.format("")) -> str:
    return f"{join} WITH PREFERENCE {preference} BUDGET {budget}"


@given(
    batches,
    st.sampled_from(JOINS).flatmap(lambda join: st.tuples(st.just(join[0]), st.sampled_from(join[1]))),
    st.sampled_from(BUDGETS),
    st.sampled_from(MEMORY),
    st.data(),
)
def test_however_a_run_is_cut_and_crashed(
    parts: list, asked: tuple[str, str], budget: str, memory: int | None, data: st.DataObject
) -> None:
    join, preference = asked
    with tempfile.TemporaryDirectory() as base:
        world = World(Path(base), memory, exact=join)
        part = world.run_cut_and_crashed(query(preference, budget, join), parts, data)
        whole = world.whole()
        assert len(set(part)) == len(part) and set(part) <= set(whole)
        assert part == whole or budget != "1000 ROWS" or memory in LITTLE


@pytest.mark.slow
@given(batches.filter(lambda parts: len(parts) > 1), st.sampled_from(MEMORY), st.booleans(), st.data())
def test_queries_come_and_go_between_runs_that_crash(
    parts: list, memory: int | None, sharded: bool, data: st.DataObject
) -> None:
    """Each tells rows of the join that begin after it came, each once. What is not short is complete."""
    join, preferences = data.draw(st.sampled_from(JOINS))
    chosen, budgets = st.sampled_from(preferences), st.sampled_from(BUDGETS)
    every = {name: query(data.draw(chosen), data.draw(budgets), join) for name in ("first", "second", "third")}
    every["exact"] = join
    with tempfile.TemporaryDirectory() as base:
        world = World(Path(base), memory, sharded=sharded, exact=join)
        found: dict[str, Rows] = {}
        for number, (s, t) in enumerate(parts):
            world.add(*(sorted((10 * number + at, key) for at, key in events) for events in (s, t)))
            standing = data.draw(st.sets(st.sampled_from(list(every)), min_size=1))
            crash = data.draw(st.sampled_from((None, *((step, n) for step in STEPS for n in (1, 2)))))
            told = world.run({name: every[name] for name in sorted(standing)}, crash)
            while told is None:
                told = world.run({name: every[name] for name in sorted(standing)})
            found |= told
        whole = world.whole()
        for name, rows in found.items():
            assert len(set(rows)) == len(rows) and set(rows) <= set(whole), name


def test_what_waits_at_a_restart_is_told_after_it(tmp_path: Path) -> None:
    """Nine pairs, three a step: the last three come in the third step, of another run."""
    world, asked = World(tmp_path), {"part": query(budget="3 ROWS")}
    world.add([(1, 0)] * 3, [(1, 0)] * 3)
    world.add([(5, 1)], [(5, 1)])
    first = world.run(asked)
    assert first is not None and len(first["part"]) <= 6
    for at in (7, 8, 9):
        world.add([(at, 2)], [(at, 3)])
        found = world.run(asked)
    assert found is not None and len(found["part"]) == 10
    assert all(row[3].microsecond in (1, 5) for row in found["part"])


def come_and_go(second: str) -> tuple[Rows, set[str]]:
    """What a query answers that comes after one and stays after it, and which queries are promising at the end."""
    with local_engine(f"{SCRIPT} CREATE QUERY one AS {query(budget='4 ROWS')};") as engine:
        deliver(engine, 0, 10, [1, 1, 1])
        engine.execute(f"CREATE QUERY two AS {second}")
        deliver(engine, 1, 50, [1, 1, 1])
        deliver(engine, 2, 55, [2, 2])
        engine.execute("DROP QUERY one")
        deliver(engine, 3, 58, [3])
        engine.end("s")
        engine.end("t")
        return told(engine, "two"), set(engine.relations.promising)


def test_queries_come_and_go() -> None:
    """One that comes later tells what it finds itself; when the first has left, the other goes on."""
    whole, promises = come_and_go(JOIN.format(""))
    assert not promises and len(whole) == 14
    two, promises = come_and_go(query("ASC 1", "2 ROWS"))
    assert promises == {"two"}
    assert len(set(two)) == len(two) and set(two) < set(whole) and len(two) >= 6


@pytest.mark.parametrize(("summary", "stores"), [("", 1), (f"{SUMMARY.format(6000)};", 2)])
def test_queries_that_prefer_differently_keep_rows_once_but_within_memory(summary: str, stores: int) -> None:
    """Four rows of each stream, none of which waits; EXPLAIN says who shares the join."""
    texts = {"one": query("DESC 1", "900 ROWS"), "two": query("ASC s.v, t.v", "9000 ROWS")}
    created = "".join(f"CREATE QUERY {name} AS {text};" for name, text in texts.items())
    with local_engine(f"{SCRIPT} {summary} {created}") as engine:
        deliver(engine, 0, 10, [1, 1, 2, 3])
        deliver(engine, 1, 15, [4])
        assert engine.stats["relations"]["s + t"]["rows_held"] == stores * 8
        assert ("JOIN 0.k = 1.k  (0: FIFO queue; 1: FIFO queue)  shared by 2" in str(engine.explain())) == (stores == 1)
        assert all(facts["told"] == 6 for facts in engine.relations.promising.values())
        engine.query(JOIN.format(""), name="exact")
        deliver(engine, 2, 18, [5])
        exact = str(engine.explain()).split("query exact:")[1]
        assert "JOIN 0.k = 1.k  (0: FIFO queue; 1: FIFO queue)\n" in exact


@pytest.mark.parametrize(("length", "is_complete"), [("10 us", True), ("20 us", True), ("30 us", False)])
def test_where_the_join_stands_anyway_it_is_complete(length: str, is_complete: bool) -> None:
    """A join that stands is looked at, if its windows are long enough: it is not made wider."""
    part = query(budget="1 ROWS", join=JOIN.format("").replace("20 us", length))
    with local_engine(f"{SCRIPT} CREATE QUERY whole AS {JOIN.format('')};") as engine:
        deliver(engine, 0, 10, [1, 1])
        engine.execute(f"CREATE QUERY part AS {part}")
        deliver(engine, 1, 20, [2])
        for number, at in enumerate((50, 60, 85, 90), 2):
            deliver(engine, number, at, [1, 1, 1])
        assert ("exact_join: another query computes" in str(engine.explain("part"))) == is_complete
        assert ("part" in engine.relations.promising) == (not is_complete)
        if length == "20 us":
            since = min(row[3] for row in told(engine, "part"))
            assert told(engine, "part") == [row for row in told(engine, "whole") if row[3] >= since]


def test_a_complete_one_goes_on_as_such(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add([(1, 0)] * 3, [(1, 0)] * 3)
    world.run({"whole": JOIN.format("")})
    asked = {"whole": JOIN.format(""), "part": query(budget="1 ROWS")}
    for at in (30, 60, 90):
        world.add([(at, 0)] * 3, [(at, 0)] * 3)
        found = world.run(asked)
    assert found is not None
    assert found["part"] == [row for row in found["whole"] if row[3].microsecond >= 30] and len(found["part"]) == 18


def test_periodic_answers_see_what_was_found_by_then() -> None:
    """Four pairs at 1, one a step: the answers at 5, 10 and 15 see what the steps before them found."""
    text = query(budget="1 ROWS", join=JOIN.format(" SLIDE 5 us"))
    with local_engine(f"{SCRIPT} CREATE QUERY q AS {text};") as engine:
        deliver(engine, 0, 1, [1, 1])
        for number, at in enumerate((6, 11, 16), 1):
            deliver(engine, number, at, [100 + number])
        rows = engine.results("q").to_arrow().to_pylist()
        ends = [row["window_end"].microsecond for row in rows]
        assert [ends.count(5 * i) for i in (1, 2, 3)] == [1, 2, 3]


def test_the_end_of_a_run_says_what_was_not_told(tmp_path: Path) -> None:
    with local_engine(f"{SCRIPT} CREATE QUERY q AS {query(budget='3 ROWS')};") as engine:
        deliver(engine, 0, 10, [1, 1, 1])
        deliver(engine, 1, 100, [2])
        facts = engine.stats["relations"]["s + t"]["promising"]["q"]
        assert (facts["offered"], facts["told"], facts["expired"]) == (9, 3, 6)
        (sentence,) = warnings({}, tmp_path, promising=engine.relations.promising)
        assert sentence == "query q answered about 33 % of its results (BUDGET): 6 expired unseen"
        assert "told_so_far: 3 of 9 pairs (33 %)" in str(engine.explain("q"))


def test_an_aggregate_over_one_stream_is_exact_and_says_so() -> None:
    text = "SELECT k, count(*) AS n FROM s [RANGE 10 us SLIDE 10 us] GROUP BY k"
    asked = f"{text} WITH PREFERENCE WEIGHTED estimate(s.k) BUDGET 1 ROWS"
    with local_engine(f"{SCRIPT} CREATE QUERY q AS {asked}; CREATE QUERY plain AS {text};") as engine:
        engine.deliver("s", [{"ts": i, "k": i % 3, "v": i} for i in range(30)], 0)
        engine.end("s")
        assert engine.results("q").to_arrow() == engine.results("plain").to_arrow()
        assert str(engine.explain()).count("preference: answered exactly") == 1


def test_a_summary_on_the_key_lets_estimates_be_asked() -> None:
    """Of the keys 1, 1, 1 and 2 the hot one comes first, and what is fresh before what is older."""
    summary = "CREATE SUMMARY keys ON t(k) WITH GRANULARITY '10 us' AND COLLAPSE (2, 3);"
    preference = "{} estimate(s.k), estimate(t.k) FADE FACTOR 0.5"
    for order, wanted in (("DESC", [1, 1, 1]), ("ASC", [2, 1, 1])):
        text = query(preference.format(order), "3 ROWS")
        with local_engine(f"{SCRIPT} {summary} CREATE QUERY q AS {text};") as engine:
            engine.deliver("t", [{"ts": 10, "k": key, "v": i} for i, key in enumerate([1, 1, 1, 2])], 0)
            engine.deliver("s", [{"ts": 12, "k": key, "v": i} for i, key in enumerate([2, 1])], 0)
            engine.deliver("t", [{"ts": 20, "k": 9, "v": 9}], 1)
            engine.deliver("s", [{"ts": 20, "k": 8, "v": 9}], 1)
            found = [row["k"] for row in engine.results("q").to_arrow().to_pylist()]
            assert sorted(found) == sorted(wanted)
            with pytest.raises(CheckError, match="DROP QUERY q first"):
                engine.execute("DROP SUMMARY keys")
    with pytest.raises(CheckError, match="no summary is on the key of the join"):
        local_engine(f"{SCRIPT} CREATE QUERY q AS {text};").__enter__()


def test_memory_that_is_short_is_told(tmp_path: Path) -> None:
    """A window has 200 rows of each stream, and there is memory for about 60 of all. EXPLAIN and the end say so."""
    text = query("DESC estimate(s.k), estimate(t.k)", "10000 ROWS")
    script = f"{SCRIPT} {SUMMARY.format(6000)}; CREATE QUERY q AS {text};"
    with local_engine(script) as engine:
        for number in range(10):
            deliver(engine, number, 2 * number, [*range(10), *range(10)])
        engine.end("s")
        engine.end("t")
        facts = engine.stats["relations"]["s + t"]["promising"]["q"]
        assert facts["rows_shed"] > 200 and 0 < facts["shed"] == facts["shed_by_memory"] and facts["bytes"] <= 6000
        assert facts["told"] == len(told(engine, "q")) == facts["offered"] - facts["shed"]
        (sentence,) = warnings({}, tmp_path, promising=engine.relations.promising)
        wanted = f"query q answered about {100 * facts['share']:.0f} % of its results (MEMORY): "
        assert sentence == f"{wanted}{facts['shed']:,} were shed, {facts['rows_shed']:,} rows were evicted"
        explained = str(engine.explain("q"))
        assert "budget 10000 ROWS a step, memory 6000 bytes" in explained and "memory: 6000 bytes for rows" in explained
        assert f"{facts['told']:,} of about {facts['offered']:,} pairs" in explained
        with pytest.raises(CheckError, match="DROP QUERY q first"):
            engine.execute("DROP SUMMARY keys")


OTHER_JOINS = {
    "texts": "FROM s [RANGE 20 us], t [RANGE 20 us] WHERE s.name = t.name",
    "two columns": "FROM s [RANGE 20 us], t [RANGE 20 us] WHERE s.name = t.name AND s.k = t.k AND s.v <> t.v",
    "three streams": "FROM s [RANGE 20 us], u [RANGE 9 us], t [RANGE 20 us] WHERE s.name = u.name AND s.name = t.name",
}


@pytest.mark.parametrize("order", ["DESC", "ASC", "WEIGHTED"])
@pytest.mark.parametrize("join", OTHER_JOINS.values(), ids=OTHER_JOINS)
@pytest.mark.slow
def test_memory_of_other_joins(join: str, order: str) -> None:
    """Keys that are compared beyond their codes, and rows that end in another order than they came."""
    streams = "".join(
        f"{STREAMS.format(name, 'nowhere')};".replace("k BIGINT", "k BIGINT, name STRING") for name in "stu"
    )
    summary = SUMMARY.format(4000).replace("t(k)", "t(name)")
    select = f"SELECT s.k, s.v AS v, t.v AS w {join}"
    answers, facts = {}, {}
    for text in (select, f"{select} WITH PREFERENCE {order} 1 BUDGET 30 ROWS"):
        with local_engine(f"{streams} {summary}; CREATE QUERY q AS {text};") as engine:
            for number in range(8):
                rows = [{"k": i % 2, "name": f"name {i % 3}" * (i + 1), "v": 10 * number + i} for i in range(4)]
                for name in "stu":
                    engine.deliver(name, [{"ts": 3 * number + row["k"], **row} for row in rows], number)
                facts = engine.relations.promising.get("q", {})
                assert facts.get("bytes", 0) <= 4000
            for name in "stu":
                engine.end(name)
            answers[text], facts = told(engine, "q"), engine.relations.promising.get("q", {})
    whole, part = answers.values()
    assert part and not Counter(part) - Counter(whole) and len(part) < len(whole)
    assert facts["rows_shed"] > 0
    assert facts["offered"] == facts["told"] + facts["waiting"] + facts["expired"] + facts["shed"]


@pytest.mark.parametrize("budget", ["1000 ROWS", "1000 EVENTS", "'1 h'", "AUTO"])
def test_without_shortage_nobody_is_warned(budget: str, tmp_path: Path) -> None:
    with local_engine(f"{SCRIPT} CREATE QUERY q AS {query(budget=budget)};") as engine:
        for number in range(3):
            deliver(engine, number, 1_000_000 * number + 10, [1, 1, 1])
        engine.end("s")
        engine.end("t")
        assert not list(warnings({}, tmp_path, promising=engine.relations.promising))
        assert len(told(engine, "q")) == 27


KEEPING = "".join(f"{STREAMS.format(name, 'nowhere')} KEEP 1000 ROWS;" for name in "st")
ASKED = {
    "join": ("s.v AS v, t.v AS w FROM s [RANGE 20 us], t [RANGE 9 us] WHERE s.k = t.k", "s.v, t.v"),
    "slide": ("s.v AS v, t.v AS w FROM s [RANGE 20 us SLIDE 7 us], t [RANGE 9 us] WHERE s.k = t.k", "s.v, t.v"),
    "three": (OF_THREE.format("").removeprefix("SELECT "), "s.v, t.v, u.v"),
    "selection": ("s.v AS v FROM s [RANGE 9 us]", "s.v"),
}


@given(batches, st.sampled_from(tuple(ASKED)), st.sampled_from(("DESC", "ASC", "WEIGHTED")), st.integers(1, 20),
       st.sampled_from(("ROWS", "EVENTS")))  # fmt: skip
def test_a_question_has_the_budget_of_one_step(parts: list, kind: str, order: str, many: int, unit: str) -> None:
    """Among the rows that are there now it chooses the most promising, as many as the budget has."""
    asked, by = ASKED[kind]
    with local_engine(KEEPING) as engine:
        for number, part in enumerate(parts):
            for name, events in zip("st", part, strict=True):
                rows = enumerate(sorted((10 * number + at, key) for at, key in events))
                engine.deliver(name, [{"ts": at, "k": k, "v": 100 * number + i} for i, (at, k) in rows], number)

        def answer(preference: str) -> Counter[tuple[int, ...]]:
            columns = engine.ask(f"SELECT {asked} {preference}").to_arrow().drop_columns(["window_start", "window_end"])
            return Counter(zip(*columns.to_pydict().values(), strict=True))

        whole = answer("")
        found = answer(f"WITH PREFERENCE {order} {by} BUDGET {many} {unit}")
        assert not found - whole
        if unit == "ROWS" and kind != "three":
            assert found.total() == min(many, whole.total())
        if unit == "ROWS" and kind == "selection" and order == "DESC":
            assert found == Counter(sorted(whole.elements(), reverse=True)[:many])
        assert answer(f"WITH PREFERENCE {order} {by} BUDGET 100000 ROWS") == whole


def test_a_question_for_aggregates_with_a_preference() -> None:
    """Nine pairs, of which three are told: a bound, or an estimate that says how far it is off."""
    join = "FROM s [RANGE 20 us], t [RANGE 20 us] WHERE s.k = t.k WITH PREFERENCE"
    asked = {
        "part": ("", "DESC 1 BUDGET 3"),
        "whole": ("", "DESC 1 BUDGET 9"),
        "sample": ("APPROX ", "WEIGHTED 1 BUDGET 3"),
    }
    with local_engine(KEEPING) as engine:
        deliver(engine, 0, 10, [1, 1, 1])
        questions = {name: f"SELECT {how}count(*) AS n {join} {by} ROWS" for name, (how, by) in asked.items()}
        told = {name: engine.ask(text).to_arrow().to_pylist()[0] for name, text in questions.items()}
    assert [told["part"][name] for name in ("n", "n_bound", "is_complete")] == [3, ">=", False]
    assert [told["whole"][name] for name in ("n", "n_bound", "is_complete")] == [9, "=", True]
    assert told["sample"]["n"] % 3 == 0 and "n_error" in told["sample"] and not told["sample"]["is_complete"]
