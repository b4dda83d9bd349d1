"""Slices against operators: what both cost, where both can answer, and that they answer alike there."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest

from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.binding.relations import bind
from mullion.language.parse import parse_query
from mullion.language.types import INT, STRING, TIMESTAMP
from mullion.planner import physical
from mullion.planner.observed import Observed
from mullion.planner.physical import by_way, why_only_slices
from mullion.planner.rules import make_plan
from mullion.planner.way_costs import ALONE, WayCosts, compared, way_costs
from without_spark import local_engine

STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", INT)), "ts")
SCRIPT = "CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) USING parquet OPTIONS (path 'none') TIMESTAMP BY ts;"
SECOND = 1_000_000
STEADY = Observed(events=3_000, span=10 * SECOND, groups=5)

BOTH = [
    "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]",
    "SELECT k, sum(x) AS t, max(x) AS m FROM s [RANGE 10 s SLIDE 2 s OFFSET 1 s] WHERE x > 3 GROUP BY k",
    "SELECT k, count(DISTINCT x) AS n FROM s [RANGE 5 s SLIDE 2 s] GROUP BY k HAVING count(*) > 1 ORDER BY n LIMIT 3",
    "SELECT k, first(x) AS f FROM s [RANGE 2 s SLIDE 5 s] GROUP BY k",
    "SELECT k, avg(x) AS a FROM s [RANGE UNBOUNDED SLIDE 3 s] GROUP BY k",
]
SLICES_ALONE = {
    "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE AT MOST 5 s]": "they answer SLIDE AT MOST at multiples",
    "SELECT count(*) AS n FROM s [FROM TIMESTAMP '2026-01-01 00:00:00' SLIDE 5 s]": "they know no start of a window",
    "SELECT count(*) AS n, window_end AS e FROM s [RANGE 10 s SLIDE 5 s]": "they compute nothing from window_start",
    "SELECT k, count(*) AS n FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k HAVING window_start IS NOT NULL": "they compute",
}


def bound(*texts: str) -> list[Relation]:
    return [bind(parse_query(text, name=f"q{i}"), {"s": STREAM}) for i, text in enumerate(texts)]


def costs(*texts: str, seen: Observed = STEADY) -> WayCosts:
    relations = bound(*texts)
    plan = make_plan(STREAM, by_way(relations, {"s": STREAM}).slices, seen=seen)
    return way_costs(plan, seen, [relation.root for relation in relations])


def told(*texts: str, seen: Observed = STEADY) -> str:
    relations = bound(*texts)
    plan = make_plan(STREAM, by_way(relations, {"s": STREAM}).slices, seen=seen)
    reason = compared(plan, seen, [relation.root for relation in relations]).reasons[0]
    assert reason.rule == "choose_slices"
    return reason.text


def answers(text: str, *, by_operators: bool) -> list[dict[str, Any]]:
    with ExitStack() as patched:
        if by_operators:
            patched.enter_context(patch.object(physical, "why_operators", lambda relation: "asked for"))
        with local_engine(f"{SCRIPT} CREATE QUERY q AS {text};") as engine:
            for batch in range(3):
                events = [
                    {"ts": (13 * i % 29 + 30 * batch) * 100_000, "k": "abc"[i % 3], "x": 7 * i % 11} for i in range(30)
                ]
                engine.deliver("s", events, batch)
            engine.end("s")
            return sorted(engine.results("q").to_arrow().to_pylist(), key=repr)


@pytest.mark.parametrize("text", BOTH)
def test_both_ways_answer_alike_where_both_can(text: str) -> None:
    (query,) = by_way(bound(text), {"s": STREAM}).slices
    assert why_only_slices(query) is None
    found = answers(text, by_operators=False)
    assert found and found == answers(text, by_operators=True)


@pytest.mark.parametrize(("text", "why"), SLICES_ALONE.items())
def test_explain_says_why_operators_cannot_answer(text: str, why: str) -> None:
    assert f"; operators cannot answer them: {why}" in told(text)
    assert f"; operators cannot answer 1 of them: {why}" in told(BOTH[0], text)


def test_slices_cost_an_event_once_and_operators_its_way_through_a_window() -> None:
    # A second: 300 events are looked at and added; a tenth of a partial of two states is kept, and of an answer made.
    # By operators: 300 events come, are looked at, added, and kept with three columns; answers are kept.
    one = costs(BOTH[0])
    assert one.slices == pytest.approx(300 + 300 + 0.1 * 2 * 1.2 + 0.1)
    assert one.operators == pytest.approx(300 + 300 + 300 + 300 * 2 * 1.3 + 0.1 * 2 * 1.1, rel=0.01)


def test_queries_share_what_slices_cost() -> None:
    texts = [f"SELECT sum(x) AS n FROM s [RANGE {10 + i} s SLIDE 1 s] WHERE x > {i}" for i in range(20)]
    one, all_of_them = costs(texts[0]), costs(*texts)
    assert all_of_them.operators > 15 * one.operators and all_of_them.slices < 4 * one.slices
    assert "for all 20 queries" in told(*texts)


def test_explain_tells_where_operators_would_take_less() -> None:
    # Every event is a group of its own, and a partial of 31 states is wider than the event.
    sums = ", ".join(f"sum(x + {i}) AS s{i}" for i in range(30))
    text = f"SELECT k, {sums} FROM s [RANGE 1 h SLIDE 1 h] GROUP BY k HAVING sum(x) = 1"
    seen = Observed(events=10_000, span=3_600 * SECOND, groups=1_000_000)
    alone = costs(text, seen=seen)
    assert alone.operators < alone.slices
    assert told(text, seen=seen).endswith(ALONE)
    assert not told(BOTH[0]).endswith(ALONE)
