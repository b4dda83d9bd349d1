"""Whether sub-windows that others keep serve a query, where events between windows that hop are not kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.types import INT, STRING, TIMESTAMP
from mullion.options import Options
from mullion.planner.rules import make_plan
from mullion.planner.sliced import SlicedAggregation
from mullion.slices.kept_stretches import KeptStretches

STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", INT)), "ts")


def query(window: str, where: str = "", name: str = "q") -> SlicedAggregation:
    text = f"SELECT k, sum(x) AS t FROM s [{window}]{where} GROUP BY k"
    return bind(parse_query(text, name=name), {"s": STREAM})


def kept_under(windows: list[str], method: str, way: str = "kernel") -> KeptStretches:
    queries = [query(window, name=f"q{i}") for i, window in enumerate(windows)]
    plan = make_plan(STREAM, queries, Options.of(method=method))
    made = KeptStretches()
    made.note(replace(plan, way=way, methods=(method,)), 100)
    return made


@pytest.mark.parametrize("method", ["rows", "fragments"])
def test_who_enters(method: str) -> None:
    hops = kept_under(["RANGE 3 us SLIDE 7 us"], method)
    assert hops.serves(query("RANGE 3 us SLIDE 7 us"), 0)
    assert hops.serves(query("RANGE 3 us SLIDE 14 us OFFSET 7 us"), 0)
    assert not hops.serves(query("RANGE 7 us SLIDE 7 us"), 0)
    assert not hops.serves(query("RANGE 4 us SLIDE 7 us OFFSET 4 us"), 0)
    assert not kept_under(["RANGE 3 us SLIDE 7 us"], method, "native").serves(query("RANGE 7 us SLIDE 7 us"), 0)
    whole = kept_under(["RANGE 3 us SLIDE 7 us", "RANGE 7 us SLIDE 7 us"], method)
    assert whole.serves(query("RANGE 4 us SLIDE 7 us OFFSET 4 us"), 0)


@pytest.mark.parametrize("method", ["rows", "fragments"])
def test_a_window_that_is_asked_for(method: str) -> None:
    hops, asked = kept_under(["RANGE 3 us SLIDE 7 us"], method), query("RANGE 7 us SLIDE 7 us")
    assert hops.holds_window(asked, 4, 7, 100)
    assert not hops.holds_window(asked, 0, 7, 100)
    assert not hops.holds_window(asked, 4, 14, 100)
    assert hops.holds_window(asked, 95, 105, 97)
    assert not hops.holds_window(asked, 95, 105, 98)
