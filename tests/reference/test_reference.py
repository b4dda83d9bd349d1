"""The slow reference: examples worked by hand, then DuckDB on random queries."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.aggregates import REGISTRY
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.algebra.streams import Stream
from mullion.expressions.vector import Vector
from mullion.language.parse import parse_query
from mullion.language.query import Column
from mullion.language.types import BIGINT, DATE, DOUBLE, INT, STRING, decimal
from mullion.reference import Answer, answer
from mullion.reference.aggregates import aggregate
from strategies import NUMBERS, TRADES, Draw, Event, duration, event_lists, settings_of_time

NAN, INF = math.nan, math.inf


def trade(ts: int | None, **values: Any) -> Event:
    return dict.fromkeys(TRADES.types) | {"ts": ts} | values


def ask(text: str, events: list[Event], stream: Stream = TRADES) -> list[tuple[Any, ...]]:
    return answer(parse_query(text), stream, events).rows


def one(items: str, *events: Event) -> tuple[Any, ...]:
    """The items over a single window that holds all the events, which lie in [0, 10)."""
    rows = ask(f"SELECT {items} FROM trades [RANGE 10 us SLIDE 10 us]", list(events))
    assert len(rows) == 1 and rows[0][:2] == (0, 10)
    return rows[0][2:]


def test_the_smallest_example() -> None:
    assert ask("SELECT count(*) FROM trades [RANGE 5 us SLIDE 5 us]", [trade(3)]) == [(0, 5, 1)]
    assert ask("SELECT count(*) FROM trades [RANGE 5 us SLIDE 5 us]", []) == []


def test_a_window_holds_its_start_and_not_its_end() -> None:
    text = "SELECT count(*) FROM trades [RANGE 5 us SLIDE 5 us]"
    assert ask(text, [trade(5)]) == [(5, 10, 1)]
    assert ask(text, [trade(4), trade(5)]) == [(0, 5, 1), (5, 10, 1)]
    assert ask(text, [trade(-1)]) == [(-5, 0, 1)]


def test_overlapping_hopping_and_shifted_windows() -> None:
    events = [trade(1), trade(12)]
    assert ask("SELECT count(*) FROM trades [RANGE 18 us SLIDE 15 us]", events) == [(-3, 15, 2), (12, 30, 1)]
    assert ask("SELECT count(*) FROM trades [RANGE 2 us SLIDE 10 us]", events) == []
    assert ask("SELECT count(*) FROM trades [RANGE 9 us SLIDE 10 us]", events) == [(1, 10, 1), (11, 20, 1)]
    assert ask("SELECT count(*) FROM trades [RANGE 10 us SLIDE 10 us OFFSET 2 us]", events) == [
        (-8, 2, 1),
        (2, 12, 0),
        (12, 22, 1),
    ]


def test_windows_of_spark_and_flink_start_at_multiples_of_the_slide() -> None:
    events = [trade(1), trade(12)]
    wanted = [(-15, 3, 1), (0, 18, 2)]
    hop = "HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '15 us', INTERVAL '18 us')"
    assert ask("SELECT count(*) FROM trades GROUP BY window(ts, '18 us', '15 us')", events) == wanted
    assert ask(f"SELECT count(*) FROM {hop}", events) == wanted
    tumble = "SELECT count(*) FROM TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '15 us')"
    assert ask(tumble, events) == [(0, 15, 2)]


def test_a_window_holds_an_event_also_when_where_refuses_it() -> None:
    events = [trade(1, volume=1), trade(11, volume=9), trade(31, volume=1)]
    window = "FROM trades [RANGE 10 us SLIDE 10 us] WHERE volume > 5"
    assert ask(f"SELECT count(*), sum(volume) {window}", events) == [
        (0, 10, 0, None),
        (10, 20, 1, 9),
        (20, 30, 0, None),
        (30, 40, 0, None),
    ]
    assert ask(f"SELECT volume {window} GROUP BY volume", events) == [(10, 20, 9)]


def test_having_filters_empty_answers_too() -> None:
    events = [trade(1), trade(25)]
    text = "SELECT count(*) FROM trades [RANGE 10 us SLIDE 10 us] HAVING count(*) {} 0"
    assert ask(text.format("="), events) == [(10, 20, 0)]
    assert ask(text.format(">"), events) == [(0, 10, 1), (20, 30, 1)]


def test_a_query_answers_between_its_start_and_its_stop() -> None:
    events = [trade(t) for t in (0, 7, 12, 18, 31)]
    text = "CREATE QUERY q {} AS SELECT count(*) FROM trades [RANGE 5 us SLIDE 5 us]"
    start, stop = (f"TIMESTAMP '1970-01-01 00:00:00.0000{t}'" for t in ("05", "15"))
    assert ask(text.format(f"START AT {start} STOP AT {stop}"), events) == [(5, 10, 1), (10, 15, 1)]
    assert [r[1] for r in ask(text.format(f"START AT {start}"), events)] == [10, 15, 20, 25, 30, 35]


def test_records_without_a_time_are_nowhere() -> None:
    assert ask("SELECT count(*) FROM trades [RANGE 5 us SLIDE 5 us]", [trade(None), trade(1)]) == [(0, 5, 1)]


def test_nulls_nans_and_zeros_as_keys() -> None:
    prices = (NAN, None, 0.0, -0.0, -NAN, None, 1.0)
    events = [trade(1, price=p) for p in prices]
    rows = ask("SELECT price, count(*) FROM trades [RANGE 5 us SLIDE 5 us] GROUP BY price", events)
    assert [(str(p), n) for _, _, p, n in rows] == [("None", 2), ("0.0", 2), ("1.0", 1), ("nan", 2)]


def test_order_limit_and_ties() -> None:
    events = [trade(1, symbol=s, volume=v) for s, v in (("b", 1), (None, 1), ("a", 1), ("c", 5), ("d", None))]
    text = "SELECT symbol FROM trades [RANGE 5 us SLIDE 5 us] GROUP BY symbol "

    def order(tail: str) -> list[Any]:
        return [r[2] for r in ask(text + tail, events)]

    assert order("ORDER BY sum(volume)") == ["d", None, "a", "b", "c"]
    assert order("ORDER BY sum(volume) DESC") == ["c", None, "a", "b", "d"]
    assert order("ORDER BY sum(volume) NULLS LAST LIMIT 2") == [None, "a"]
    assert order("ORDER BY sum(volume) DESC NULLS FIRST, symbol DESC") == ["d", "c", "b", "a", None]
    assert order("LIMIT 2") == [None, "a"]
    assert order("LIMIT 0") == []


def test_sums_are_exact_or_null() -> None:
    largest = 2**63 - 1
    assert one("sum(big)", trade(1, big=largest), trade(2, big=1), trade(3, big=-5)) == (largest - 4,)
    assert one("sum(big)", trade(1, big=largest), trade(2, big=1)) == (None,)
    assert one("sum(volume)", trade(1, volume=2**31 - 1), trade(2, volume=2**31 - 1)) == (2**32 - 2,)
    assert one("sum(amount)", trade(1, amount=Decimal("0.10")), trade(2)) == (Decimal("0.10"),)
    assert one("sum(price)", *(trade(i, price=0.1) for i in range(10))) == (1.0,)
    assert one("sum(price), count(price), count(*)", trade(1), trade(2)) == (None, 0, 2)


def test_averages() -> None:
    assert one("avg(volume)", trade(1, volume=1), trade(2, volume=2), trade(3)) == (1.5,)
    cents = [trade(i, amount=Decimal(a)) for i, a in enumerate(("0.01", "0.01", "0.00"))]
    assert one("avg(amount)", *cents) == (Decimal("0.006667"),)


def test_nan_is_the_largest_number() -> None:
    events = [trade(i, price=p) for i, p in enumerate((1.0, NAN, INF, None))]
    low, high = one("min(price), max(price)", *events)
    assert low == 1.0 and math.isnan(high)
    assert math.isnan(one("min(price)", events[1])[0])
    assert math.isnan(one("sum(price)", *events)[0])
    assert one("sum(price)", events[0], events[2]) == (INF,)


def test_spread() -> None:
    """2, 4, 4, 4, 5, 5, 7, 9 have mean 5 and squared distances 9, 1, 1, 1, 0, 0, 4, 16: 32 in all."""
    events = [trade(i, volume=v) for i, v in enumerate((2, 4, 4, 4, 5, 5, 7, 9))]
    assert one("var_pop(volume), stddev_pop(volume)", *events) == (4.0, 2.0)
    assert one("var_samp(volume), stddev_samp(volume)", *events) == (32 / 7, math.sqrt(32 / 7))
    assert one("var_pop(volume), var_samp(volume), stddev_samp(volume)", events[0]) == (0.0, None, None)


def test_filter_counts_what_it_lets_pass() -> None:
    events = [trade(i, volume=i) for i in range(4)]
    assert one("count(*) FILTER (WHERE volume > 1), sum(volume) FILTER (WHERE volume > 9)", *events) == (2, None)


def prices(*values: float | None) -> list[Event]:
    return [trade(i, price=v) for i, v in enumerate(values)]


def test_each_value_once() -> None:
    events = [trade(i, volume=v, symbol=s) for i, (v, s) in enumerate(((1, "a"), (1, "b"), (3, "a"), (None, "a")))]
    assert one("count(DISTINCT volume), sum(DISTINCT volume), avg(DISTINCT volume)", *events) == (2, 4, 2.0)
    assert one("min(DISTINCT volume), max(DISTINCT volume)", *events) == (1, 3)
    assert one("count(DISTINCT symbol), count(DISTINCT volume) FILTER (WHERE symbol = 'b')", *events) == (2, 1)
    assert one("count(DISTINCT volume), sum(DISTINCT volume)", trade(1)) == (0, None)


def test_distinct_pairs_have_no_null() -> None:
    pairs = (("a", 1), ("a", 1), ("a", 2), ("b", 1), (None, 1), ("b", None))
    events = [trade(1, symbol=s, volume=v) for s, v in pairs]
    assert one("count(DISTINCT symbol, volume), count(symbol, volume)", *events) == (3, 4)


def test_all_nans_are_one_value_and_so_are_the_zeros() -> None:
    events = prices(NAN, -NAN, 0.0, -0.0, None)
    assert one("count(DISTINCT price), count(DISTINCT price, flag)", *events) == (2, 0)
    (found,) = one("top_k(price, 5)", *events)
    assert [(str(value), count) for value, count in found] == [("0.0", 2), ("nan", 2)]
    assert str(one("mode(price)", *events)[0]) == "0.0"


def test_percentiles_lie_between_two_values() -> None:
    """Of 10, 20, 40 the positions are 0, 1, 2: the share 0.75 lies at 1.5."""
    events = prices(40.0, None, 10.0, 20.0)
    assert one("median(price), percentile(price, 0.75)", *events) == (20.0, 30.0)
    assert one("percentile(price, 0), percentile(price, 1), percentile(price, 0.1)", *events) == (10.0, 40.0, 12.0)
    assert one("median(volume), median(amount)", *(trade(1, volume=v, amount=Decimal(v)) for v in (1, 2))) == (1.5, 1.5)
    assert one("median(price), percentile(price, 0.5)", trade(1)) == (None, None)


def test_percentiles_beside_infinity_and_nan() -> None:
    assert one("median(price)", *prices(INF, INF)) == (INF,)
    assert one("median(price)", *prices(1.0, INF, NAN)) == (INF,)
    assert math.isnan(one("percentile(price, 1)", *prices(1.0, INF, NAN))[0])
    assert math.isnan(one("median(price)", *prices(-INF, INF))[0])
    assert one("percentile(price, 0.25)", *prices(1.0, 2.0, NAN, NAN, NAN)) == (2.0,)


def test_the_mode_is_the_smallest_of_the_most_frequent() -> None:
    symbols = ("c", "b", "b", "c", "a", None, None, None)
    events = [trade(1, symbol=s, flag=s is None) for s in symbols]
    assert one("mode(symbol), mode(day), mode(flag)", *events) == ("b", None, False)
    assert one("mode(symbol) FILTER (WHERE symbol <> 'b')", *events) == ("c",)


def test_the_most_frequent_values() -> None:
    events = [trade(1, symbol=s) for s in ("c", "b", "b", "c", "a", None, None, None)]
    assert one("top_k(symbol, 2)", *events) == ([("b", 2), ("c", 2)],)
    assert one("top_k(symbol, 9)", *events) == ([("b", 2), ("c", 2), ("a", 1)],)
    assert one("top_k(day, 2)", *events) == ([],)


def test_the_first_and_the_last_event() -> None:
    """By time, then by arrival: 5, NULL, 7, 8, NULL."""
    times = ((3, 8), (1, 5), (2, None), (2, 7), (3, None))
    events = [trade(t, volume=v) for t, v in times]
    assert one("first(volume), last(volume)", *events) == (5, None)
    assert one("first(volume, true), last(volume) IGNORE NULLS", *events[2:]) == (7, 7)
    assert one("first(volume), last(volume) RESPECT NULLS", *events[2:4]) == (None, 7)
    assert one("first(volume) FILTER (WHERE volume > 5), last(ts) FILTER (WHERE volume > 5)", *events) == (7, 3)
    assert one("first(volume) FILTER (WHERE flag)", *events) == (None,)


def sketched(function: str, constant: float, *values: Any) -> Any:
    """The reference has the exact answer of what the engine approximates."""
    made = REGISTRY[function].with_parameters((constant,))
    return aggregate(BoundAggregate(function, Column("x"), INT, made.result(INT), made), values)


def test_approximate_aggregates_approach_the_exact_ones() -> None:
    assert sketched("approx_count_distinct", 0.1, 3, 3, None, 4, 3) == 2
    values = (5, 1, None, 3, 9)
    assert [sketched("approx_percentile", p, *values) for p in (0, 0.25, 0.26, 0.5, 0.75, 1)] == [1, 1, 3, 3, 5, 9]
    assert sketched("approx_percentile", 0.5, None) is None


def test_frequent_values_have_the_share_or_more() -> None:
    values = (1, 1, 1, 1, 2, 2, 2, 3, 3, 4, None, None)
    assert sketched("frequent", 0.3, *values) == [(1, 4), (2, 3)]
    assert sketched("frequent", 0.2, *values) == [(1, 4), (2, 3), (3, 2)]
    assert sketched("frequent", 0.5, *values) == sketched("frequent", 0.5, None) == []


def test_names_and_types() -> None:
    text = "SELECT symbol, sum(volume) AS s, avg(amount) FROM trades [RANGE 5 us SLIDE 5 us] GROUP BY symbol"
    found = answer(parse_query(text), TRADES, [])
    assert found.names[:4] == ("window_start", "window_end", "symbol", "s")
    assert found.types[2:] == (STRING, BIGINT, decimal(14, 6))


def test_a_stream_of_days() -> None:
    days = Stream("days", (("day", DATE), ("x", INT)), "day")
    rows = ask("SELECT sum(x) FROM days [RANGE 1 d SLIDE 1 d]", [{"day": 1, "x": 4}], days)
    assert rows == [(86_400_000_000, 2 * 86_400_000_000, 4)]


# Against DuckDB

SAME_PREDICATES = (
    "volume > 1",
    "volume BETWEEN 1 AND 5",
    "price < 1.0",
    "price IS NOT NULL",
    "symbol = 'A'",
    "symbol IN ('A', 'B', '')",
    "symbol LIKE 'A%'",
    "NOT flag",
    "amount >= 1.25",
    "day >= DATE '1970-01-01'",
    "(flag OR volume < 3) AND symbol IS NOT NULL",
)
SAME_KEYS = ("symbol", "flag", "day", "price", "amount", "upper(symbol)")
SAME_AGGREGATES = {
    "count(*)": BIGINT,
    "count(price)": BIGINT,
    "sum(volume)": BIGINT,
    "sum(amount)": decimal(20, 2),
    "sum(price)": DOUBLE,
    "avg(price)": DOUBLE,
    "avg(volume)": DOUBLE,
    "min(price)": DOUBLE,
    "max(price)": DOUBLE,
    "min(symbol)": STRING,
    "max(amount)": decimal(10, 2),
    "min(day)": DATE,
    "var_pop(volume)": DOUBLE,
    "var_samp(volume)": DOUBLE,
    "stddev_pop(volume)": DOUBLE,
    "stddev_samp(volume)": DOUBLE,
    "coalesce(sum(volume), 0) + count(*)": BIGINT,
}


@st.composite
def asked(draw: Draw[Any]) -> tuple[str, str, list[Event]]:
    """One question in Mullion's SQL and in DuckDB's, and the events."""
    setting = draw(settings_of_time)
    slide, range_ = draw(st.integers(2, 12)) * setting.unit, draw(st.integers(1, 30)) * setting.unit
    offset = draw(st.sampled_from((0, 1, -setting.unit)))
    keys = draw(st.lists(st.sampled_from(SAME_KEYS), max_size=2, unique=True))
    aggregates = draw(st.lists(st.sampled_from(sorted(SAME_AGGREGATES)), min_size=1, max_size=4, unique=True))
    where = draw(st.none() | st.sampled_from(SAME_PREDICATES))
    having = draw(st.sampled_from(("", "", " HAVING count(*) > 1", " HAVING max(volume) >= 2")))
    if draw(st.booleans()):
        aggregates = [
            f"{a} FILTER (WHERE {draw(st.sampled_from(SAME_PREDICATES))})" if "+" not in a else a for a in aggregates
        ]
    items = [*keys, *aggregates]
    ours = "SELECT " + ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
    ours += f" FROM trades [RANGE '{duration(range_)}' SLIDE '{duration(slide)}' OFFSET '{duration(offset)}']"
    ours += f" WHERE {where}" if where else ""
    ours += f" GROUP BY {', '.join(keys)}" if keys else ""
    matched = [f"CAST({a} AS BIGINT)" if a.startswith(("sum(volume)", "coalesce")) else a for a in aggregates]
    instants = f"""
        ends AS (SELECT DISTINCT unnest(range(
            {offset} + (t - {offset} - (((t - {offset}) % {slide}) + {slide}) % {slide}) + {slide},
            t + {range_} + 1, {slide})) AS e FROM trades),
        instants AS ({
        "SELECT e FROM ends" if keys else f"SELECT unnest(range(min(e), max(e) + 1, {slide})) AS e FROM ends"
    })"""
    kept = f"AND ({where})" if where else ""
    counted = [a.replace("count(*)", "count(t)") for a in matched]
    theirs = f"""WITH {instants}
        SELECT e - {range_}, e, {", ".join([*keys, *counted])} FROM instants
        {"JOIN" if keys else "LEFT JOIN"} trades ON e - {range_} <= t AND t < e {kept}
        GROUP BY {", ".join(["e", *keys])}{having.replace("count(*)", "count(t)")}"""
    return ours + having, theirs, draw(event_lists(setting, prices=(*NUMBERS, NAN), most=25))


def plain(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC).date()).days
    return value


def in_order(row: tuple[Any, ...]) -> Any:
    return [
        (
            v is None,
            isinstance(v, float) and math.isnan(v),
            0 if v is None or v != v else round(v, 6) + 0.0 if isinstance(v, float) else v,
        )
        for v in row
    ]


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


@pytest.mark.slow
@settings(max_examples=120)
@given(asked())
def test_as_duckdb_has_it(duck: duckdb.DuckDBPyConnection, example: tuple[str, str, list[Event]]) -> None:
    ours, theirs, events = example
    columns = {name: Vector.of(t, [e[name] for e in events]).to_arrow() for name, t in TRADES.columns if name != "ts"}
    times = pa.array([e["ts"] for e in events], pa.int64())
    duck.register("trades", pa.table({"t": times, **columns}))
    wanted = [tuple(map(plain, row)) for row in duck.execute(theirs).fetchall()]
    found: Answer = answer(parse_query(ours), TRADES, events)
    assert len(found.rows) == len(wanted), f"{ours}\n{theirs}\n{found.rows}\n{wanted}"
    for got, right in zip(sorted(found.rows, key=in_order), sorted(wanted, key=in_order), strict=True):
        assert all(map(equal, got, right)), f"{ours}\n{got}\n{right}"
