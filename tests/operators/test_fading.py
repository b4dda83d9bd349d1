"""decay(x, half_life) over joins and other relations: a row fades from when it came."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from any_relation import NAMED, Example, Style, events, rows, table_rows
from operators.test_relations_differential import Manner, assert_as_the_reference, manners
from without_spark import local_engine


def test_of_a_join_by_hand() -> None:
    """Rows of a join came when the later of their events did: 3 and 5 at 2 and 4, and the half-life is 2. At 6 they are
    worth 3 / 4 and 5 / 2."""
    streams = "; ".join(f"CREATE STREAM {n} (ts TIMESTAMP, k INT, x INT) USING rate TIMESTAMP BY ts" for n in "st")
    query = "SELECT decay(s.x + t.x, '2 us') AS d FROM s [RANGE 6 us SLIDE 6 us], t [RANGE 6 us] WHERE s.k = t.k"
    with local_engine(f"{streams}; CREATE QUERY q AS {query}") as engine:
        engine.deliver("s", [{"ts": 1, "k": 1, "x": 1}, {"ts": 4, "k": 2, "x": 1}, {"ts": 9, "k": 0, "x": 0}], 0)
        engine.deliver("t", [{"ts": 2, "k": 1, "x": 2}, {"ts": 3, "k": 2, "x": 4}, {"ts": 9, "k": 5, "x": 0}], 0)
        assert [row["d"] for row in engine.results("q").to_arrow().to_pylist()] == [3 / 4 + 5 / 2]


@st.composite
def relations(draw: Any) -> str:
    style = Style(Random(draw(st.integers(0, 1 << 32))), draw(st.sampled_from((1, 2, 5, 7))))
    return rows(style, draw(st.integers(0, 2)))


def slides_in_time(text: str) -> bool:
    return " us SLIDE " in text


@st.composite
def fading(draw: Any) -> Example:
    """Sums that fade over relations of any kind, at instants."""
    below, half_life = draw(relations().filter(slides_in_time)), draw(st.sampled_from((1, 5, 40)))
    items = f"decay(g.v, '{half_life} us') AS n0, count(*) AS n1 FROM ({below}) g"
    text = draw(st.sampled_from((f"SELECT {items}", f"SELECT g.k AS k, {items} GROUP BY g.k")))
    return Example(text, draw(events()), {"named": (NAMED, draw(table_rows()))})


@given(fading(), manners())
def test_operators_fade_as_the_reference_does(example: Example, manner: Manner) -> None:
    assert_as_the_reference(example, manner)
