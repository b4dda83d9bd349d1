"""What a query is bound to means what its text means: DuckDB answers the same over what the windows hold."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import duckdb
import pytest

from by_operators import bind_relation
from mullion import reference
from mullion.algebra.streams import Stream, Table
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, INT, TIMESTAMP

SECOND = 1_000_000
SLIDE = 5 * SECOND
COLUMNS = (("ts", TIMESTAMP), ("k", INT), ("v", BIGINT), ("w", INT))
STREAMS = {name: Stream(name, COLUMNS, "ts") for name in "abc"}
TABLES = {"t": Table("t", (("k", INT), ("z", INT)), "csv")}
Rows = list[dict[str, Any]]


def made(seed: int) -> tuple[dict[str, Rows], Rows]:
    """A few events of each stream, with NULLs, and a table in which keys are missing or stand twice."""
    draw = random.Random(seed)

    def event() -> dict[str, Any]:
        k, v, w = draw.choice([None, 1, 1, 2, 3]), draw.choice([None, 1, 2, 3]), draw.randint(0, 3)
        return {"ts": draw.randint(0, 40) * SECOND, "k": k, "v": v, "w": w}

    return {name: [event() for _ in range(36)] for name in "abc"}, [
        {"k": k, "z": z} for k, z in ((1, 5), (1, 6), (3, 7))
    ]


A, B, C = "a [10] AS a", "b [15] AS b", "c [10] AS c"
QUERIES = [
    f"SELECT a.k, b.v FROM {A}, {B} WHERE a.k = b.k",
    f"SELECT a.k, b.v FROM {A} JOIN {B} ON a.k = b.k AND a.w < b.w WHERE b.v > 1 AND (a.v = 1 OR b.w = 2)",
    f"SELECT a.w AS x, b.w AS y, c.w AS z FROM {A}, {B}, {C} WHERE a.k = b.k AND b.k = c.k AND a.v + 1 > c.w",
    f"SELECT a.w AS x, b.w AS y, c.w AS z FROM {C}, {B}, {A} WHERE a.k = b.k AND c.v = b.v AND a.w <= c.w",
    f"SELECT a.w AS x, c.w AS z FROM {A} JOIN {B} USING (k) JOIN {C} ON c.k = b.k AND c.v = a.v",
    f"SELECT k, a.w AS x, c.w AS z FROM {A} JOIN {B} USING (k, v) JOIN {C} USING (k) WHERE k + a.v > 2",
    f"SELECT k, count(*) AS n FROM {A} JOIN {B} USING (k) GROUP BY k",
    f"""SELECT j, v, a.w AS x, e.i AS y FROM {A} JOIN (SELECT v, k AS j FROM {B}) AS d USING (v)
        JOIN (SELECT k AS j, w AS i FROM {C}) AS e USING (j) WHERE j > 1""",
    f"SELECT a.v, b.w FROM {A}, {B} WHERE a.k = b.k AND a.v = b.w",
    f"SELECT a.v, b.w FROM {A}, {B} WHERE a.k = b.k AND a.w = b.k",
    "SELECT x.v, y.w FROM a [10] AS x, a [20] AS y WHERE x.k = y.k AND x.ts <= y.ts",
    f"SELECT DISTINCT k, v FROM {A}",
    f"SELECT DISTINCT b.v FROM {A}, {B} WHERE a.k = b.k",
    f"SELECT k, v FROM {A} WHERE NOT EXISTS (SELECT 1 FROM {B} WHERE b.k = a.k AND b.w > 0)",
    f"SELECT k, v FROM {A} WHERE EXISTS (SELECT 1 FROM {B} WHERE b.k = a.k AND b.v = a.v) AND w > 0",
    f"SELECT a.k FROM {A}, {B} WHERE a.k = b.k AND NOT EXISTS (SELECT 1 FROM {C} WHERE c.k = a.k AND c.w = b.w)",
    f"""SELECT k, w FROM {A} WHERE EXISTS (SELECT 1 FROM {B} WHERE b.k = a.k
        AND NOT EXISTS (SELECT 1 FROM {C} WHERE c.v = b.v)) AND NOT EXISTS (SELECT 1 FROM c [5] AS d WHERE d.k = a.w)
        """,
    f"SELECT k FROM {A} WHERE NOT EXISTS (SELECT 1 FROM {B}, {C} WHERE b.k = c.k AND b.v = a.v AND c.w = a.w)",
    f"SELECT k, v FROM {A} UNION ALL SELECT w, k FROM {B} UNION ALL SELECT v, w FROM {C}",
    f"SELECT k FROM {A} UNION ALL SELECT w FROM {B} EXCEPT ALL SELECT k FROM {C} EXCEPT ALL SELECT w FROM {C}",
    f"SELECT count(*) AS n, sum(b.v) AS s, max(a.w) FILTER (WHERE b.w > 1) AS m FROM {A}, {B} WHERE a.k = b.k",
    f"SELECT a.k, b.w + 1 AS u, count(*) AS n FROM {A}, {B} WHERE a.k = b.k GROUP BY a.k, b.w + 1 HAVING count(*) > 1",
    f"SELECT v, count(*) AS n FROM (SELECT DISTINCT k, v FROM {A}) AS d GROUP BY v",
    f"SELECT d.n, b.w FROM (SELECT k, count(*) AS n FROM {A} GROUP BY k) AS d, {B} WHERE d.k = b.k AND d.n > 1",
    f"""SELECT k FROM {A} WHERE EXISTS (
        SELECT 1 FROM (SELECT k, sum(w) AS s FROM {B} GROUP BY k) AS d WHERE d.k = a.k AND s > 2)""",
    f"SELECT a.w, b.w AS x, t.z FROM {A}, {B}, t WHERE a.k = b.k AND t.k = b.k AND t.z > a.w + 4",
    f"SELECT a.w, t.z FROM {A} JOIN {B} ON a.v = b.v LEFT JOIN t ON t.k = a.k AND t.z > 5",
    f"SELECT a.w, b.w AS x FROM {A}, {B}, t WHERE t.k = a.k AND t.k = b.k",
]


@pytest.fixture(scope="module")
def samples() -> list[tuple[dict[str, Rows], Rows, duckdb.DuckDBPyConnection]]:
    return [(*made(seed), loaded(*made(seed))) for seed in range(2)]


def loaded(events: dict[str, Rows], table: Rows) -> duckdb.DuckDBPyConnection:
    duck = duckdb.connect()
    for name, rows in events.items():
        duck.execute(f"CREATE TABLE {name} (ts BIGINT, k INT, v BIGINT, w INT)")
        duck.execute(f"INSERT INTO {name} VALUES {values(rows)}")
    duck.execute("CREATE TABLE t (k INT, z INT)")
    duck.execute(f"INSERT INTO t VALUES {values(table)}")
    return duck


def values(rows: Rows) -> str:
    return ", ".join(f"({', '.join('NULL' if v is None else str(v) for v in row.values())})" for row in rows)


@pytest.mark.parametrize("text", QUERIES)
def test_a_plan_means_what_its_text_means(
    text: str, samples: list[tuple[dict[str, Rows], Rows, duckdb.DuckDBPyConnection]]
) -> None:
    ours = bind_relation(parse_query(re.sub(r"\[(\d+)\]", r"[RANGE \1 s SLIDE 5 s]", text)), STREAMS, TABLES)
    told = 0
    for events, table, duck in samples:
        answer = reference.answer(ours, STREAMS, events, {"t": (TABLES["t"], table)})
        found: dict[int, Counter[tuple[Any, ...]]] = {}
        for row in answer.rows:
            found.setdefault(row[1], Counter())[tuple(row[2 : 2 + len(ours.names)])] += 1
        told += len(answer.rows)
        for instant in range(0, 65 * SECOND, SLIDE):
            expected = Counter(tuple(row) for row in duck.execute(at(instant, text)).fetchall())
            assert found.get(instant, Counter()) == expected or (instant not in found and is_nothing(expected)), instant
    assert told > 10


def at(instant: int, text: str) -> str:
    """The query over what its windows hold."""

    def held(window: re.Match[str]) -> str:
        since = instant - int(window[2]) * SECOND
        return f"(SELECT * FROM {window[1]} WHERE ts >= {since} AND ts < {instant})"

    return re.sub(r"\b([abc]) \[(\d+)\]", held, text)


def is_nothing(rows: Counter[tuple[Any, ...]]) -> bool:
    """Aggregates without GROUP BY have a row even before the first window and after the last."""
    return all(set(row) <= {0, None} for row in rows)
