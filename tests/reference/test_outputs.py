"""What is told of aggregates and of other results, and when: examples worked out by hand."""

from __future__ import annotations

from mullion import reference
from mullion.algebra.nodes import Project, ResultWindow
from mullion.language.types import DOUBLE, INT, TIMESTAMP
from reference.plans import (
    NAN,
    STREAMS,
    A,
    B,
    ask,
    column,
    grouped,
    join,
    pick,
    relation,
    scan,
    states,
    streamed,
    where,
    window,
)

# Aggregates


def test_a_count_without_keys_is_told_over_nothing_too() -> None:
    """[RANGE 2 SLIDE 2] from the first to the last instant at which the window holds an event, filtered or not."""
    counted = grouped(where(scan(A, range=2, slide=2), "v > 0"), "count(*)", "sum(v)", slide=2)
    events = [(1, 1, 0.0), (3, 1, 1.0), (7, 1, 0.0)]
    asked = relation(counted, slide=2, longest=2)
    assert ask(asked, a=events) == [(0, 2, 0, None), (2, 4, 1, 1.0), (4, 6, 0, None), (6, 8, 0, None)]


def test_a_count_is_told_where_a_window_holds_an_event() -> None:
    """[RANGE 2 SLIDE 5] never sees the events of 1 and 12."""
    asked = relation(grouped(scan(A, range=2, slide=5), "count(*)", slide=5), slide=5, longest=2)
    assert ask(asked, a=[(1, 1, 0.0), (12, 1, 0.0)]) == []
    assert ask(asked, a=[(1, 1, 0.0), (4, 1, 0.0), (12, 1, 0.0), (19, 1, 0.0)]) == [
        (3, 5, 1),
        (8, 10, 0),
        (13, 15, 0),
        (18, 20, 1),
    ]


def test_groups_are_there_while_they_have_rows() -> None:
    counted = grouped(scan(A, range=4), "count(*)", keys=["k"])
    events = [(0, 1, 0.0), (1, 2, 0.0), (2, 1, 0.0)]
    assert states(counted, a=events) == {
        0: [(1, 1)],
        1: [(1, 1), (2, 1)],
        2: [(2, 1), (1, 2)],
        4: [(2, 1), (1, 1)],
        5: [(1, 1)],
    }


def test_an_aggregate_that_does_not_change_is_not_told_again() -> None:
    tops = grouped(scan(A, unbounded=True), "max(v)")
    assert ask(relation(tops), a=[(0, 1, 5.0), (1, 1, 3.0), (2, 1, 7.0)]) == [(None, 0, 5.0), (None, 2, 7.0)]


def test_an_aggregate_over_a_join() -> None:
    joined = join(scan(A, range=4, slide=2), scan(B, range=2, slide=2))
    renamed = Project(joined, (("k", column("0.k"), INT), ("v", column("0.v"), DOUBLE)))
    asked = relation(grouped(renamed, "sum(v)", "count(*)", keys=["k"], slide=2), slide=2, longest=4)
    events = {"a": [(0, 1, 1.0), (1, 1, 2.0)], "b": [(1, 1, 0.0), (2, 1, 0.0), (3, 1, 0.0)]}
    assert ask(asked, **events) == [(-2, 2, 1, 3.0, 2), (0, 4, 1, 6.0, 4)]


# Output


def test_figure_3_4_results_between_two_evaluations() -> None:
    """Evaluated at 10 and 20. t1 lives 5..15, t2 15..25, and t3 12..18, between the two: RESTORE tells it at 20.

    Lives as long as those need two windows: t1 and t2 are pairs with long-lived partners, t3 with one that leaves soon.
    """
    a, b = scan(A, range=10), scan(B, range=10)
    joined = pick(join(a, b), "0.v")
    events = {
        "a": [(5, 1, 1.0), (15, 2, 2.0), (8, 3, 3.0)],
        "b": [(5, 1, 0.0), (15, 2, 0.0), (12, 3, 0.0)],
    }
    assert ask(relation(joined), **events) == [
        (None, 5, 1.0, 5, 15),
        (None, 12, 3.0, 12, 18),
        (None, 15, 2.0, 15, 25),
    ]
    periodic = {"slide": 10, "longest": 10}
    assert ask(relation(joined, **periodic), **events) == [(0, 10, 1.0, 5, 15), (10, 20, 2.0, 15, 25)]
    for output in ("rstream", "istream"):
        assert ask(relation(joined, **periodic, output=output, restore=True), **events) == [
            (0, 10, 1.0, 5, 15),
            (10, 20, 3.0, 12, 18),
            (10, 20, 2.0, 15, 25),
        ]


def test_istream_and_dstream_compare_with_the_instant_before() -> None:
    """By value: the second 1 is new at 10; the equal row that follows the first at 20 is not."""
    rows = pick(scan(A, range=10, slide=5), "k")
    events = [(0, 1, 0.0), (6, 1, 0.0), (11, 1, 0.0), (12, 2, 0.0)]
    new = relation(rows, slide=5, output="istream", longest=10)
    old = relation(rows, slide=5, output="dstream", longest=10)
    assert [row[1:3] for row in ask(new, a=events)] == [(5, 1), (10, 1), (15, 2)]
    assert [row[1:3] for row in ask(old, a=events)] == [(20, 1), (25, 1), (25, 2)]


def test_istream_of_a_continuous_query() -> None:
    rows = pick(scan(A, range=5), "k")
    events = [(0, 1, 0.0), (5, 1, 0.0), (6, 2, 0.0)]
    assert [row[1:3] for row in ask(relation(rows, output="istream"), a=events)] == [(0, 1), (6, 2)]
    assert [row[1:3] for row in ask(relation(rows, output="dstream"), a=events)] == [(10, 1), (11, 2)]


def test_wstream_is_a_window_over_new_results() -> None:
    """The last two results of a join, however long they would have lived."""
    joined = pick(join(scan(A, range=3), scan(B, range=3)), "0.v")
    events = {"a": [(0, 1, 1.0), (1, 1, 2.0), (9, 1, 3.0)], "b": [(2, 1, 0.0), (9, 1, 0.0)]}
    last = window(rows=2, slide_rows=1)
    wanted = [(2, 1.0), (2, 2.0), (9, 2.0), (9, 3.0)]
    for root in (joined, ResultWindow(joined, last)):
        asked = relation(root, output="wstream", output_window=last)
        assert [row[1:3] for row in ask(asked, **events)] == wanted


def test_order_and_limit() -> None:
    rows = pick(scan(A, range=10, slide=10), "k", "v")
    order = ((column("v"), True, False),)
    asked = relation(rows, slide=10, longest=10, order_by=order, limit=2, names=("k",))
    events = [(0, 1, 1.0), (1, 2, None), (2, 3, 3.0), (3, 4, NAN)]
    assert ask(asked, a=events) == [(0, 10, 4, 3, 13), (0, 10, 3, 2, 12)]


def test_start_and_stop() -> None:
    rows = pick(scan(A, range=10, slide=5), "k")
    events = [(0, 1, 0.0), (6, 2, 0.0)]
    asked = relation(rows, slide=5, longest=10, start=0, stop=10)
    assert [row[:3] for row in ask(asked, a=events)] == [(0, 10, 1), (0, 10, 2)]


def test_a_query_that_joins_late_finds_everything_new() -> None:
    rows = pick(scan(A, range=10, slide=5), "k")
    asked = relation(rows, slide=5, longest=10, start=0, output="istream")
    assert [row[1:3] for row in ask(asked, a=[(0, 1, 0.0), (6, 2, 0.0)])] == [(10, 1), (10, 2)]


def test_columns() -> None:
    found = reference.answer(relation(pick(scan(A, rows=1, slide_rows=1), "k")), STREAMS, streamed())
    assert found.names == ("window_start", "window_end", "k", "inserted_at", "expires_at", "sign")
    assert found.types == (TIMESTAMP, TIMESTAMP, INT, TIMESTAMP, TIMESTAMP, INT)
    found = reference.answer(relation(pick(scan(A, range=1), "k")), STREAMS, streamed())
    assert found.names == ("window_start", "window_end", "k", "inserted_at", "expires_at")
    found = reference.answer(relation(grouped(scan(A, range=1), "count(*)")), STREAMS, streamed())
    assert found.names == ("window_start", "window_end", "#a0")
