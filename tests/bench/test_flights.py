"""The queries over flights mean the same for DuckDB as for the reference."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import flights_polars
from benchmarks.flights_data import COLUMNS
from benchmarks.flights_duckdb import DuckDB
from benchmarks.flights_limits import different_predicates
from benchmarks.flights_peers import check, compare
from benchmarks.flights_queries import MINUTE, FlightQuery, query_set
from mullion.algebra.streams import Stream
from mullion.errors import MullionError
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, STRING, TIMESTAMP
from mullion.reference import answer

TYPES = (("ts", TIMESTAMP), ("delay", BIGINT), ("distance", BIGINT), ("origin", STRING), ("destination", STRING))
QUERIES = query_set(60, seed=5)


def some_flights(number: int) -> list[dict[str, Any]]:
    dice = random.Random(number)
    airports = ("ATL", "ORD", "LAX", "DEN")
    return [
        {
            "ts": 978_307_200_000_000 + dice.randrange(6 * 1440) * MINUTE,
            "delay": dice.randint(-20, 200),
            "distance": dice.randint(100, 2500),
            "origin": dice.choice(airports),
            "destination": dice.choice(airports),
        }
        for _ in range(number)
    ]


@pytest.fixture(scope="module")
def flights() -> list[dict[str, Any]]:
    return some_flights(300)


@pytest.fixture(scope="module")
def connection(flights: list[dict[str, Any]]) -> duckdb.DuckDBPyConnection:
    table = pa.Table.from_pylist([{"us" if name == "ts" else name: x for name, x in row.items()} for row in flights])
    found = duckdb.connect()
    found.register("read", table)
    found.execute("CREATE TABLE flights AS SELECT * FROM read")
    return found


def ours(query: FlightQuery, flights: list[dict[str, Any]]) -> pa.Table:
    found = answer(parse_query(query.mullion()), Stream("flights", TYPES, "ts"), flights)
    return pa.table({name: [row[i] for row in found.rows] for i, name in enumerate(found.names)})


@pytest.mark.parametrize("seed", range(len(QUERIES)))
def test_duckdb_answers_as_the_reference_does(
    seed: int, flights: list[dict[str, Any]], connection: duckdb.DuckDBPyConnection
) -> None:
    query = QUERIES[seed]
    right = connection.sql(query.duckdb()).to_arrow_table()
    found = ours(query, flights)
    check(query, found, right)
    if len(right):
        with pytest.raises(MullionError, match="rows instead of"):
            check(query, found, right.slice(1))


def test_the_sets_are_varied() -> None:
    """What the benchmark promises of its sets, and a smaller set begins a larger one."""
    assert QUERIES[:8] == query_set(8, seed=5)
    assert {query.keys for query in QUERIES} == {(), ("origin",), ("destination",), ("origin", "destination")}
    assert any(query.is_holistic for query in QUERIES) and any(query.limit for query in QUERIES)
    assert any(query.having for query in QUERIES) and any(query.range == query.slide for query in QUERIES)
    assert all(name in COLUMNS for name, _ in TYPES)


@pytest.fixture
def folder(tmp_path: Path, flights: list[dict[str, Any]]) -> Path:
    """The flights as a file."""
    table = pa.Table.from_pylist(sorted(flights, key=lambda flight: flight["ts"]))
    ts = table["ts"].cast(pa.timestamp("us", "UTC"))
    pq.write_table(table.set_column(0, "ts", ts), tmp_path / "a.parquet")
    return tmp_path


def test_duckdb_has_the_same_answers_from_files_and_from_memory(folder: Path) -> None:
    answers = []
    for in_memory in (True, False):
        with DuckDB(folder, in_memory=in_memory) as place:
            once, again = place.one_by_one(QUERIES[:12]), place.one_by_one(QUERIES[:3])
        assert once.seconds > 0 and list(map(len, again.result)) == list(map(len, once.result[:3]))
        answers.append(once.result)
    for query, *found in zip(QUERIES[:12], *answers, strict=True):
        compare("DuckDB's", query, *found)


@pytest.mark.slow
def test_polars_answers_as_duckdb_does(folder: Path) -> None:
    pytest.importorskip("polars")
    with DuckDB(folder) as duckdb_:
        right = duckdb_.one_by_one(QUERIES).result
    lazy = flights_polars.scan(folder)
    shapes = flights_polars.best_shapes(lazy, QUERIES, right)
    for way in (flights_polars.one_by_one, flights_polars.all_at_once):
        assert len(way(lazy, QUERIES[:3], shapes[:3])) == 3
    for query, answers in zip(QUERIES, right, strict=True):
        compare("DuckDB's", query, flights_polars.expanded(lazy, query).collect().to_arrow(), answers)


def test_predicates_all_differ_and_fewer_begin_more() -> None:
    queries = different_predicates(500)
    assert len({query.where for query in queries}) == 500
    assert different_predicates(20) == queries[:20]


def test_other_answers_are_noticed() -> None:
    query = FlightQuery((), MINUTE, MINUTE, "", QUERIES[0].aggregates[:1], None, None)
    left, right = (pa.table({"window_end": [MINUTE], "a0": [value]}) for value in (1.0, 1.0 + 1e-6))
    compare("DuckDB's", query, left, left)
    with pytest.raises(MullionError, match="other values of a0 than DuckDB's"):
        compare("DuckDB's", query, left, right)
