"""The queries over flights mean the same for DuckDB as for the reference."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from benchmarks.flights import check
from benchmarks.flights_data import COLUMNS
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


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_duckdb_answers_as_the_reference_does(
    number: int, flights: list[dict[str, Any]], connection: duckdb.DuckDBPyConnection
) -> None:
    query = QUERIES[number]
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
