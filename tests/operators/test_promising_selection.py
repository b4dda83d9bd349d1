"""The promising selection: by hand, then the reference on random streams, budgets and steps."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from mullion.instants import THE_END
from mullion.operators.keyed_sub_window import KeyedSubWindow
from mullion.options import Expiry
from mullion.reference.promising import told_in_steps
from networks import lives_of, reference_lives, same
from promising import as_told, events_of, ranges, selection, steps, streams, told, world_of

SIX = {"s1": events_of((10, 9), (10, 5), (10, 9), (10, 5), (10, 3), (10, 5))}
"""The tuples of stream 1 in Figure 1 of the paper: three 5s, two 9s and a 3 (ali 1.1)."""


def keys_told(order: str, by: str = "e", **budget: int) -> list[list[int]]:
    found, _ = told(selection(order, by=by, **budget), SIX, [20, 30, 50])
    return [[values[0] for _, values, _, _ in rows] for rows in found]


def test_the_most_frequent_the_rarest_and_a_sample() -> None:
    """Three of six rows in the first step, and the rest in the next one, unless it is a sample."""
    assert keys_told("desc", rows=3) == [[5, 5, 5], [9, 9, 3], []]
    assert keys_told("asc", rows=3) == [[9, 9, 3], [5, 5, 5], []]
    assert keys_told("asc", by="v", events=2) == [[9, 5], [9, 5], [3, 5]]
    assert keys_told("desc", rows=6) == keys_told("weighted", rows=6) == [[9, 5, 9, 5, 3, 5], [], []]
    first, *later = keys_told("weighted", rows=3)
    assert len(first) == 3 and later == [[], []]


def test_what_waits_leaves_with_its_window() -> None:
    """Rows of ten microseconds: of four, one a step is told, and the last one is over before its turn."""
    node = selection("desc", range_=10, by="v", rows=1)
    found, tallies = told(node, {"s1": events_of((0, 1), (1, 1), (2, 1), (3, 1))}, [4, 6, 11, 12, THE_END])
    assert [[row[1][1] for row in rows] for rows in found] == [[3], [2], [1], [], []]
    assert [tally["waiting"] for tally in tallies] == [3, 2, 0, 0, 0]
    assert all(row[3] == row[2] + 10 for rows in found for row in rows), "they say when they began"
    last = tallies[-1]
    assert (last["offered"], last["told"], last["expired"], last["shed"]) == (4, 3, 1, 0)


def test_what_waits_fades() -> None:
    """8 came first and waits; a granularity later it promises 4, which is less than the new 5."""
    events = {"s1": [{"k": 1, "v": 9, "ts": 0}, {"k": 1, "v": 8, "ts": 0}, {"k": 1, "v": 5, "ts": 30}]}
    for fade, wanted in ((1.0, [[9], [8], [5]]), (0.5, [[9], [5], [8]])):
        node = selection("desc", by="v", fade=fade, ages=(10,), rows=1)
        found, _ = told(node, events, [20, 40, 60])
        assert [[row[1][1] for row in rows] for rows in found] == wanted


BY = st.sampled_from(("e", "e * v", "v", "1", "-v", "e / (v - 3)"))
BUDGETS = st.one_of(
    st.builds(lambda n: {"rows": n}, st.integers(1, 12)), st.builds(lambda n: {"events": n}, st.integers(1, 12))
)
WHERE = st.sampled_from((None, None, "v % 3 <> 1", "k > 0"))
FADING = st.sampled_from(((1.0, ()), (0.5, (4,)), (0.8, (2, 10))))
ORDERS = st.sampled_from(("asc", "desc", "weighted"))


@given(streams, steps, ranges, ORDERS, BY, WHERE, BUDGETS, FADING, st.booleans())
def test_what_is_told_is_of_the_selection_once_and_the_most_promising(
    s1: list,
    nows: list[int],
    range_: int | None,
    order: str,
    by: str,
    where: str | None,
    budget: dict,
    fading: tuple,
    restarts: bool,
) -> None:
    node = selection(order, range_=range_, by=by, where=where, fade=fading[0], ages=fading[1], **budget)
    found, tallies = told(node, {"s1": s1}, nows, restarts=restarts)
    if order != "weighted":
        assert found == [as_told(rows) for rows in told_in_steps(world_of(node, {"s1": s1}), node, nows)]
    whole = as_told(world_of(node, {"s1": s1}).rows(node))
    rows = [row for some in found for row in some]
    assert len(set(rows)) == len(rows) and set(rows) <= set(whole)
    assert all(len(some) <= next(iter(budget.values())) for some in found)
    for tally in tallies:
        assert tally["offered"] == tally["told"] + tally["waiting"] + tally["expired"] + tally["shed"]
        assert order != "weighted" or not tally["waiting"]
    assert tallies[-1]["offered"] == len(whole) and tallies[-1]["told"] == len(rows)


@given(streams, steps, ranges, ORDERS, WHERE, st.booleans())
def test_without_shortage_it_is_the_selection(
    s1: list, nows: list[int], range_: int | None, order: str, where: str | None, restarts: bool
) -> None:
    for budget in ({"rows": 10_000}, {"events": 1_000}, {"time": 10**12}):
        node = selection(order, range_=range_, where=where, **budget)
        found, tallies = told(node, {"s1": s1}, nows, restarts=restarts)
        assert sorted((row for some in found for row in some), key=repr) == as_told(
            world_of(node, {"s1": s1}).rows(node)
        )
        assert tallies[-1]["offered"] == tallies[-1]["told"] and tallies[-1]["share"] == 1


@given(streams, steps, ranges, st.sampled_from(("asc", "desc")), st.integers(1, 9))
def test_values_with_equal_hashes_are_compared(s1: list, nows: list, range_: int | None, order: str, rows: int) -> None:
    node = selection(order, range_=range_, rows=rows)
    wanted = told(node, {"s1": s1}, nows)
    with patch.object(KeyedSubWindow, "is_clean", False):
        assert told(node, {"s1": s1}, nows) == wanted


@given(streams, steps, ranges, st.sampled_from(list(Expiry)))
def test_by_negative_tuples_all_rows_are_told(s1: list, nows: list[int], range_: int | None, strategy: str) -> None:
    """With enough time, and where they are told whole because rows end by negative tuples."""
    node = selection("desc", range_=range_, rows=1 if strategy is Expiry.NEGATIVE_TUPLES else 100)
    lives = (lives_of(node, {"s1": s1}, nows, strategy=strategy, restarts=True), reference_lives(node, {"s1": s1}))
    found, wanted = ([(values[:2], start, end) for values, start, end in own] for own in lives)
    assert same(found) == same(wanted)
