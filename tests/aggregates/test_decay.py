"""decay(x, half_life): by hand, against DuckDB, in all manners, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_window import KINDS, examples_of
from mullion import reference
from mullion.aggregates.base import Places
from mullion.aggregates.decay import Decayed
from mullion.algebra.streams import Stream
from mullion.errors import MullionError
from mullion.expressions.vector import Vector
from mullion.language.parse import parse_query
from mullion.language.types import DOUBLE, INT, STRING, TIMESTAMP
from runtime.test_axis_differential import check, manners
from runtime.test_core_differential import Manner
from strategies import DECAYS, Example
from without_spark import local_engine

TICKS = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", INT)), "ts")
EVENTS = [{"ts": 1, "k": "a", "x": 8}, {"ts": 3, "k": "a", "x": 4}, {"ts": 9, "k": "b", "x": None}]


def told(text: str, events: list[dict[str, Any]] = EVENTS) -> list[tuple[Any, ...]]:
    return reference.answer(parse_query(text), TICKS, events).rows


def test_the_smallest_decay() -> None:
    """At 3 the event at 1 is one half-life of 2 us old; at 9 that at 3 is three. A window without values has NULL."""
    found = told("SELECT decay(x, '2 us') FROM s [RANGE 6 us SLIDE 3 us]")
    assert [row[2] for row in found] == [4.0, pytest.approx(2 * 2**0.5), 0.5, None, None]
    assert told("SELECT decay(x, '2 us') FILTER (WHERE x > 4) FROM s [ROWS 2]") == [
        (1, 1, 8.0),
        (1, 3, 4.0),
        (3, 9, None),
    ]


times = st.integers(0, 60)
values = st.none() | st.integers(-5, 5)


@settings(max_examples=30)
@given(st.lists(st.tuples(times, values), min_size=1, max_size=12), st.integers(1, 30), st.integers(1, 20), times)
def test_as_duckdb_has_it(given_events: list[tuple[int, int | None]], half_life: int, reach: int, slide: int) -> None:
    slide += 1
    events = [{"ts": t, "k": "a", "x": x} for t, x in given_events]
    rows = told(f"SELECT decay(x, '{half_life} us') FROM s [RANGE {reach} us SLIDE {slide} us]", events)
    listed = ", ".join(f"({t}, {'NULL' if x is None else x})" for t, x in given_events)
    for start, end, found in rows:
        weighed = f"sum(x * pow(2.0, -({end} - t) / {half_life}.0))"
        inside = f"(VALUES {listed}) e(t, x) WHERE t >= {start} AND t < {end}"
        ((right,),) = duckdb.sql(f"SELECT CAST({weighed} AS DOUBLE) FROM {inside}").fetchall()
        assert (found is None) == (right is None)
        assert found is None or math.isclose(found, right, rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4)
@given(data=st.data(), manner=manners)
def test_every_window_in_all_manners(kind: str, data: st.DataObject, manner: Manner) -> None:
    example: Example = data.draw(examples_of(kinds=[kind], axes=("ts", "seen"), among=(*DECAYS, "last(price)")))
    check(example, manner)


@given(st.lists(st.tuples(st.integers(-9, 9), st.floats(0.1, 9)), min_size=2, max_size=9), st.data())
def test_states_are_a_monoid(given_events: list[tuple[int, float]], data: st.DataObject) -> None:
    decay = Decayed(DOUBLE, 3)
    cut = data.draw(st.integers(1, len(given_events) - 1))

    def gathered(events: list[tuple[int, float]]) -> Any:
        time, value = np.array([t for t, _ in events]), Vector.of(DOUBLE, [x for _, x in events])
        zero = np.zeros(len(events), np.int64)
        places = Places(time, zero, zero, np.ones(len(events), np.bool_))
        return decay.load(decay.gather(value, np.array([0]), places))

    whole, (a, b) = gathered(given_events), (gathered(given_events[:cut]), gathered(given_events[cut:]))
    for parts in (decay.combine(a, b), decay.combine(b, a), decay.combine(whole, decay.identity(1))):
        assert [float(x[0]) for x in parts] == pytest.approx([float(x[0]) for x in whole], rel=1e-12)


def test_nothing_overflows_however_long_the_stream_is() -> None:
    script = "CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) USING rate TIMESTAMP BY ts"
    query = (
        "CREATE QUERY q AS SELECT decay(x, '1 us') AS d, decay(x, '1 day') AS slow FROM s [RANGE UNBOUNDED SLIDE 1 h]"
    )
    with local_engine(f"{script}; {query}") as engine:
        for number in range(5):
            engine.deliver("s", [{"ts": number * 3_600_000_000 - 1, "k": "a", "x": 2}], number)
        rows = engine.results("q").to_arrow().to_pylist()
    assert [row["d"] for row in rows] == [1.0] * 4
    assert rows[-1]["slow"] == pytest.approx(sum(2 * 2 ** -(hours / 24) for hours in range(4)), rel=1e-9)


REFUSED = [
    ("SELECT decay(x) FROM s [RANGE 1 s]", "takes an argument and a half-life"),
    ("SELECT decay(x, 5) FROM s [RANGE 1 s]", "the half-life of decay is a duration"),
    ("SELECT decay(x, '0 s') FROM s [RANGE 1 s]", "longer than zero"),
    ("SELECT decay(x, '1 s') FROM s [RANGE 5 SLIDE 5 WATTR x]", "decay over a window of whole numbers"),
    (
        "SELECT decay(s.x, '1 s') FROM s [RANGE 1 s], s [RANGE 1 s] AS r WHERE s.k = r.k",
        "decay in a query that is answered at every change",
    ),
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_refused(text: str, why: str) -> None:
    with pytest.raises(MullionError) as raised:
        told(text)
    assert why in str(raised.value)
