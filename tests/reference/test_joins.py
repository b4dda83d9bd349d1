"""What a join of a stream with tables means: examples worked by hand, then DuckDB on random tables and queries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joins import CLOSE, EXTRA, JOINS, SECTORS, Rows, close_rows, columns_in, sector_rows, with_stream
from mullion.expressions.vector import Vector
from mullion.language.parse import parse_query
from mullion.reference import answer
from reference.test_reference import equal, in_order, plain, trade
from strategies import NUMBERS, TRADES, Draw, Event, duration, event_lists, settings_of_time


def ask(text: str, events: list[Event], close: Rows, sectors: Rows | None = None) -> list[tuple[Any, ...]]:
    tables = {"close": (CLOSE, close), "sectors": (SECTORS, sectors or [])}
    return answer(parse_query(text), TRADES, events, tables).rows


def row(**values: Any) -> Mapping[str, Any]:
    return dict.fromkeys(CLOSE.types) | values


A, B, TWICE = row(symbol="A", cp=1.0), row(symbol="B", cp=2.0), row(symbol="A", cp=5.0)
W = "trades [RANGE 10 us SLIDE 10 us] t"


def test_rows_are_found_by_equality() -> None:
    events = [trade(1, symbol="A"), trade(2, symbol="C"), trade(3)]
    text = f"SELECT count(*), sum(cp) FROM {W} {{}} close c ON t.symbol = c.symbol"
    assert ask(text.format("JOIN"), events, [A, B, row(cp=7.0)]) == [(0, 10, 1, 1.0)]
    assert ask(text.format("LEFT JOIN"), events, [A, B, row(cp=7.0)]) == [(0, 10, 3, 1.0)]


def test_an_event_counts_once_for_every_row_that_it_finds() -> None:
    events = [trade(1, symbol="A", volume=3), trade(2, symbol="B", volume=4)]
    text = f"SELECT c.cp, sum(volume) FROM {W}, close c WHERE t.symbol = c.symbol GROUP BY c.cp"
    assert ask(text, events, [A, B, TWICE]) == [(0, 10, 1.0, 3), (0, 10, 2.0, 4), (0, 10, 5.0, 3)]


def test_a_condition_of_a_left_join_keeps_the_event() -> None:
    text = f"SELECT count(*), count(cp) FROM {W} LEFT JOIN close c ON t.symbol = c.symbol"
    events = [trade(1, symbol="A"), trade(2, symbol="B")]
    assert ask(f"{text} AND c.cp > 4", events, [A, B, TWICE]) == [(0, 10, 2, 1)]
    assert ask(f"{text} WHERE c.cp > 4", events, [A, B, TWICE]) == [(0, 10, 1, 1)]


def test_windows_do_not_depend_on_what_is_found() -> None:
    events = [trade(1, symbol="C"), trade(11, symbol="A"), trade(31, symbol="C")]
    text = f"SELECT count(*) FROM {W} JOIN close c ON t.symbol = c.symbol"
    assert ask(text, events, [A]) == [(0, 10, 0), (10, 20, 1), (20, 30, 0), (30, 40, 0)]


def test_nans_and_zeros_as_keys() -> None:
    events = [trade(1, price=p) for p in (math.nan, 0.0, None)]
    rows = [row(cp=p) for p in (math.nan, -0.0, None)]
    assert ask(f"SELECT count(*) FROM {W} JOIN close c ON t.price = c.cp", events, rows) == [(0, 10, 2)]


# Against DuckDB


@st.composite
def asked(draw: Draw[Any]) -> tuple[str, str, list[Event], Rows, Rows]:
    """One question in Mullion's SQL and in DuckDB's, the events, and the rows of the tables."""
    setting = draw(settings_of_time)
    slide, range_ = draw(st.integers(2, 12)) * setting.unit, draw(st.integers(1, 30)) * setting.unit
    joined = draw(st.sampled_from(sorted(JOINS)))
    columns = columns_in(joined)
    keys = draw(st.lists(st.sampled_from(columns), max_size=2, unique=True))
    functions = st.builds("{}({})".format, st.sampled_from(("count", "max", "min")), st.sampled_from(columns))
    sums = st.sampled_from(("count(*)", "sum(t.price)", "avg(c.cp)", "sum(c.cp)"))
    aggregates = draw(st.lists(functions | sums, min_size=1, max_size=3, unique=True))
    if draw(st.booleans()):
        extra = draw(st.sampled_from(EXTRA))
        joined += f" AND ({extra})" if "WHERE" in joined else f" WHERE {extra}"
    items = ", ".join(f"{item} AS i{i}" for i, item in enumerate([*keys, *aggregates]))
    window = f"trades [RANGE '{duration(range_)}' SLIDE '{duration(slide)}'] t"
    ours = f"SELECT {items} FROM {with_stream(joined, window)}"
    ours += f" GROUP BY {', '.join(keys)}" if keys else ""
    flat = [name.replace(".", "_") for name in keys]
    counted = [a.replace("count(*)", "count(t_t)").replace(".", "_") for a in aggregates]
    every = f"SELECT unnest(range(min(e), max(e) + 1, {slide})) AS e FROM ends"
    theirs = f"""WITH ends AS (SELECT DISTINCT unnest(range(
            t - (((t % {slide}) + {slide}) % {slide}) + {slide}, t + {range_} + 1, {slide})) AS e FROM trades),
        instants AS ({"SELECT e FROM ends" if keys else every}),
        found AS (SELECT t.t AS t_t, {", ".join(f"{c} AS {c.replace('.', '_')}" for c in columns)}
            FROM {with_stream(joined, "trades t")})
        SELECT e - {range_}, e, {", ".join([*flat, *counted])} FROM instants
        {"JOIN" if keys else "LEFT JOIN"} found ON e - {range_} <= t_t AND t_t < e
        GROUP BY {", ".join(["e", *flat])}"""
    events = draw(event_lists(setting, prices=(*NUMBERS, math.nan), most=20))
    return ours, theirs, events, draw(close_rows), draw(sector_rows)


def arrow(columns: Any, rows: Any) -> pa.Table:
    return pa.table({name: Vector.of(t, [row[name] for row in rows]).to_arrow() for name, t in columns})


@pytest.mark.slow
@settings(max_examples=120)
@given(asked())
def test_as_duckdb_has_it(duck: duckdb.DuckDBPyConnection, example: tuple[str, str, list[Event], Rows, Rows]) -> None:
    ours, theirs, events, close, sectors = example
    events_table = arrow([c for c in TRADES.columns if c[0] != "ts"], events)
    duck.register("trades", events_table.append_column("t", pa.array([e["ts"] for e in events], pa.int64())))
    duck.register("close", arrow(CLOSE.columns, close))
    duck.register("sectors", arrow(SECTORS.columns, sectors))
    wanted = [tuple(map(plain, found)) for found in duck.execute(theirs).fetchall()]
    found = ask(ours, events, close, sectors)
    assert len(found) == len(wanted), f"{ours}\n{theirs}\n{found}\n{wanted}"
    for got, right in zip(sorted(found, key=in_order), sorted(wanted, key=in_order), strict=True):
        assert all(map(equal, got, right)), f"{ours}\n{got}\n{right}"
