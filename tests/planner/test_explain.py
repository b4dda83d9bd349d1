"""EXPLAIN of every kind of window: each axis has its own plan, and each query says what it is made of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mullion.engine import Engine
from mullion.planner.explain import Explanation

GOLDEN = Path(__file__).parents[1] / "golden"
SCRIPT = (GOLDEN / "explain_windows.sql").read_text(encoding="utf-8")


@pytest.fixture
def engine() -> Engine:
    made = Engine()
    made.execute(SCRIPT)
    return made


def test_explain_of_every_window_reads_like_this(engine: Engine) -> None:
    assert str(engine.explain()) + "\n" == (GOLDEN / "explain_windows.txt").read_text(encoding="utf-8")


def test_every_axis_has_a_plan(engine: Engine) -> None:
    plans = engine.explain().plans
    assert [(p.stream.name, p.axis.kind, p.way) for p in plans] == [
        ("trades", "time", "native"),
        ("trades", "rows", "ordered"),
        ("trades", "events", "ordered"),
        ("trades", "column", "ordered"),
        ("trades", "column", "ordered"),
        ("trades", "partitions", "ordered"),
        ("quiet", "rows", "ordered"),
    ]
    assert sorted(q.name for p in plans for q in p.queries) == sorted(engine.catalog.queries)


def test_one_query_is_explained_by_the_plan_that_serves_it(engine: Engine) -> None:
    told = engine.explain("continuous")
    (plan,) = told.plans
    assert [q.name for q in plan.queries] == ["at_tuples", "continuous"]
    assert "query continuous" in str(told) and "query at_tuples" not in str(told)
    (said,) = engine.execute("EXPLAIN by_rows")
    assert str(said).startswith("stream trades over numbers of events: 1 query in one pass, ordered way")


def test_without_sharing_every_query_has_its_plan() -> None:
    engine = Engine(sharing="off")
    engine.execute(SCRIPT)
    assert [len(p.queries) for p in engine.explain().plans] == [1] * 10
    assert len(engine.explain("continuous").plans) == 1


def in_json(told: Explanation) -> dict[str, dict[str, object]]:
    plans = json.loads(told.to_json())["plans"]
    return {query["name"]: query for plan in plans for query in plan["queries"]}


def test_json_tells_the_algebra_of_every_aggregate(engine: Engine) -> None:
    queries = in_json(engine.explain())
    assert queries["by_rows"]["aggregates"] == [
        {"aggregate": "sum(volume)", "algebra": "distributive", "differential": "full"},
        {"aggregate": "avg(volume)", "algebra": "algebraic", "differential": "full"},
    ]
    assert queries["by_time"]["aggregates"] == [
        {"aggregate": "max(price)", "algebra": "distributive", "differential": "none"},
        {"aggregate": "median(price)", "algebra": "holistic", "differential": "pseudo"},
    ]


def test_json_tells_what_windows_are_cut_into(engine: Engine) -> None:
    queries = in_json(engine.explain())
    cuts = {name: (q["axis"], q["window"], q["paired_slices"], q["paned_slices"]) for name, q in queries.items()}
    assert cuts["by_rows"] == ("rows", "ROWS 1000 SLIDE 100", ["100 events"], 1)
    assert cuts["numbered"] == ("column", "RANGE 50 SLIDE 20 WATTR number", ["10", "10"], 2)
    assert cuts["settling"] == ("column", "RANGE 7 d SLIDE 1 d WATTR settled", ["1 d"], 1)
    assert cuts["at_tuples"] == ("events", "RANGE 10 s SLIDE 5 TUPLES", [], None)
    assert cuts["lately"] == ("partitions", "PARTITION BY symbol ROWS 10 SLIDE 50", [], None)
    assert cuts["so_far"] == ("time", "RANGE UNBOUNDED SLIDE 1 min", ["1 min"], 1)


def test_json_names_the_rules_of_each_state(engine: Engine) -> None:
    by_axis = {plan["axis"]: plan for plan in json.loads(engine.explain().to_json())["plans"]}
    states = {s["name"]: s for s in by_axis["numbers of events"]["groupings"][0]["states"]}
    assert "sum_integer(x)" in states and states["sum_integer(x)"]["rules"] == ["SS1"]
    counted = [g for g in by_axis["time"]["groupings"] if g["counted"]]
    assert [g["counted"] for g in counted] == [["price"], ["symbol"]]
    assert [g["states"][0]["synopsis"] for g in counted] == ["value counts", "value counts"]
