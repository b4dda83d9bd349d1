"""Which windows a query may have, over which columns, and what is said of the others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.errors import CheckError, TextError
from mullion.language.parse import parse_query
from mullion.language.query import Axis, Column
from mullion.language.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP
from mullion.planner.sliced import SlicedAggregation

COLUMNS = (
    *(("ts", TIMESTAMP), ("symbol", STRING), ("price", DOUBLE)),
    *(("seq", INT), ("number", BIGINT), ("seen", TIMESTAMP), ("day", DATE)),
)
TRADES = Stream("trades", COLUMNS, "ts")


def bound(window: str, items: str = "count(*) AS n", before: str = "") -> SlicedAggregation:
    text = f"{before}SELECT {items} FROM trades {window}"
    return bind(parse_query(text), {"trades": TRADES})


@pytest.mark.parametrize(
    "window",
    [
        "[ROWS 3]",
        "[ROWS 3 SLIDE 2]",
        "[PARTITION BY symbol, upper(symbol) ROWS 3]",
        "[RANGE 5 s]",
        "[RANGE 5 s SLIDE 2 TUPLES]",
        "[RANGE UNBOUNDED]",
        "[RANGE UNBOUNDED SLIDE 5 s OFFSET 1 s]",
        "[FROM TIMESTAMP '2024-01-01' SLIDE 5 s]",
        "[NOW]",
        "[RANGE 5 s SLIDE 5 s WATTR seen]",
        "[RANGE 1 d SLIDE 1 d WATTR DAY]",
        "[FROM TIMESTAMP '2024-01-01' WATTR day]",
        "[NOW WATTR seen]",
        "[RANGE 5 s WATTR ts]",
    ],
)
def test_windows_in_time(window: str) -> None:
    query = bound(window)
    assert query.template.bounds == TIMESTAMP
    assert query.template.schema.field("window_end").type == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    "window",
    [
        "[RANGE 5 SLIDE 2 WATTR seq]",
        "[RANGE 5 SLIDE 2 TUPLES WATTR Number]",
        "[RANGE 5 WATTR number]",
        "[RANGE UNBOUNDED SLIDE 2 OFFSET 1 WATTR seq]",
        "[RANGE UNBOUNDED WATTR seq]",
        "[FROM -3 SLIDE 2 WATTR seq]",
        "[FROM 3 WATTR number]",
        "[NOW WATTR seq]",
    ],
)
def test_windows_over_whole_numbers_have_whole_bounds(window: str) -> None:
    query = bound(window, "count(*) AS n, window_end - window_start AS width")
    assert query.template.bounds == BIGINT and query.template.items[1][1] == BIGINT
    assert (
        query.template.schema.field("window_start").type == query.template.schema.field("window_end").type == pa.int64()
    )


def test_shapes_differ_by_their_bounds() -> None:
    assert bound("[RANGE 5 WATTR seq]").template != bound("[RANGE 5 s]").template


def test_the_axis_of_a_window() -> None:
    assert bound("[RANGE 5 SLIDE 2 WATTR Seq]").axis == Axis("column", "seq")
    assert bound("[PARTITION BY symbol ROWS 3]").axis == Axis("partitions", partition=(Column("symbol"),))
    assert bound("[RANGE 5 s SLIDE 2 s]").axis == Axis()


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("[RANGE 5 SLIDE 2 WATTR ts]", "a duration needs a unit, such as 10 s"),
        ("[RANGE 5 SLIDE 2 WATTR seen]", "a duration needs a unit, such as 10 s"),
        ("[FROM 5 WATTR day]", "a duration needs a unit, such as 10 s"),
        ("[RANGE 5 s SLIDE 2 s WATTR seq]", "'seq' is int: a window over it has no durations"),
        ("[FROM TIMESTAMP '2024-01-01' WATTR number]", "'number' is bigint: a window over it has no durations"),
        ("[RANGE 5 s WATTR sen]", "unknown column 'sen' in trades"),
        ("[RANGE 5 s WATTR price]", "a window cannot go over 'price', which is double"),
        ("[ROWS 5 WATTR seq]", "a window of ROWS has no WATTR"),
        ("", "stream 'trades' needs a window"),
    ],
)
def test_refused_windows(window: str, message: str) -> None:
    with pytest.raises(TextError, match=message) as refused:
        bound(window)
    assert refused.value.place is not None
    shown = refused.value.place
    assert shown.text[shown.start : shown.end] == (window or "trades")


def test_a_query_over_whole_numbers_has_no_times_to_start_or_stop_at() -> None:
    for life in ("START AT TIMESTAMP '2024-01-01'", "STOP AT TIMESTAMP '2024-01-01'"):
        with pytest.raises(CheckError, match="START AT and STOP AT are times, and the window goes over 'seq'"):
            bound("[RANGE 5 SLIDE 2 WATTR seq]", before=f"CREATE QUERY q {life} AS ")
        bound("[RANGE 5 s SLIDE 2 s WATTR seen]", before=f"CREATE QUERY q {life} AS ")


def test_nulls_are_ignored_or_respected() -> None:
    def only(items: str) -> object:
        (aggregate,) = bound("[NOW]", items).template.aggregates
        return aggregate

    assert only("first(price) IGNORE NULLS") == only("first(price, true)")
    assert only("last(price) FILTER (WHERE seq > 1) IGNORE NULLS") == only("last(price, true) FILTER (WHERE seq > 1)")
    assert only("first(price) RESPECT NULLS") == only("first(price)")
    assert only("first(price) IGNORE NULLS") != only("first(price)")


def test_the_engine_checks_synopses() -> None:
    engine = Engine()
    engine.execute(
        "CREATE STREAM trades (ts TIMESTAMP, price DOUBLE, id BIGINT) USING csv OPTIONS (path 'x') TIMESTAMP BY ts"
    )
    engine.execute("CREATE SYNOPSIS t ON TRADES(PRICE) USING ordered_sharing (rows 10)")
    assert engine.catalog.synopses["t"].column == "price"
    wrong = {
        "CREATE SYNOPSIS T ON trades(price) USING ordered_sharing (rows 10)": "already a synopsis",
        "CREATE SYNOPSIS u ON trade(price) USING ordered_sharing (rows 10)": "unknown stream 'trade'",
        "CREATE SYNOPSIS u ON trades(prise) USING ordered_sharing (rows 10)": "unknown column 'prise'",
        "CREATE SYNOPSIS u ON trades(id) USING ordered_sharing (rows 10)": "cannot hold 'id', which is bigint",
        "DROP SYNOPSIS u": "unknown synopsis 'u'",
    }
    for text, message in wrong.items():
        with pytest.raises(CheckError, match=message):
            engine.execute(text)
    engine.execute("DROP SYNOPSIS T")
    assert not engine.catalog.synopses


def test_a_stream_keeps_what_it_was_told_to() -> None:
    engine = Engine()
    kept = {"hours": "KEEP '1 hour'", "rows": "LATENESS 1 s KEEP 1000 ROWS", "nothing": ""}
    for name, clause in kept.items():
        engine.execute(f"CREATE STREAM {name} (TS TIMESTAMP) USING csv OPTIONS (path 'x') TIMESTAMP BY ts {clause}")
    streams = engine.catalog.streams
    assert [(s.keep, s.keep_rows) for s in streams.values()] == [(3_600_000_000, None), (None, 1000), (None, None)]
    assert (streams["rows"].lateness, streams["rows"].time_column) == (1_000_000, "TS")


@pytest.mark.parametrize(
    ("time", "message", "hint"),
    [
        (
            "ms",
            "column 'ms' of s is bigint",
            "timestamp_seconds(ms), timestamp_millis(ms)",
        ),
        ("text", "column 'text' of s is string", "to_timestamp(text)"),
        ("ms + 1", "is bigint", "timestamp_millis(ms + 1)"),
        ("timestamp_millis(m)", "unknown column 'm'", "ms"),
        ("timestamp_millis(max(ms))", "aggregate max is not allowed here", ""),
        ("timestamp_millis(ms) AS Text", "s has a column 'Text' already", "another name"),
    ],
)
def test_an_event_time_that_cannot_be(time: str, message: str, hint: str) -> None:
    engine = Engine()
    with pytest.raises(CheckError) as raised:
        engine.execute(f"CREATE STREAM s (ms BIGINT, text STRING) USING json OPTIONS (path 'x') TIMESTAMP BY {time}")
    assert message in str(raised.value) and hint in str(raised.value)


def test_an_event_time_that_is_computed() -> None:
    engine = Engine()
    engine.execute(
        "CREATE STREAM s (MS BIGINT) USING json OPTIONS (path 'x') TIMESTAMP BY timestamp_millis(ms) KEEP 1 h"
    )
    stream = engine.catalog.streams["s"]
    assert (stream.time_column, stream.types["event_time"], stream.keep) == ("event_time", TIMESTAMP, 3_600_000_000)
    assert stream.stored.columns == (("MS", BIGINT),)
    engine.query("SELECT count(*) AS n FROM s GROUP BY window(event_time, '1 minute')")
