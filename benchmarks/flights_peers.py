"""The queries over flights asked of plain Spark, and answers compared with those of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.flights_queries import FlightQuery
from mullion.errors import MullionError


def read_in_spark(session: Any, folder: Path) -> None:
    """The files as the view `flights` of a session."""
    session.read.parquet(str(folder)).createOrReplaceTempView("flights")


def in_spark(session: Any, query: FlightQuery) -> pa.Table:
    """A batch query with Spark's own windows."""
    found = session.sql(query.spark()).toArrow()
    return found.set_column(0, "window_end", found["window_end"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()))


def from_mullion(query: FlightQuery, answers: pa.Table) -> pa.Table:
    """Our answers as the others give theirs: no row of a window without a selected flight."""
    at = answers.schema.get_field_index("window_end")
    answers = answers.set_column(at, "window_end", answers["window_end"].cast(pa.int64()))
    if query.keys:
        return answers
    counts = query.aggregates[0].kind in ("count", "distinct")
    return answers.filter(pc.greater(answers["a0"], 0) if counts else pc.is_valid(answers["a0"]))


def check(query: FlightQuery, ours: pa.Table, theirs: pa.Table) -> None:
    """Raise where our answers differ from DuckDB's."""
    compare("DuckDB's", query, from_mullion(query, ours), theirs)


def compare(whose: str, query: FlightQuery, left: pa.Table, right: pa.Table) -> None:
    """Raise where two answers of a query differ."""
    order = [(name, "ascending") for name in ("window_end", *query.keys)]
    left, right = left.sort_by(order), right.sort_by(order)
    if len(left) != len(right):
        raise MullionError(f"{len(left)} rows instead of {len(right)} of {query.mullion()}")
    for name in ("window_end", *query.names):
        one, other = (table[name].combine_chunks() for table in (left, right))
        if name.startswith("a") and name[1:].isdigit():
            same = np.allclose(one.cast(pa.float64()), other.cast(pa.float64()), rtol=1e-9, atol=1e-9)
        else:
            same = one.cast(other.type).equals(other)
        if not same:
            raise MullionError(f"other values of {name} than {whose} of {query.mullion()}")
