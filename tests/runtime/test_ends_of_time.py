"""Times of the years 1 and 9999, ranges of millennia and windows of very many rows: answered rightly, or refused."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import any_relation
from any_relation import STREAMS
from any_window import TICKS
from by_operators import bind_relation
from mullion import reference
from mullion.errors import CheckError, MullionError, ParseError
from mullion.language.limits import FIRST_TIME, FURTHEST, LAST_TIME, LONGEST, MOST_ROWS, moment
from mullion.language.parse import parse_duration, parse_query, parse_script
from mullion.language.render import render
from mullion.slices.kernels.events import TIME
from mullion.slices.order import values_on
from mullion.spark.files import RowGroup
from mullion.spark.reading import read_pieces
from mullion.spark.results import OneAnswer
from mullion.surface.printing import print_answer
from mullion.surface.progress import instant
from operators.test_relations_differential import Manner as Steps
from operators.test_relations_differential import assert_as_the_reference
from runtime.test_axis_differential import run as run_axes
from runtime.test_core_differential import Manner, Run, assert_same, bound_in
from strategies import Event, Example

DAY = 86_400_000_000
DAYS = LONGEST // DAY
extreme_times = st.sampled_from((FIRST_TIME, FIRST_TIME + 1, -1, 0, 1, LAST_TIME - 1, LAST_TIME)) | st.integers(
    FIRST_TIME, LAST_TIME
)
long_spans = st.sampled_from((1, DAY, 1000 * DAY, LONGEST // 2, LONGEST - 1, LONGEST)) | st.integers(1, LONGEST)


def tick(ts: int | None, **values: Any) -> Event:
    return dict.fromkeys(TICKS.types) | {"ts": ts} | values


@st.composite
def frames(draw: Any) -> str:
    range_ = draw(long_spans)
    # Few instants: the reference looks at each.
    slide = max(draw(long_spans), range_ // 5, LONGEST // 60)
    offset = draw(st.sampled_from((0, 1, -1, LONGEST, -LONGEST)))
    since = moment(draw(extreme_times)).replace(tzinfo=None)
    periodic = f"SLIDE '{slide} us' OFFSET '{offset} us'"
    return draw(
        st.sampled_from(
            (
                f"RANGE '{range_} us' {periodic}",
                f"RANGE '{range_} us'",
                f"RANGE '{range_} us' SLIDE 2 TUPLES",
                f"RANGE UNBOUNDED {periodic}",
                f"FROM TIMESTAMP '{since.isoformat(sep=' ')}' {periodic}",
                f"FROM TIMESTAMP '{since.isoformat(sep=' ')}'",
                f"ROWS {MOST_ROWS}",
                f"ROWS 2 SLIDE {MOST_ROWS}",
                f"PARTITION BY symbol ROWS {MOST_ROWS} SLIDE 2",
                "NOW",
            )
        )
    )


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(extreme_times, max_size=6), frames(), st.booleans(), st.sampled_from((1, 3)))
def test_windows_at_the_ends_of_time(times: list[int], frame: str, grouped: bool, batches: int) -> None:
    events = [tick(ts, symbol=["A", "B"][i % 2], volume=i) for i, ts in enumerate(sorted(times))]
    key, group = ("symbol, ", " GROUP BY symbol") if grouped else ("", "")
    text = f"CREATE QUERY q AS SELECT {key}count(*) AS n, sum(volume) AS s FROM trades [{frame}]{group}"
    assert parse_query(render(parse_query(text))) == parse_query(text)
    example = Example(TICKS, events, [text])
    found = run_axes(example, Manner(batches=batches, restart=batches > 1))
    wanted = reference.answer(parse_query(text), TICKS, events)
    assert_same(bound_in(example, parse_query(text)), found.get("q", []), wanted.rows)


numbers = st.sampled_from((0, 1, -1, FURTHEST, -FURTHEST, FURTHEST + 1, -FURTHEST - 1, 2**63 - 1, -(2**63)))
lengths = st.sampled_from((1, 10, FURTHEST // 3, FURTHEST - 1, FURTHEST))


@settings(max_examples=100)
@given(st.lists(numbers | st.integers(-(2**63), 2**63 - 1), max_size=6), lengths, lengths, st.booleans())
def test_windows_over_the_largest_numbers(values: list[int], range_: int, slide: int, periodic: bool) -> None:
    """A value beyond 2^59 has no place on the axis; it is counted with those that fell behind."""
    events = [tick(i, number=value, volume=i) for i, value in enumerate(sorted(values))]
    slide = max(slide, range_ // 5, FURTHEST // 40)
    sliding = f" SLIDE {slide}" if periodic else ""
    text = (
        f"CREATE QUERY q AS SELECT count(*) AS n, sum(volume) AS s FROM trades [RANGE {range_}{sliding} WATTR number]"
    )
    example = Example(TICKS, events, [text])
    query = bound_in(example, parse_query(text))
    found = Run(TICKS, [query], Manner()).over(events)
    assert_same(query, found.get("q", []), reference.answer(parse_query(text), TICKS, events).rows)
    table = pa.table({"number": pa.array(values, pa.int64())})
    assert values_on("number", TICKS, table)[2] == sum(abs(value) > FURTHEST for value in values)


def test_dates_have_no_place_beyond_the_limits() -> None:
    days = [0, None, 2**31 - 1, -(2**31), FURTHEST // DAY, FURTHEST // DAY + 1]
    values, there, beyond = values_on("due", TICKS, pa.table({"due": pa.array(days, pa.int32()).cast(pa.date32())}))
    assert there.tolist() == [True, False, False, False, True, False] and beyond == 3
    assert values[4] == FURTHEST // DAY * DAY


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"SELECT count(*) FROM s [RANGE '{DAYS + 1} d' SLIDE 1 s]", "at most 10,000 years"),
        (f"SELECT count(*) FROM s [RANGE 1 s SLIDE {DAYS + 1} d]", "at most 10,000 years"),
        (f"SELECT count(*) FROM s [RANGE 1 s SLIDE 1 s OFFSET '-{DAYS + 1} d']", "at most 10,000 years"),
        (f"SELECT count(*) FROM s GROUP BY window(ts, '{DAYS + 1} days')", "at most 10,000 years"),
        (f"SELECT count(*) FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '{DAYS + 1}' DAY)", "at most 10,000 years"),
        ("SELECT count(*) FROM s [RANGE 9223372036854775807 WATTR n]", "at most 576,460,752,303,423,488 here"),
        ("SELECT count(*) FROM s [RANGE 5 SLIDE 5 OFFSET -9223372036854775807 WATTR n]", "the number is too large"),
        ("SELECT count(*) FROM s [FROM 9223372036854775807 WATTR n]", "the number is too large"),
        ("SELECT count(*) FROM s [ROWS 1000000000000]", "at most 1,000,000,000 here"),
        ("SELECT count(*) FROM s [ROWS 2 SLIDE 1000000000000]", "at most 1,000,000,000 here"),
        ("SELECT count(*) FROM s [RANGE 1 s SLIDE 1000000000000 TUPLES]", "at most 1,000,000,000 here"),
        (f"SELECT count(*) FROM s [ROWS {'0' * 10}{'1' * 5000}]", "the number is too large"),
        ("CREATE SYNOPSIS y ON s(x) USING ordered_sharing (rows 1000000000000)", "at most 100,000,000 here"),
        ("CREATE SYNOPSIS y ON s(x) USING timegram (buckets 1000000000000, rows 10)", "at most 1,000,000 here"),
        (
            f"CREATE STREAM s (ts TIMESTAMP) USING json TIMESTAMP BY ts LATENESS '{DAYS + 1} d'",
            "at most 10,000 years",
        ),
        ("CREATE STREAM s (ts TIMESTAMP) USING json TIMESTAMP BY ts KEEP 1000000000000 ROWS", "at most 1,000,000,000"),
    ],
)
def test_what_is_too_large_is_refused_when_it_is_written(text: str, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        parse_script(text)


def test_durations_of_the_python_api_have_the_same_limit() -> None:
    assert parse_duration(f"{DAYS} d") == LONGEST
    with pytest.raises(MullionError, match="at most 10,000 years"):
        parse_duration(f"{DAYS + 1} d")


def test_windows_over_windows_have_a_limit_together() -> None:
    text = f"SELECT k FROM a [RANGE '{DAYS} d']"
    for depth in range(12):
        try:
            bind_relation(parse_query(text, name="deep"), STREAMS, {})
        except CheckError as error:
            assert "reach back more than 100,000 years" in str(error)
            assert depth > 5
            return
        text = f"SELECT k FROM ({text}) AS t{depth} [RANGE '{DAYS} d']"
    raise AssertionError("never refused")


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT a.k AS k, b.k AS y FROM a [RANGE '{DAYS} d'], b [RANGE '{DAYS} d'] WHERE a.k = b.k",
        f"SELECT a.k AS k, count(*) AS n FROM a [RANGE '{DAYS} d' SLIDE '{DAYS // 9} d'], b [RANGE '1 d'] "
        "WHERE a.k = b.k GROUP BY a.k",
        f"SELECT DISTINCT k FROM a [RANGE '{DAYS} d']",
        f"SELECT k FROM a [RANGE '{DAYS} d'] x WHERE NOT EXISTS (SELECT 1 FROM b [RANGE '{DAYS} d'] y WHERE y.k = x.k)",
        f"SELECT k FROM a [ROWS {MOST_ROWS}] UNION ALL SELECT k FROM b [RANGE '{DAYS} d']",
    ],
)
def test_relations_at_the_ends_of_time(text: str) -> None:
    def row(stream: str, ts: int, k: int) -> Event:
        return dict.fromkeys(STREAMS[stream].types) | {"ts": ts, "k": k}

    events = {name: list[Event]() for name in STREAMS}
    events["a"] = [row("a", ts, k) for ts, k in ((FIRST_TIME, 1), (0, 2), (LAST_TIME, 1))]
    events["b"] = [row("b", ts, 1) for ts in (FIRST_TIME, FIRST_TIME + 1, LAST_TIME - 1)]
    example = any_relation.Example(text, events, {})
    for strategy in ("upa", "nt", "scan"):
        assert_as_the_reference(example, Steps((0, 1, -FIRST_TIME, LAST_TIME - FIRST_TIME - 1), strategy, restart=True))


def test_times_beyond_pythons_years_are_shown_as_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert moment(LAST_TIME + 5) == moment(LAST_TIME) and moment(FIRST_TIME - 5) == moment(FIRST_TIME)
    assert instant(LAST_TIME + DAY) == "9999-12-31 23:59:59 UTC" and instant(FIRST_TIME) == "0001-01-01 00:00:00 UTC"

    ends = pa.array([LAST_TIME + DAY, None, FIRST_TIME - DAY], pa.timestamp("us", "UTC"))
    print_answer(OneAnswer(pa.table({"window_end": ends, "n": [1, 2, 3]}), None, "kept events", 0, 0), "json")
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["window_end"] for row in shown] == ["9999-12-31 23:59:59.999999Z", None, "0001-01-01 00:00:00Z"]


def test_event_times_lie_in_the_years_1_to_9999(tmp_path: Any) -> None:
    times = [FIRST_TIME - 1, FIRST_TIME, LAST_TIME, LAST_TIME + 1, None, 2**63 - 1, -(2**63)]
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "x": list(range(7))}), path)
    (found,) = read_pieces([RowGroup(path, 0, 7)], ["x"], "ts", [])
    assert found.column(TIME).to_pylist() == [None, FIRST_TIME, LAST_TIME, None, None, None, None]
