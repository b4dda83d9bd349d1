"""What each window holds, by its smallest examples, worked by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from any_window import examples_of
from mullion.algebra.streams import Stream, Table
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP
from mullion.reference import Answer, answer, ask
from strategies import Example

TICKS = Stream(
    "ticks", (("ts", TIMESTAMP), ("k", STRING), ("x", INT), ("seq", INT), ("seen", TIMESTAMP), ("day", DATE)), "ts"
)
DAY = 86_400_000_000
Row = tuple[Any, ...]


def tick(ts: int | None, k: str | None = None, x: int | None = None, **others: Any) -> dict[str, Any]:
    return dict.fromkeys(TICKS.types) | {"ts": ts, "k": k, "x": x} | others


def at(micros: int) -> str:
    return f"TIMESTAMP '1970-01-01 00:00:00.{micros:06d}'"


FIVE = [tick(1, "a", 10), tick(3, "b", 20), tick(3, "a", 30), tick(7, "b", 40), tick(9, "a", 50)]
"""Times 1, 3, 3, 7 and 9."""


def over(window: str, events: list[dict[str, Any]], items: str = "count(*), sum(x)", tail: str = "") -> list[Row]:
    return answer(parse_query(f"SELECT {items} FROM ticks {window} {tail}"), TICKS, events).rows


def once(window: str, events: list[dict[str, Any]], items: str = "count(*), sum(x)", tail: str = "") -> list[Row]:
    return ask(parse_query(f"SELECT {items} FROM ticks {window} {tail}"), TICKS, events).rows


def living(life: str, window: str, events: list[dict[str, Any]]) -> list[Row]:
    text = f"CREATE QUERY q {life} AS SELECT count(*) FROM ticks {window}"
    return answer(parse_query(text), TICKS, events).rows


EVERY_WINDOW = (
    "[RANGE 4 us SLIDE 5 us]",
    "[ROWS 2]",
    "[PARTITION BY k ROWS 2]",
    "[RANGE 4 us SLIDE 1 TUPLE]",
    "[RANGE 4 us]",
    "[RANGE UNBOUNDED SLIDE 5 us]",
    "[RANGE UNBOUNDED SLIDE 1 TUPLE]",
    "[RANGE UNBOUNDED]",
    f"[FROM {at(0)} SLIDE 5 us]",
    f"[FROM {at(0)} SLIDE 1 TUPLE]",
    f"[FROM {at(0)}]",
    "[NOW]",
)


@pytest.mark.parametrize("window", EVERY_WINDOW)
def test_of_no_events_there_is_no_answer(window: str) -> None:
    assert over(window, []) == over(window, [tick(None, "a", 1)]) == []
    assert once(window, []) == once(window, [tick(None, "a", 1)]) == []


@pytest.mark.parametrize("window", EVERY_WINDOW)
def test_events_without_a_time_are_in_no_window(window: str) -> None:
    some = [tick(None, "a", 1), *FIVE[:3], tick(None, "b", 1), *FIVE[3:]]
    assert over(window, some) == over(window, FIVE)
    assert once(window, some) == once(window, FIVE)


@pytest.mark.parametrize("window", EVERY_WINDOW)
def test_events_are_ordered_by_time_and_then_as_they_arrived(window: str) -> None:
    """Here only the events of one time keep their order."""
    shuffled = [FIVE[4], FIVE[1], FIVE[0], FIVE[2], FIVE[3]]
    assert over(window, shuffled, "first(x), last(x), count(*)") == over(window, FIVE, "first(x), last(x), count(*)")


# ROWS


def test_rows() -> None:
    """After every event, the last two: 10, 10+20, 20+30, 30+40, 40+50."""
    assert over("[ROWS 2]", FIVE) == [(1, 1, 1, 10), (1, 3, 2, 30), (3, 3, 2, 50), (3, 7, 2, 70), (7, 9, 2, 90)]


def test_rows_that_slide() -> None:
    """After the second and the fourth event; the fifth is a rest and is not answered."""
    assert over("[ROWS 3 SLIDE 2]", FIVE) == [(1, 3, 2, 30), (3, 7, 3, 90)]
    assert over("[ROWS 1 SLIDE 2]", FIVE) == [(3, 3, 1, 20), (7, 7, 1, 40)]
    assert over("[ROWS 3 SLIDE 6]", FIVE) == []


def test_the_drawing_of_rows() -> None:
    """As docs/language.md draws it."""
    events = [tick(t) for t in (1, 3, 3, 7, 9, 9, 12)]
    assert over("[ROWS 3 SLIDE 2]", events, "count(*)") == [(1, 3, 2), (3, 7, 3), (7, 9, 3)]


def test_rows_are_counted_before_where() -> None:
    assert over("[ROWS 2]", FIVE, tail="WHERE k = 'a'") == [
        (1, 1, 1, 10),
        (1, 3, 1, 10),
        (3, 3, 1, 30),
        (3, 7, 1, 30),
        (7, 9, 1, 50),
    ]
    assert over("[ROWS 1]", FIVE[:2], tail="WHERE k = 'c'") == [(1, 1, 0, None), (3, 3, 0, None)]


def test_rows_by_group() -> None:
    assert over("[ROWS 3 SLIDE 2]", FIVE, "k, sum(x)", "GROUP BY k") == [
        (1, 3, "a", 10),
        (1, 3, "b", 20),
        (3, 7, "a", 30),
        (3, 7, "b", 60),
    ]


def test_rows_are_counted_before_joins() -> None:
    """The event with 'a' finds two rows and still is one of the two last."""
    close = Table("close", (("k", STRING), ("cp", DOUBLE)), "csv")
    rows = [{"k": "a", "cp": 1.0}, {"k": "a", "cp": 2.0}]
    text = "SELECT count(*), sum(cp) FROM ticks [ROWS 2] t JOIN close c ON t.k = c.k"
    found = answer(parse_query(text), TICKS, FIVE[:3], {"close": (close, rows)}).rows
    assert found == [(1, 1, 2, 3.0), (1, 3, 2, 3.0), (3, 3, 2, 3.0)]


def test_the_last_rows_of_each_partition() -> None:
    """The last of each k: 10; 10+20; 30+20; 30+40; 50+40. The window reaches back to the oldest of them."""
    assert over("[PARTITION BY k ROWS 1]", FIVE) == [
        (1, 1, 1, 10),
        (1, 3, 2, 30),
        (3, 3, 2, 50),
        (3, 7, 2, 70),
        (7, 9, 2, 90),
    ]
    assert over("[PARTITION BY k ROWS 2 SLIDE 4]", FIVE, "k, sum(x)", "GROUP BY k") == [
        (1, 7, "a", 40),
        (1, 7, "b", 60),
    ]


def test_a_silent_partition_keeps_its_last_rows() -> None:
    events = [tick(1, "a", 1), *(tick(t, "b", t) for t in range(2, 6))]
    assert over("[PARTITION BY k ROWS 1]", events)[-1] == (1, 5, 2, 6)


def test_partitions_by_null_and_by_several_keys() -> None:
    events = [tick(1, None, 1), tick(2, "a", 1), tick(3, None, 1), tick(4, "a", 2)]
    assert [row[2] for row in over("[PARTITION BY k ROWS 1]", events)] == [1, 2, 2, 2]
    assert [row[2] for row in over("[PARTITION BY k, x ROWS 1]", events)] == [1, 2, 2, 3]


# RANGE


def test_a_range_after_every_so_many_events() -> None:
    """After the events at 3 and 7: times above 3 - 4 and above 7 - 4; the second event at 3 has not come yet."""
    assert over("[RANGE 4 us SLIDE 2 TUPLES]", FIVE) == [(-1, 3, 2, 30), (3, 7, 1, 40)]
    assert over("[RANGE 4 us SLIDE 1 TUPLE]", FIVE) == [
        (-3, 1, 1, 10),
        (-1, 3, 2, 30),
        (-1, 3, 3, 60),
        (3, 7, 1, 40),
        (5, 9, 2, 90),
    ]
    assert over("[RANGE 4 us SLIDE 6 TUPLES]", FIVE) == []


def test_a_range_at_every_change() -> None:
    """Events come at 1, 3, 7, 9 and leave at 5, 7, 11, 13. At 13 nothing is left, and that is not answered."""
    assert over("[RANGE 4 us]", FIVE) == [
        (-3, 1, 1, 10),
        (-1, 3, 3, 60),
        (1, 5, 2, 50),
        (3, 7, 1, 40),
        (5, 9, 2, 90),
        (7, 11, 1, 50),
    ]


def test_a_range_that_runs_empty() -> None:
    events = [tick(1, "a", 1), tick(9, "b", 2)]
    assert over("[RANGE 2 us]", events) == [(-1, 1, 1, 1), (1, 3, 0, None), (7, 9, 1, 2)]
    assert over("[RANGE 2 us]", events, "k, sum(x)", "GROUP BY k") == [(-1, 1, "a", 1), (7, 9, "b", 2)]


def test_everything_so_far() -> None:
    assert over("[RANGE UNBOUNDED SLIDE 5 us]", FIVE) == [(None, 5, 3, 60), (None, 10, 5, 150)]
    assert over("[RANGE UNBOUNDED SLIDE 5 us OFFSET 2 us]", FIVE) == [
        (None, 2, 1, 10),
        (None, 7, 3, 60),
        (None, 12, 5, 150),
    ]
    assert over("[RANGE UNBOUNDED SLIDE 2 TUPLES]", FIVE) == [(None, 3, 2, 30), (None, 7, 4, 100)]
    assert over("[RANGE UNBOUNDED]", FIVE) == [
        (None, 1, 1, 10),
        (None, 3, 3, 60),
        (None, 7, 4, 100),
        (None, 9, 5, 150),
    ]


def test_everything_so_far_is_answered_while_nothing_happens() -> None:
    events = [tick(1, "a", 1), tick(11, "b", 2)]
    wanted = [(None, 5, "a", 1), (None, 10, "a", 1), (None, 15, "a", 1), (None, 15, "b", 2)]
    assert over("[RANGE UNBOUNDED SLIDE 5 us]", events, "k, sum(x)", "GROUP BY k") == wanted


def test_since_a_landmark() -> None:
    assert over(f"[FROM {at(3)} SLIDE 5 us]", FIVE) == [(3, 5, 2, 50), (3, 10, 4, 140)]
    assert over(f"[FROM {at(4)} SLIDE 5 us]", FIVE) == [(4, 10, 2, 90)]
    assert over(f"[FROM {at(3)} SLIDE 3 TUPLES]", FIVE) == [(3, 3, 2, 50)]
    assert over(f"[FROM {at(3)}]", FIVE) == [(3, 3, 2, 50), (3, 7, 3, 90), (3, 9, 4, 140)]
    for slide in ("", " SLIDE 5 us", " SLIDE 1 TUPLE"):
        assert over(f"[FROM {at(10)}{slide}]", FIVE) == []


def test_now() -> None:
    assert over("[NOW]", FIVE) == [(1, 1, 1, 10), (3, 3, 2, 50), (7, 7, 1, 40), (9, 9, 1, 50)]


# WATTR

NUMBERED = [
    tick(1, "a", 10, seq=0),
    tick(2, "a", 20, seq=4),
    tick(3, "b", 30, seq=4),
    tick(4, "b", 40),
    tick(5, "a", 50, seq=11),
]
"""Numbers 0, 4, 4, NULL and 11."""


@pytest.mark.parametrize(
    ("window", "rows"),
    [
        ("[RANGE 6 SLIDE 5 WATTR seq]", [(-1, 5, 3, 60), (4, 10, 2, 50), (9, 15, 1, 50)]),
        ("[RANGE 5 SLIDE 5 OFFSET 1 WATTR seq]", [(-4, 1, 1, 10), (1, 6, 2, 50), (6, 11, 0, None), (11, 16, 1, 50)]),
        ("[RANGE 5 SLIDE 2 TUPLES WATTR seq]", [(-1, 4, 2, 30), (6, 11, 1, 50)]),
        ("[RANGE 5 WATTR seq]", [(-5, 0, 1, 10), (-1, 4, 3, 60), (0, 5, 2, 50), (4, 9, 0, None), (6, 11, 1, 50)]),
        ("[RANGE UNBOUNDED SLIDE 10 WATTR seq]", [(None, 10, 3, 60), (None, 20, 4, 110)]),
        ("[RANGE UNBOUNDED WATTR seq]", [(None, 0, 1, 10), (None, 4, 3, 60), (None, 11, 4, 110)]),
        ("[FROM 4 SLIDE 10 WATTR seq]", [(4, 10, 2, 50), (4, 20, 3, 100)]),
        ("[FROM 4 SLIDE 2 TUPLES WATTR seq]", [(4, 4, 1, 20), (4, 11, 3, 100)]),
        ("[NOW WATTR seq]", [(0, 0, 1, 10), (4, 4, 2, 50), (11, 11, 1, 50)]),
    ],
)
def test_windows_over_whole_numbers(window: str, rows: list[Row]) -> None:
    assert over(window, NUMBERED) == rows
    found: Answer = answer(parse_query(f"SELECT count(*) FROM ticks {window}"), TICKS, NUMBERED)
    assert found.types == (BIGINT, BIGINT, BIGINT)


def test_windows_over_another_time() -> None:
    events = [tick(1, x=1, seen=20), tick(2, x=2, seen=23), tick(3, x=4), tick(None, x=8, seen=24)]
    assert over("[RANGE 5 us SLIDE 5 us WATTR seen]", events) == [(20, 25, 2, 3)]
    assert over(f"[FROM {at(22)} WATTR seen]", events) == [(22, 23, 1, 2)]


def test_windows_over_days() -> None:
    events = [tick(1, x=1, day=0), tick(2, x=2, day=1), tick(3, x=4, day=1)]
    assert over("[RANGE 1 d SLIDE 1 d WATTR day]", events) == [(0, DAY, 1, 1), (DAY, 2 * DAY, 2, 6)]
    assert over("[FROM TIMESTAMP '1970-01-02' WATTR day]", events) == [(DAY, DAY, 2, 6)]


def test_a_window_over_a_column_is_in_the_order_of_the_column() -> None:
    events = [tick(1, x=1, seq=9), tick(2, x=2, seq=3), tick(3, x=3, seq=3)]
    assert over("[RANGE UNBOUNDED SLIDE 3 TUPLES WATTR seq]", events, "first(x), last(x)") == [(None, 9, 2, 1)]


# START AT, STOP AT


@pytest.mark.parametrize(
    ("window", "rows"),
    [
        ("[ROWS 2]", [(3, 3, 2), (3, 7, 2)]),
        ("[PARTITION BY k ROWS 1]", [(3, 3, 1), (3, 3, 2), (3, 7, 2)]),
        ("[RANGE 4 us SLIDE 1 TUPLE]", [(3, 7, 1)]),
        ("[RANGE 4 us]", [(3, 7, 1)]),
        ("[NOW]", [(3, 3, 2), (7, 7, 1)]),
        ("[RANGE UNBOUNDED SLIDE 4 us]", [(3, 4, 2), (3, 8, 3)]),
        ("[RANGE UNBOUNDED SLIDE 3 TUPLES]", [(3, 3, 2)]),
        ("[RANGE UNBOUNDED]", [(3, 3, 2), (3, 7, 3)]),
        (f"[FROM {at(3)}]", [(3, 3, 2), (3, 7, 3)]),
        (f"[FROM {at(1)}]", []),
    ],
)
def test_from_start_to_stop(window: str, rows: list[Row]) -> None:
    """Everything so far, and the last rows of each partition, count from the start on; other windows are answered when
    they begin there or later."""
    assert living(f"START AT {at(3)} STOP AT {at(8)}", window, FIVE) == rows


def test_empty_answers_begin_with_the_first_event_after_the_start() -> None:
    events = [tick(t) for t in (1, 20, 30)]
    assert living(f"START AT {at(10)}", "[RANGE 2 us]", events) == [(18, 20, 1), (20, 22, 0), (28, 30, 1)]


# Asked once


@pytest.mark.parametrize(
    ("window", "row"),
    [
        ("[RANGE 2 us]", (7, 9, 1, 50)),
        ("[RANGE 3 us]", (6, 9, 2, 90)),
        ("[ROWS 2]", (7, 9, 2, 90)),
        ("[ROWS 100]", (1, 9, 5, 150)),
        ("[PARTITION BY k ROWS 1]", (7, 9, 2, 90)),
        ("[RANGE UNBOUNDED]", (None, 9, 5, 150)),
        (f"[FROM {at(3)}]", (3, 9, 4, 140)),
        (f"[FROM {at(10)}]", (10, 9, 0, None)),
        ("[NOW]", (9, 9, 1, 50)),
        ("[RANGE 5 us SLIDE 4 us]", (3, 8, 3, 90)),
        ("[RANGE 4 us SLIDE 3 us]", (5, 9, 1, 40)),
        ("[RANGE 1 us SLIDE 6 us]", (5, 6, 0, None)),
        ("[RANGE UNBOUNDED SLIDE 4 us]", (None, 8, 4, 100)),
        ("[ROWS 2 SLIDE 2]", (3, 7, 2, 70)),
        ("[ROWS 2 SLIDE 4 us]", (3, 8, 2, 70)),
        ("[PARTITION BY k ROWS 1 SLIDE 4 us]", (3, 8, 2, 70)),
        ("[ROWS 2 SLIDE 20 us]", (None, 0, 0, None)),
        ("[RANGE 4 us SLIDE 2 TUPLES]", (3, 7, 1, 40)),
    ],
)
def test_asked_once(window: str, row: Row) -> None:
    """Now is 9, the time of the newest event. With SLIDE, the newest window that is complete."""
    assert once(window, FIVE) == [row]


def test_rows_updated_in_time() -> None:
    """Every 3 us, the last two events before: 3 is not before 3, and nothing comes between 3 and 6."""
    assert over("[ROWS 2 SLIDE 3 us]", FIVE) == [(1, 3, 1, 10), (3, 6, 2, 50), (3, 9, 2, 70), (7, 12, 2, 90)]
    assert over("[PARTITION BY k ROWS 1 SLIDE 3 us]", FIVE) == [
        (1, 3, 1, 10),
        (3, 6, 2, 50),
        (3, 9, 2, 70),
        (7, 12, 2, 90),
    ]


def test_asked_once_with_conditions_and_groups() -> None:
    assert once("[RANGE 100 us]", FIVE, "k, sum(x)", "GROUP BY k ORDER BY k DESC") == [
        (-91, 9, "b", 60),
        (-91, 9, "a", 90),
    ]
    assert once("[RANGE 100 us]", FIVE, tail="WHERE k = 'c'") == [(-91, 9, 0, None)]
    assert once("[RANGE 100 us]", FIVE, "k", "WHERE k = 'c' GROUP BY k") == []
    assert once("[ROWS 1 SLIDE 6]", FIVE) == []


@settings(max_examples=60)
@given(examples_of(kinds=("rows", "partitioned", "range by tuples", "now"), created=False))
def test_a_question_asked_once_is_the_last_answer_of_a_standing_query(example: Example) -> None:
    for text in example.queries:
        if " SLIDE " in text and parse_query(text).source.window.slide is not None:  # type: ignore[union-attr]
            continue  # a question is about the newest instant that is past, the last answer about one to come
        standing, asked = (f(parse_query(text), example.stream, example.events) for f in (answer, ask))
        assert (standing.names, standing.types) == (asked.names, asked.types)
        assert repr(standing.rows[len(standing.rows) - len(asked.rows) :]) == repr(asked.rows)
        grouped = " GROUP BY " in text or " HAVING " in text or " LIMIT " in text
        assert grouped or bool(asked.rows) == bool(standing.rows)


def test_asked_once_over_whole_numbers() -> None:
    assert once("[RANGE 8 WATTR seq]", NUMBERED) == [(3, 11, 3, 100)]
    assert once("[RANGE 8 SLIDE 5 WATTR seq]", NUMBERED) == [(2, 10, 2, 50)]
