"""EXCEPT ALL over windows: small examples, and all strategies against all moments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changing import (
    COUNTED,
    STEPS,
    TIMED,
    Life,
    Row,
    Told,
    by_negative_tuples,
    canonical,
    delta,
    play,
    relations,
    rows_of,
    same,
)
from mullion.algebra.nodes import Difference
from mullion.instants import EVER_BEFORE
from mullion.operators.construction import Construction
from mullion.operators.difference import DifferenceOperator
from mullion.options import Expiry

A, B = (1, 0.0), (2, 0.0)


def operator(strategy: str, *, strict: bool = False) -> Callable[[], DifferenceOperator]:
    side = COUNTED if strict else TIMED
    return lambda: DifferenceOperator(Difference(side, side), [Told(), Told()], Construction(Expiry(strategy)))


def test_the_youngest_stay_and_the_oldest_comes_back() -> None:
    """Golab 2.2.2: an arrival on the right deletes the oldest result, an expiry there appends one again."""
    left, right = rows_of((A, 0, 20), (A, 2, 22), (B, 3, 23)), rows_of((A, 5, 9))
    difference = operator("upa")()
    told = difference.advance([delta(left, EVER_BEFORE, 4), delta(right, EVER_BEFORE, 4)], 4)
    assert told.fresh.end.tolist() == [20, 22, 23]
    told = difference.advance([delta(left, 4, 8), delta(right, 4, 8)], 8)
    assert (told.retracted.ids.tolist(), told.retracted.at.tolist()) == ([[0, 0]], [5]) and not len(told.fresh)
    told = difference.advance([delta(left, 8, 12), delta(right, 8, 12)], 12)
    assert (told.fresh.ids.tolist(), told.fresh.start.tolist(), told.fresh.end.tolist()) == ([[0, 9]], [9], [20])


def test_one_more_on_the_left_is_there_whichever_came_first() -> None:
    left, right = rows_of((A, 0, 20), (A, 6, 26)), rows_of((A, 5, 30))
    assert play(operator("upa"), [left, right], [60]) == [(A, 0, 5), (A, 6, 20)]


def test_an_excluded_row_that_ends_excludes_the_next() -> None:
    """The second row is there while the first is excluded in its stead."""
    left, right = rows_of((A, 0, 10), (A, 2, 12)), rows_of((A, 4, 40))
    assert play(operator("upa"), [left, right], [60]) == [(A, 0, 4), (A, 2, 10)]


def test_rows_that_change_places_at_one_time_do_not_come_and_go() -> None:
    left, right = rows_of((A, 0, 10)), rows_of((A, 2, 4), (A, 4, 6))
    assert play(operator("upa"), [left, right], [60]) == [(A, 0, 2), (A, 6, 10)]


def by_all_moments(left: Sequence[Row], right: Sequence[Row]) -> list[Life]:
    since: dict[int, int] = {}
    lives: list[Life] = []
    for moment in range(60):
        there = defaultdict(list)
        for row in left:
            if row.start <= moment < row.end:
                there[canonical(row.values)].append(row)
        shown = set()
        for values, rows in there.items():
            others = sum(o.start <= moment < o.end and canonical(o.values) == values for o in right)
            youngest = sorted(rows, key=lambda row: (row.start, row.id), reverse=True)
            shown |= {row.id for row in youngest[: max(len(rows) - others, 0)]}
        for row in left:
            if row.id in shown:
                since.setdefault(row.id, moment)
            elif row.id in since:
                lives.append((row.values, since.pop(row.id), moment))
    return lives


@pytest.mark.parametrize("strategy", ["upa", "scan"])
@settings(max_examples=20)
@given(left=relations(strict=False), right=relations(strict=False), times=STEPS, restarts=st.booleans())
def test_right_at_all_moments(
    left: list[Row], right: list[Row], times: list[int], restarts: bool, strategy: str
) -> None:
    told = play(operator(strategy), [left, right], times, restarts=restarts)
    assert same(told) == same(by_all_moments(left, right))


@pytest.mark.parametrize("strategy", ["upa", "nt", "scan"])
@settings(max_examples=20)
@given(left=relations(strict=True), right=relations(strict=True), times=STEPS, restarts=st.booleans())
def test_right_at_all_moments_over_strict_inputs(
    left: list[Row], right: list[Row], times: list[int], restarts: bool, strategy: str
) -> None:
    told = play(operator(strategy, strict=True), [left, right], times, restarts=restarts)
    assert same(told) == same(by_all_moments(left, right))


ONE_VALUE = st.just((1, 0.0))


@settings(max_examples=20)
@given(relations(strict=False, values=ONE_VALUE), relations(strict=False, values=ONE_VALUE), STEPS, st.booleans())
def test_negative_tuples_give_the_same(left: list[Row], right: list[Row], times: list[int], restarts: bool) -> None:
    told = play(operator("nt"), [by_negative_tuples(left), by_negative_tuples(right)], times, restarts=restarts)
    assert same(told) == same(by_all_moments(left, right))
    assert same(play(operator("upa"), [left, right], times)) == same(told)


def test_what_has_ended_is_forgotten() -> None:
    difference = operator("upa")()
    left = rows_of(*(((i, 0.0), i, i + 10) for i in range(20_000)))
    for before in range(0, 20_000, 2_000):
        now = before + 2_000
        difference.advance([delta(left, before, now), delta(left[::2], before, now)], now)
    assert len(difference._values) <= 11
    assert difference.rows_held < 10_000
