"""START AT chooses among windows of every kind by where they open, with BACKFILL by where they close. Without a JVM."""

from __future__ import annotations

import pytest

from without_spark import local_engine

MINUTE, NOON = 60_000_000, 1_704_110_400_000_000
SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING) USING parquet OPTIONS (path 'nowhere') TIMESTAMP BY ts;
CREATE QUERY q START AT TIMESTAMP '2024-01-01 12:03' {past} AS SELECT count(*) AS n FROM s {window};
"""
EVENTS = [{"ts": NOON + minute * MINUTE, "k": "ab"[minute % 2]} for minute in (0, 1, 2, 3, 4, 5)]
"""Six events, a minute apart."""


@pytest.mark.parametrize(
    ("window", "since", "after"),
    [
        ("[ROWS 2]", [4, 5], [4, 5]),
        ("[ROWS 3]", [5], [4, 5]),
        ("[ROWS 2 SLIDE 2]", [5], [5]),
        ("[ROWS 3 SLIDE '2 min']", [6], [4, 6]),
        ("[PARTITION BY k ROWS 1 SLIDE 1]", [3, 4, 5], [4, 5]),
        ("[PARTITION BY k ROWS 1 SLIDE '2 min']", [4, 6], [4, 6]),
        ("[RANGE '2 min']", [5, 6], [4, 5, 6]),
        ("[RANGE '2 min' SLIDE 1 TUPLE]", [5], [4, 5]),
        ("[RANGE UNBOUNDED]", [3, 4, 5], [4, 5]),
        ("[FROM TIMESTAMP '2024-01-01 12:01']", [], [4, 5]),
        ("[NOW]", [3, 4, 5], [4, 5]),
        ("[RANGE '2 min' SLIDE '1 min']", [5, 6, 7], [4, 5, 6, 7]),
    ],
)
@pytest.mark.parametrize("batches", [1, 3])
def test_windows_that_open_then_or_with_backfill_those_that_close_after(
    window: str, since: list[int], after: list[int], batches: int
) -> None:
    for past, wanted in (("", since), ("BACKFILL", after)):
        with local_engine(SCRIPT.format(past=past, window=window)) as engine:
            for number in range(batches):
                engine.deliver("s", EVENTS[number * 6 // batches : (number + 1) * 6 // batches], number)
            engine.end("s")
            ends = engine.results("q").to_arrow().column("window_end").cast("int64").to_pylist()
            assert [(end - NOON) // MINUTE for end in ends] == wanted, past


CHANGES = """
CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT) USING parquet OPTIONS (path 'nowhere') TIMESTAMP BY ts;
CREATE QUERY q START AT TIMESTAMP '2024-01-01 12:00' AS {query};
"""
ROWS = [
    {"ts": NOON + minute * MINUTE, "k": k, "v": v}
    for minute, k, v in [(1, "a", 1), (3, "b", 2), (3, "a", 3), (7, "b", 4), (9, "a", 5), (12, "a", 6)]
]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("ISTREAM (SELECT k, v FROM s [RANGE '3 min'])", [(3, 1), (3, 2), (3, 3), (7, 4), (9, 5), (12, 6)]),
        ("DSTREAM (SELECT k, v FROM s [RANGE '3 min'])", [(4, 1), (6, 2), (6, 3), (10, 4), (12, 5), (15, 6)]),
        ("ISTREAM (SELECT k, v FROM s [RANGE '2 min'])", [(2, 1), (3, 2), (3, 3), (7, 4), (9, 5), (12, 6)]),
        ("DSTREAM (SELECT k, v FROM s [RANGE '2 min'])", [(3, 1), (5, 2), (5, 3), (9, 4), (11, 5), (14, 6)]),
        ("DSTREAM (SELECT k, v FROM s [RANGE '1 min'])", [(2, 1), (4, 2), (4, 3), (8, 4), (10, 5), (13, 6)]),
        (
            "ISTREAM (SELECT count(*) AS v FROM s [RANGE '2 min'] WHERE v > 1)",
            [(2, 0), (3, 2), (5, 0), (7, 1), (11, 0), (12, 1)],
        ),
        ("ISTREAM (SELECT DISTINCT k, 0 AS v FROM s [RANGE '3 min'])", [(3, 0), (3, 0), (7, 0), (9, 0)]),
        (
            "ISTREAM (SELECT k, sum(v) AS v FROM s [RANGE '3 min'] GROUP BY k)",
            [(3, 4), (3, 2), (4, 3), (7, 4), (9, 5), (12, 6)],
        ),
        (
            "SELECT k, v FROM s [RANGE '3 min'] x "
            "WHERE NOT EXISTS (SELECT 1 FROM s [RANGE '1 min'] y WHERE y.v = x.v + 99)",
            [(3, 1), (3, 2), (3, 3), (4, -1), (6, -2), (6, -3), (7, 4), (9, 5), (10, -4), (12, 6), (12, -5), (15, -6)],
        ),
        ("SELECT k, v FROM s [RANGE '3 min']", [(3, 2), (3, 3), (7, 4), (9, 5), (12, 6)]),
    ],
)
@pytest.mark.parametrize("batches", [1, 2, 3, 6])
def test_when_it_enters_everything_is_new(query: str, wanted: list[tuple[int, int]], batches: int) -> None:
    """A query over a window of three minutes enters at 12:03. What left before, or just then, was never there; where
    rows are told as they come, those that came before are not, unless their end is told, which is here the negative."""
    with local_engine(CHANGES.format(query=query)) as engine:
        for number in range(batches):
            engine.deliver("s", ROWS[number * 6 // batches : (number + 1) * 6 // batches], number)
        engine.end("s")
        answers = engine.results("q").to_arrow()
        ends = answers.column("window_end").cast("int64").to_pylist()
        signs = answers.column("sign").to_pylist() if "sign" in answers.column_names else [1] * len(ends)
    told = [v * sign for v, sign in zip(answers.column("v").to_pylist(), signs, strict=True)]
    found = [((end - NOON) // MINUTE, v) for end, v in zip(ends, told, strict=True)]
    assert sorted(found) == sorted(wanted)
