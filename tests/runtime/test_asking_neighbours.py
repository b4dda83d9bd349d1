"""The same question beside random neighbours: the same rows, or others for an earlier time that is stated, or none."""

from __future__ import annotations

import random
from typing import Any

import pytest

from by_slices import bind
from mullion import reference
from mullion.errors import MullionError
from mullion.language.parse import parse_query
from mullion.planner.sliced import SlicedAggregation
from runtime.test_asking import STREAM, Event, batches, micros
from runtime.test_core_differential import assert_same, rows_of
from without_spark import local_engine

QUESTIONS = (
    "SELECT sum(x) AS t, count(*) AS n FROM s [RANGE 10 us]",
    "SELECT k, sum(x) AS t FROM s [RANGE 6 us] GROUP BY k",
    "SELECT sum(x) AS t FROM s [RANGE 10 us SLIDE 5 us]",
    "SELECT max(v) AS h FROM s [ROWS 4]",
    "SELECT sum(x) AS t FROM s [RANGE 9 us SLIDE 3 TUPLES]",
    "SELECT count(*) AS n FROM s [RANGE UNBOUNDED]",
    "SELECT max(v) AS h FROM s [FROM TIMESTAMP '1970-01-01 00:00:00.000005']",
)
NEIGHBOURS = (
    "CREATE QUERY q1 AS SELECT sum(x) AS t, count(*) AS n FROM s [RANGE 10 us SLIDE 5 us]",
    "CREATE QUERY q2 AS SELECT sum(x) AS t, count(*) AS n FROM s [RANGE 20 us SLIDE 2 us]",
    "CREATE QUERY q3 AS SELECT k, sum(x) AS t FROM s [RANGE 12 us SLIDE 3 us] GROUP BY k",
    "CREATE QUERY q4 AS SELECT max(v) AS h FROM s [ROWS 4 SLIDE 2]",
    "CREATE QUERY q5 AS SELECT count(*) AS n FROM s [RANGE UNBOUNDED SLIDE 5 us]",
    "CREATE QUERY q6 AS SELECT sum(x) AS t, count(*) AS n FROM s [RANGE 30 us SLIDE 1 us]",
    "CREATE QUERY q7 AS SELECT DISTINCT k FROM s [RANGE 5 us]",
    "CREATE SYNOPSIS best ON s(v) USING ordered_sharing (rows 20)",
)
KEEPS = ("", "", "KEEP '15 us'", "KEEP 5 ROWS", "KEEP '1 hour'")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_neighbours_change_no_rows_in_silence(seed: int) -> None:
    rng = random.Random(seed)
    given = batches(rng)
    for late in given[1:]:
        late.append({"ts": -100, "k": "a", "x": 1000, "v": 1000.0})
    seen = [event for part in given for event in part if event["ts"] >= 0]
    newest, earlier, refused = max(e["ts"] for e in seen), 0, 0
    for _ in range(5):
        stream = f"{SCRIPT} {rng.choice(KEEPS)}"
        beside = rng.sample(NEIGHBOURS, rng.randrange(1, 4))
        with local_engine(";".join([stream, *beside])) as engine:
            for number, part in enumerate(given):
                engine.deliver("s", part, number)
            for text in QUESTIONS:
                query = parse_query(text)
                bound = bind(query, {"s": STREAM})
                try:
                    answer = engine.ask(text)
                except MullionError as problem:
                    assert "KEEP" in str(problem)
                    refused += 1
                    continue
                found, up_to = rows_of(bound, answer.to_arrow()), micros(answer.answered_up_to)
                assert micros(answer.newest) == newest
                slide = bound.frame.slide
                if up_to == (newest if slide is None else newest // slide * slide):
                    assert_same(bound, found, reference.ask(query, STREAM, seen).rows)
                else:
                    earlier += 1
                    assert f"before the newest event at 1970-01-01 00:00:00.0000{newest:02d} UTC" in answer.stated
                    assert_same(bound, found, at(bound, seen, up_to + 1))
    assert refused or earlier


def at(question: SlicedAggregation, events: list[Event], end: int) -> list[tuple[Any, ...]]:
    """The sums of the events before an instant, as far back as the window goes."""
    size = question.frame.range
    assert size is not None
    held = [e for e in events if end - size <= e["ts"] < end]
    groups = {key: [e for e in held if e["k"] == key] for key in sorted({e["k"] for e in held})}
    rows = []
    for key, mine in groups.items() if question.keys else [((), held)]:
        values = [e["x"] for e in mine if e["x"] is not None]
        row = [sum(values) if values else None, len(mine)]
        shown = [key, row[0]] if question.keys else row
        rows.append((end - size, end, *shown))
    return rows


SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING, x INT, v DOUBLE) USING parquet OPTIONS (path 'nowhere')
TIMESTAMP BY ts LATENESS '4 us'
"""
