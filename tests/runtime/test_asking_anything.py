"""Questions over windows of every kind, on streams of no event, of one, and of some, near and far from the window."""

from __future__ import annotations

import random
from typing import Any

import pytest

from by_slices import bind
from mullion import reference
from mullion.errors import MullionError
from mullion.language.parse import parse_query
from runtime.test_asking import STREAM, micros
from runtime.test_core_differential import assert_same, rows_of
from without_spark import local_engine

WINDOWS = (
    "RANGE 5 us",
    "RANGE 200 days",
    "RANGE 5 us SLIDE 3 us",
    "RANGE 5 us SLIDE 100 days",
    "RANGE 3 us SLIDE 5 us OFFSET 2 us",
    "RANGE 5 us SLIDE 2 TUPLES",
    "RANGE UNBOUNDED",
    "RANGE UNBOUNDED SLIDE 5 us",
    "RANGE UNBOUNDED SLIDE 4 TUPLES",
    "ROWS 1",
    "ROWS 1000000000",
    "ROWS 3 SLIDE 2",
    "PARTITION BY k ROWS 2",
    "PARTITION BY k ROWS 2 SLIDE 3",
    "NOW",
    "FROM TIMESTAMP '1970-01-01 00:00:00'",
    "FROM TIMESTAMP '2500-01-01 00:00:00'",
    "FROM TIMESTAMP '2500-01-01 00:00:00' SLIDE 1 day",
    "FROM TIMESTAMP '2500-01-01 00:00:00' SLIDE 3 TUPLES",
    "FROM TIMESTAMP '0001-01-02 00:00:00' SLIDE 1 day",
    "RANGE 5 SLIDE 3 WATTR x",
    "RANGE 5 WATTR x",
    "FROM 1000000 SLIDE 3 WATTR x",
)
ITEMS = (
    "count(*) AS n, sum(x) AS t, median(v) AS m",
    "max(v) AS h",
    "k, count(*) AS n, first(x) AS f, count(DISTINCT x) AS d",
)
STREAMS: dict[str, list[int]] = {
    "no event": [],
    "one event": [7],
    "one at a time": [7, 7, 7],
    "some": [3, 4, 4, 9, 15],
    "long ago": [-62_135_000_000_000_000, -62_135_000_000_000_000 + 5],
    "far ahead": [200_000_000_000_000_000, 200_000_000_000_000_007],
}
SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING, x INT, v DOUBLE) USING parquet OPTIONS (path 'nowhere')
TIMESTAMP BY ts LATENESS '4 us' KEEP 1000000 ROWS AHEAD '3000000 days'
"""


def events(times: list[int]) -> list[dict[str, Any]]:
    rng = random.Random(len(times))
    found = [{"ts": t, "k": rng.choice("ab"), "v": rng.choice((0.5, None, 2.0))} for t in times]
    return [{**event, "x": place} for place, event in enumerate(found)]


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("batches", [1, 2])
def test_from_kept_events(name: str, batches: int) -> None:
    made = events(STREAMS[name])
    with local_engine(SCRIPT) as engine:
        for number in range(batches):
            part = made[len(made) * number // batches : len(made) * (number + 1) // batches]
            engine.deliver("s", part, number)
        for window in WINDOWS:
            for items in ITEMS:
                text = f"SELECT {items} FROM s [{window}]" + (" GROUP BY k" if items.startswith("k") else "")
                query = parse_query(text)
                bound = bind(query, {"s": STREAM})
                answer = engine.ask(text)
                assert_same(bound, rows_of(bound, answer.to_arrow()), reference.ask(query, STREAM, made).rows)
                if made and bound.frame.slide is None:
                    assert micros(answer.answered_up_to) == max(e["ts"] for e in made)


RELATIONS = (
    "SELECT k, x FROM s [RANGE 5 us]",
    "SELECT DISTINCT k FROM s [ROWS 2]",
    "SELECT DISTINCT k FROM s [RANGE UNBOUNDED]",
    "SELECT a.k AS k, b.x AS y FROM s [RANGE 5 us] a JOIN s [RANGE 900 days] b ON a.k = b.k",
    "SELECT k FROM s [NOW] a WHERE NOT EXISTS (SELECT 1 FROM s [RANGE 1 us] b WHERE b.k = a.k AND b.x > 3)",
    "SELECT k FROM s [RANGE 5 us SLIDE 3 us] EXCEPT ALL SELECT k FROM s [RANGE 2 us]",
)


@pytest.mark.parametrize("name", STREAMS)
def test_totals_over_relations(name: str) -> None:
    """A join of each event with itself counts what its window holds, also before the first complete instant."""
    joined = "s [{0}] a, s [{0}] b WHERE a.x = b.x"
    with local_engine(SCRIPT) as engine:
        engine.deliver("s", events(STREAMS[name]), 0)
        for window in WINDOWS:
            if "WATTR" in window or "TUPLES" in window or "PARTITION" in window or window == "ROWS 3 SLIDE 2":
                continue  # not of relations
            alone = engine.ask(f"SELECT count(*) AS n, sum(x) AS t FROM s [{window}]").to_arrow()
            found = engine.ask(f"SELECT count(*) AS n, sum(a.x) AS t FROM {joined.format(window)}").to_arrow()
            assert found.drop_columns("window_start").equals(alone.drop_columns("window_start"))
            none = engine.ask(f"SELECT count(*) AS n FROM {joined.format(window)} HAVING count(*) > 100")
            assert len(none) == 0


@pytest.mark.parametrize("name", STREAMS)
def test_relations_end_in_rows_or_a_sentence(name: str) -> None:
    with local_engine(SCRIPT) as engine:
        engine.deliver("s", events(STREAMS[name]), 0)
        for text in RELATIONS:
            try:
                answer = engine.ask(text)
            except MullionError:
                continue
            if not STREAMS[name]:
                assert len(answer) == 0 and answer.answered_up_to is None


@pytest.mark.parametrize("window", ["RANGE 9 us", "ROWS 4", "RANGE UNBOUNDED", "NOW", "RANGE 9 us SLIDE 5 us"])
def test_limit_of_rows(window: str) -> None:
    """The first of all rows that are there, whatever a standing query of these windows would tell."""
    with local_engine(SCRIPT) as engine:
        engine.deliver("s", events(STREAMS["some"]), 0)
        rows = engine.ask(f"SELECT x, k FROM s [{window}] ORDER BY x DESC").to_arrow()
        for limit in (0, 1, 2, 10):
            first = engine.ask(f"SELECT x, k FROM s [{window}] ORDER BY x DESC LIMIT {limit}").to_arrow()
            assert rows.num_rows and first.equals(rows.slice(0, limit))
