"""The reference against DuckDB: every kind of window over every column, and aggregates over values and ends.

In DuckDB a window is a relation: `instants` has a row for each answer (i, s, e), `held` says which events it holds, by
self-joins and row numbers. Items, WHERE and GROUP BY then apply to the join of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_window import AXES, KINDS, TICKS, Axis, axis_of, ticks
from mullion.expressions.vector import Vector
from mullion.language.parse import parse_query
from mullion.reference import answer, ask
from strategies import NUMBERS, Draw, Event, Setting, duration, settings_of_time, timestamp

PREDICATES = ("volume > 1", "price < 1.0", "symbol IN ('A', 'B', '')", "NOT flag", "symbol IS NOT NULL AND price > 0")
KEYS = ("symbol", "flag", "day", "price", "upper(symbol)")
PARTITIONS = ("symbol", "flag", "symbol, flag", "price", "day")
SAME = {
    "count(*)": "count(n)",
    "sum(volume)": "sum(volume)",
    "max(price)": "max(price)",
    "count(DISTINCT symbol)": "count(DISTINCT symbol)",
    "count(DISTINCT price)": "count(DISTINCT price + 0.0)",
    "count(DISTINCT symbol, flag)": "count(DISTINCT (symbol, flag)) FILTER (symbol IS NOT NULL AND flag IS NOT NULL)",
    "sum(DISTINCT volume)": "sum(DISTINCT volume)",
    "sum(DISTINCT amount)": "sum(DISTINCT amount)",
    "avg(DISTINCT volume)": "avg(DISTINCT volume)",
    "min(DISTINCT price)": "min(price)",
    "median(price)": "quantile_cont(price, 0.5)",
    "median(volume)": "quantile_cont(volume::DOUBLE, 0.5)",
    "percentile(price, 0.9)": "quantile_cont(price, 0.9)",
    "percentile(amount, 0.25)": "quantile_cont(amount::DOUBLE, 0.25)",
    "percentile(volume, 0)": "quantile_cont(volume::DOUBLE, 0)",
    "first(price)": "arg_min_null(price, n)",
    "last(volume)": "arg_max_null(volume, n)",
    "first(symbol) IGNORE NULLS": "arg_min(symbol, n)",
    "last(amount, true)": "arg_max(amount, n)",
    "first(volume) FILTER (WHERE flag)": "arg_min_null(volume, n) FILTER (WHERE flag)",
    "last(symbol, true) FILTER (WHERE volume > 1)": "arg_max(symbol, n) FILTER (WHERE volume > 1)",
    "median(volume) FILTER (WHERE flag)": "quantile_cont(volume::DOUBLE, 0.5) FILTER (WHERE flag)",
}
"""Aggregates as Mullion and as DuckDB write them; `n` numbers the events in their order."""


@dataclass(frozen=True)
class Asked:
    """A question in both languages, and the events."""

    ours: str
    theirs: str
    events: list[Event]


@dataclass(frozen=True)
class Laid:
    """A window in both languages: `instants` gives (i, e) and `held` the condition that event n, at t, is in it."""

    text: str
    instants: str
    held: str
    start: str
    """window_start from e, and from `oldest`, the time of the first event in it."""
    keys: str = ""
    rows: int = 0
    """Of a partitioned window, how many of the last events of each partition."""


def ends(slide: int, shift: int, since: int | None, reach: int) -> str:
    """The instants of SLIDE s: from the first after an event until `reach` after the newest."""
    first = f"least_t - (((least_t - {shift}) % {slide}) + {slide}) % {slide} + {slide}"
    counted = f"SELECT min(t) AS least_t, max(t) AS most_t FROM ev {'' if since is None else f'WHERE t >= {since}'}"
    return f"SELECT e AS i, e FROM (SELECT unnest(range({first}, most_t + {reach} + 1, {slide})) AS e FROM ({counted}))"


@st.composite
def laid(draw: Draw[Any], kind: str, axis: Axis) -> Laid:
    range_, slide = draw(st.integers(1, 20)) * axis.unit, draw(st.integers(2, 12)) * axis.unit
    step, shift = draw(st.integers(1, 5)), draw(st.sampled_from((0, 1, -axis.unit)))
    since = axis.origin + draw(st.integers(-2, 12)) * axis.unit
    by = draw(st.sampled_from(("time", "tuples", "change")))
    length, every, offset = axis.span(range_), axis.span(slide), axis.span(shift)
    nth = f"SELECT n AS i, t AS e FROM ev WHERE n % {step} = 0"
    match kind:
        case "rows" | "partitioned" if by == "time":
            rows, keys = draw(st.integers(1, 9)), draw(st.sampled_from(PARTITIONS)) if kind == "partitioned" else ""
            text = f"{f'PARTITION BY {keys} ' if keys else ''}ROWS {rows} SLIDE {every} OFFSET {offset}"
            return Laid(text, ends(slide, shift, None, slide), "t < e", "oldest", keys=keys or "true", rows=rows)
        case "rows":
            rows = draw(st.integers(1, 9))
            return Laid(f"ROWS {rows} SLIDE {step}", nth, f"n <= i AND n > i - {rows}", "oldest")
        case "partitioned":
            rows, keys = draw(st.integers(1, 4)), draw(st.sampled_from(PARTITIONS))
            text = f"PARTITION BY {keys} ROWS {rows} SLIDE {step}"
            return Laid(text, nth, "n <= i", "oldest", keys=keys, rows=rows)
        case "range by tuples":
            held = f"n <= i AND t > e - {range_}"
            return Laid(f"RANGE {length} SLIDE {step} TUPLES", nth, held, f"e - {range_}")
        case "continuous":
            changes = f"SELECT t AS i, t AS e FROM ev UNION SELECT t + {range_}, t + {range_} FROM ev"
            return Laid(f"RANGE {length}", changes, f"t <= e AND t > e - {range_}", f"e - {range_}")
        case "now":
            return Laid("NOW", "SELECT DISTINCT t AS i, t AS e FROM ev", "t = e", "e")
        case "periodic":
            instants = ends(slide, shift, None, range_)
            text = f"RANGE {length} SLIDE {every} OFFSET {offset}"
            return Laid(text, instants, f"t < e AND t >= e - {range_}", f"e - {range_}")
    from_, bound = ("FROM " + axis.instant(since), since) if kind == "landmark" else ("RANGE UNBOUNDED", None)
    start, floor = ("NULL", "") if bound is None else (str(bound), f" AND t >= {bound}")
    if by == "time":
        instants = ends(slide, shift, bound, slide)
        return Laid(f"{from_} SLIDE {every} OFFSET {offset}", instants, f"t < e{floor}", start)
    if by == "change":
        instants = f"SELECT DISTINCT t AS i, t AS e FROM ev WHERE true{floor}"
        return Laid(from_, instants, f"t <= e{floor}", start)
    return Laid(f"{from_} SLIDE {step} TUPLES", f"{nth}{floor}", f"n <= i{floor}", start)


def relation(window: Laid, axis: Axis, life: str, ungrouped: bool, where: str | None) -> str:
    """WITH ... windows (i, s, e) and kept (i, events that pass WHERE)."""
    column = f"{axis.column} * 86400000000" if axis.column == "due" else axis.column
    last = f"QUALIFY row_number() OVER (PARTITION BY i, {window.keys} ORDER BY n DESC) <= {window.rows}"
    trimmed = "WHERE e BETWEEN (SELECT min(e) FROM asked WHERE filled) AND (SELECT max(e) FROM asked WHERE filled)"
    return f"""WITH
        ev AS (SELECT *, CAST({column} AS BIGINT) AS t, row_number() OVER (ORDER BY {column}, ts, a) AS n
               FROM trades WHERE ts IS NOT NULL AND {column} IS NOT NULL),
        instants AS ({window.instants}),
        held AS (SELECT i, e, ev.* FROM instants JOIN ev ON {window.held} {last if window.keys else ""}),
        bounds AS (SELECT i, min(t) AS oldest FROM held GROUP BY i),
        asked AS (SELECT * FROM (SELECT i, CAST({window.start} AS BIGINT) AS s, e, oldest IS NOT NULL AS filled
                  FROM instants LEFT JOIN bounds USING (i)) WHERE {life}),
        windows AS (SELECT i, s, e FROM asked {trimmed if ungrouped else ""}),
        kept AS (SELECT * EXCLUDE (e) FROM held {f"WHERE {where}" if where else ""})"""


@st.composite
def asked(draw: Draw[Any], kind: str) -> Asked:
    setting: Setting = draw(settings_of_time)
    axis = axis_of("ts" if kind in ("rows", "partitioned") else draw(st.sampled_from(AXES)), setting)
    window: Laid = draw(laid(kind, axis))
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True))
    items = draw(st.lists(st.sampled_from(sorted(SAME)), min_size=1, max_size=4, unique=True))
    where = draw(st.none() | st.sampled_from(PREDICATES))
    start = stop = None
    if axis.in_time and kind != "unbounded":
        start, stop = draw(st.tuples(*[st.sampled_from((None, None, None, 0, 3, 10))] * 2))
    life, lived = "true", "CREATE QUERY q"
    if start is not None:
        at = axis.origin + start * axis.unit
        life, lived = f"s >= {at}", f"{lived} START AT {timestamp(at)}"
        if kind == "partitioned":  # the last events of a partition may be as old as the stream: they count from then on
            window = replace(window, held=f"{window.held} AND t >= {at}")
    if stop is not None:
        at = axis.origin + ((start or 0) + 4 * stop + 1) * axis.unit
        life, lived = f"{life} AND e <= {at}", f"{lived} STOP AT {timestamp(at)}"
    over = "" if axis.column == "ts" else f" WATTR {axis.column}"
    ours = f"{lived} AS SELECT {', '.join(f'{item} AS c{i}' for i, item in enumerate([*keys, *items]))}"
    ours += f" FROM trades [{window.text}{over}]" + (f" WHERE {where}" if where else "")
    ours += f" GROUP BY {', '.join(keys)}" if keys else ""
    columns = ", ".join(["s", "e", *keys, *(SAME[item] for item in items)])
    theirs = f"""{relation(window, axis, life, not keys, where)}
        SELECT {columns} FROM windows {"" if keys else "LEFT"} JOIN kept USING (i)
        GROUP BY {", ".join(["i", "s", "e", *keys])}"""
    return Asked(ours, theirs, draw(ticks(setting, prices=(*NUMBERS, math.nan), most=25)))


def load(duck: duckdb.DuckDBPyConnection, events: list[Event]) -> None:
    """The events as a table, with their arrival in `a`; times and days as numbers."""
    columns: dict[str, pa.Array] = {"a": pa.array(range(len(events)), pa.int64())}
    for name, type_ in TICKS.columns:
        values = Vector.of(type_, [event[name] for event in events]).to_arrow()
        whole = {"timestamp": pa.int64(), "date": pa.int32()}.get(type_.kind)
        columns[name] = values if whole is None else values.view(whole)
    duck.register("trades", pa.table(columns))


def plain(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) and value == value else value


def in_order(row: tuple[Any, ...]) -> Any:
    return [
        (
            v is None,
            isinstance(v, float) and v != v,
            0 if v is None or v != v else round(v, 6) if isinstance(v, float) else v,
        )
        for v in row
    ]


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


def assert_same(found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]], why: str) -> None:
    found = sorted((tuple(map(plain, row)) for row in found), key=in_order)
    wanted = sorted((tuple(map(plain, row)) for row in wanted), key=in_order)
    assert len(found) == len(wanted), f"{why}\n{found}\n{wanted}"
    for got, right in zip(found, wanted, strict=True):
        assert all(map(equal, got, right)), f"{why}\n{got}\n{right}"


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(data=st.data())
def test_windows_as_duckdb_has_them(duck: duckdb.DuckDBPyConnection, kind: str, data: st.DataObject) -> None:
    example = data.draw(asked(kind))
    load(duck, example.events)
    wanted = duck.execute(example.theirs).fetchall()
    found = answer(parse_query(example.ours), TICKS, example.events)
    assert_same(found.rows, wanted, f"{example.ours}\n{example.theirs}")


@settings(max_examples=10)
@given(st.data(), st.integers(1, 9), st.integers(1, 4))
def test_rows_as_frames(duck: duckdb.DuckDBPyConnection, data: st.DataObject, rows: int, step: int) -> None:
    """ROWS n is the frame that SQL knows; `first` and `last` are then its first_value and last_value."""
    events = data.draw(ticks(data.draw(settings_of_time), prices=NUMBERS, most=25))
    load(duck, events)
    wanted = duck.execute(f"""
        SELECT min(ts) OVER w, ts, count(*) OVER w, sum(volume) OVER w, first_value(price) OVER w,
            last_value(price IGNORE NULLS) OVER w, count(DISTINCT symbol) OVER w
        FROM trades WHERE ts IS NOT NULL
        WINDOW w AS (ORDER BY ts, a ROWS BETWEEN {rows - 1} PRECEDING AND CURRENT ROW)
        QUALIFY row_number() OVER (ORDER BY ts, a) % {step} = 0""").fetchall()
    items = "count(*), sum(volume), first(price), last(price, true), count(DISTINCT symbol)"
    text = f"SELECT {items} FROM trades [ROWS {rows} SLIDE {step}]"
    assert_same(answer(parse_query(text), TICKS, events).rows, wanted, text)


@settings(max_examples=10)
@given(st.data(), st.sampled_from(("symbol", "price", "volume", "amount", "day")), st.integers(1, 4))
def test_the_most_frequent_values(duck: duckdb.DuckDBPyConnection, data: st.DataObject, column: str, k: int) -> None:
    """By counting values within each window, with ties to the smaller."""
    setting = data.draw(settings_of_time)
    events = data.draw(ticks(setting, prices=(*NUMBERS, math.nan), most=25))
    window = data.draw(laid(data.draw(st.sampled_from(("rows", "continuous", "now"))), axis_of("ts", setting)))
    load(duck, events)
    value = "price + 0.0" if column == "price" else column
    wanted = duck.execute(f"""{relation(window, axis_of("ts", setting), "true", True, None)},
        counted AS (SELECT i, {value} AS v, count(*) AS c FROM kept WHERE {column} IS NOT NULL GROUP BY ALL),
        ranked AS (SELECT *, row_number() OVER (PARTITION BY i ORDER BY c DESC, v) AS r FROM counted)
        SELECT s, e, any_value(v) FILTER (r = 1), count(v), list((v, c) ORDER BY r) FILTER (r <= {k})
        FROM windows LEFT JOIN ranked USING (i) GROUP BY i, s, e ORDER BY i""").fetchall()
    text = f"SELECT mode({column}), count(DISTINCT {column}), top_k({column}, {k}) FROM trades [{window.text}]"
    found = answer(parse_query(text), TICKS, events).rows
    assert_same([row[:-1] for row in found], [row[:-1] for row in wanted], text)
    for (*_, ours), (*_, theirs) in zip(found, wanted, strict=True):
        assert_same([pair[::-1] for pair in ours], [tuple(pair)[::-1] for pair in theirs or []], text)


ONCE = {
    "RANGE {range}": "t > now - {span}",
    "ROWS {n}": "n > newest - {n}",
    "PARTITION BY symbol ROWS {n}": "from_last <= {n}",
    "RANGE UNBOUNDED": "true",
    "NOW": "t = now",
}


@pytest.mark.parametrize("window", ONCE)
@settings(max_examples=5)
@given(data=st.data(), n=st.integers(1, 9))
def test_questions_asked_once(duck: duckdb.DuckDBPyConnection, window: str, data: st.DataObject, n: int) -> None:
    setting = data.draw(settings_of_time)
    events = data.draw(ticks(setting, prices=NUMBERS, most=25))
    load(duck, events)
    span = n * setting.unit
    condition = ONCE[window].format(span=span, n=n)
    wanted = duck.execute(f"""WITH
        ev AS (SELECT *, ts AS t, row_number() OVER (ORDER BY ts, a) AS n,
               row_number() OVER (PARTITION BY symbol ORDER BY ts DESC, a DESC) AS from_last
               FROM trades WHERE ts IS NOT NULL),
        newest AS (SELECT max(t) AS now, max(n) AS newest FROM ev HAVING max(t) IS NOT NULL)
        SELECT now, count(ev.n) FILTER (volume > 1), sum(volume) FILTER (volume > 1),
            arg_max_null(price, n) FILTER (volume > 1)
        FROM newest LEFT JOIN ev ON {condition} GROUP BY now""").fetchall()
    written = window.format(range=duration(span), n=n)
    text = f"SELECT count(*), sum(volume), last(price) FROM trades [{written}] WHERE volume > 1"
    found = ask(parse_query(text), TICKS, events).rows
    assert_same([row[1:] for row in found], wanted, text)
