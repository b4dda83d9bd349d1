"""The queries over flights asked of polars, each in whichever of two shapes takes it less time.

Polars comes with the `bench` extra only, so it is imported when it is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from math import gcd
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.flights_peers import compare
from benchmarks.flights_queries import EXPANDED_UP_TO, Aggregate, FlightQuery
from mullion.errors import MullionError

Lazy = Any
"""A polars LazyFrame."""
Shape = Callable[[Lazy, FlightQuery], Lazy]


def is_installed() -> bool:
    return find_spec("polars") is not None


def scan(folder: Path) -> Lazy:
    """The files, read anew by every query. Times are whole microseconds, as for DuckDB."""
    pl = _polars()
    flights = pl.scan_parquet(folder / "*.parquet")
    return flights.select(pl.col("ts").cast(pl.Int64).alias("us"), "delay", "distance", "origin", "destination")


def dynamic(flights: Lazy, query: FlightQuery) -> Lazy:
    """Polars' own windows. They start at multiples of `every`; shifted, they end there as ours do.

    Of a sliding window polars leaves out the first ones of each group, which begin before its first event.
    """
    pl = _polars()
    grouped = (
        _selected(flights, query)
        .set_sorted("us")
        .group_by_dynamic(
            "us",
            every=f"{query.slide}i",
            period=f"{query.range}i",
            offset=f"{-query.range % query.slide}i",
            closed="left",
            group_by=list(query.keys) or None,
        )
    )
    found = grouped.agg(pl.len().alias("n"), *(_aggregate(a).alias(f"a{i}") for i, a in enumerate(query.aggregates)))
    return _finished(found.with_columns(window_end=pl.col("us") + query.range).filter(pl.col("n") > 0), query)


def expanded(flights: Lazy, query: FlightQuery) -> Lazy:
    """As DuckDB is asked: events in few windows are copied to each, otherwise panes are."""
    pl = _polars()
    source = _selected(flights, query)
    whole = query.is_holistic or query.range <= EXPANDED_UP_TO * query.slide
    if not whole:
        pane = gcd(query.range, query.slide)
        parts = [_partial(a).alias(f"v{i}") for i, a in enumerate(query.aggregates)]
        by_pane = [(pl.col("us") // pane * pane).alias("us"), *query.keys]
        source = source.group_by(by_pane).agg(pl.len().alias("n"), *parts)
    later = pl.LazyFrame({"later": range(-(-query.range // query.slide))}, schema={"later": pl.Int64})
    end = (pl.col("us") // query.slide + 1 + pl.col("later")) * query.slide
    copies = source.join(later, how="cross").with_columns(window_end=end)
    copies = copies.filter(pl.col("us") >= pl.col("window_end") - query.range)
    count = pl.len() if whole else pl.col("n").sum()
    items = [_aggregate(a) if whole else _combined(a, i) for i, a in enumerate(query.aggregates)]
    found = copies.group_by("window_end", *query.keys).agg(
        count.alias("n"), *(item.alias(f"a{i}") for i, item in enumerate(items))
    )
    return _finished(found, query)


SHAPES: Mapping[str, Shape] = {"group_by_dynamic": dynamic, "copies or panes": expanded}


def best_shapes(flights: Lazy, queries: Sequence[FlightQuery], right: Sequence[pa.Table]) -> list[Shape]:
    """For each query the shape that took less time. Answers are compared with the right ones, as far as these are
    given."""
    chosen = []
    for i, query in enumerate(queries):
        times: dict[str, float] = {}
        for name, shape in SHAPES.items():
            began = time.perf_counter()
            found = shape(flights, query).collect()
            times[name] = time.perf_counter() - began
            if i < len(right):
                _check(query, found.to_arrow(), right[i], part=shape is dynamic)
        chosen.append(SHAPES[min(times, key=lambda name: times[name])])
    return chosen


def one_by_one(flights: Lazy, queries: Sequence[FlightQuery], shapes: Sequence[Shape]) -> list[Any]:
    return [shape(flights, query).collect() for query, shape in zip(queries, shapes, strict=True)]


def all_at_once(flights: Lazy, queries: Sequence[FlightQuery], shapes: Sequence[Shape]) -> list[Any]:
    """All in one call, so that polars may read once and work side by side."""
    asked = [shape(flights, query) for query, shape in zip(queries, shapes, strict=True)]
    found: list[Any] = _polars().collect_all(asked)
    return found


def _check(query: FlightQuery, found: pa.Table, right: pa.Table, *, part: bool) -> None:
    """Raise where answers differ; a part of them may lack the first windows of groups."""
    keys = ["window_end", *query.keys]
    if part and query.range > query.slide and query.limit is None:
        groups = len(right.select(query.keys).group_by(query.keys).aggregate([])) if query.keys else 1
        if len(right) - len(found) > groups * (-(-query.range // query.slide) - 1):
            raise MullionError(f"polars answers {len(found)} of {len(right)} rows of {query.mullion()}")
        keyed = found.select(keys).cast(right.select(keys).schema)
        right = right.join(keyed, keys, join_type="left semi")
    elif part and query.range > query.slide:
        return
    compare("DuckDB's", query, found, right)


def _polars() -> Any:
    return import_module("polars")


def _selected(flights: Lazy, query: FlightQuery) -> Lazy:
    return flights.filter(_polars().sql_expr(query.where)) if query.where else flights


def _value(aggregate: Aggregate) -> Any:
    return _polars().sql_expr(aggregate.value)


def _aggregate(aggregate: Aggregate) -> Any:
    match aggregate.kind:
        case "count":
            return _polars().len()
        case "avg":
            return _value(aggregate).mean()
        case "distinct":
            return _value(aggregate).n_unique()
        case kind:
            return getattr(_value(aggregate), kind)()


def _partial(aggregate: Aggregate) -> Any:
    """What a pane keeps of an aggregate."""
    match aggregate.kind:
        case "count":
            return _polars().len()
        case "avg":
            return _value(aggregate).sum()
        case _:
            return _aggregate(aggregate)


def _combined(aggregate: Aggregate, i: int) -> Any:
    """The aggregate from those of panes."""
    kept = _polars().col(f"v{i}")
    match aggregate.kind:
        case "count" | "sum":
            return kept.sum()
        case "avg":
            return kept.sum() / _polars().col("n").sum()
        case kind:
            return getattr(kept, kind)()


def _finished(found: Lazy, query: FlightQuery) -> Lazy:
    """HAVING and LIMIT, and the columns of the answer."""
    pl = _polars()
    if query.having is not None:
        found = found.filter(pl.col("n") >= query.having)
    found = found.select("window_end", *query.names)
    if query.limit is None:
        return found
    ordered = found.sort("a0", *query.keys, descending=[True, *(False for _ in query.keys)])
    return ordered.group_by("window_end", maintain_order=True).head(query.limit)
