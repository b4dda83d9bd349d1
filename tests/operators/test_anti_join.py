"""NOT EXISTS over windows: small examples, and all strategies against all moments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
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
from mullion.algebra.nodes import AntiJoin
from mullion.instants import EVER_BEFORE, FOREVER, NEVER
from mullion.language.query import Column
from mullion.operators.anti_join import AntiJoinOperator
from mullion.operators.construction import Construction
from mullion.operators.kernels.anti_join import KeyChanges, presence_changes
from mullion.operators.kernels.expiry_heap import Heap
from mullion.options import Expiry

A, B = (1, 0.0), (2, 0.0)
K, V = Column("k"), Column("v")


def operator(
    strategy: str, *, left: bool = False, right: bool = False, keys: Sequence[Column] = (K,)
) -> Callable[[], AntiJoinOperator]:
    """`left` and `right`: which inputs are strict."""
    node = AntiJoin(COUNTED if left else TIMED, COUNTED if right else TIMED, tuple(keys), tuple(keys))
    return lambda: AntiJoinOperator(node, [Told(), Told()], Construction(Expiry(strategy)))


def test_a_row_of_the_right_ends_a_result_and_its_end_brings_it_back() -> None:
    """Golab 2.2.2: an arrival on the right deletes a result that was told, an expiry appends one."""
    left, right = rows_of((A, 0, 20), (B, 1, 21)), rows_of((A, 5, 9))
    negation = operator("upa")()
    told = negation.advance([delta(left, EVER_BEFORE, 4), delta(right, EVER_BEFORE, 4)], 4)
    assert told.fresh.end.tolist() == [20, 21] and not len(told.retracted)
    told = negation.advance([delta(left, 4, 7), delta(right, 4, 7)], 7)
    assert told.retracted.ids.tolist() == [[0, 0]] and told.retracted.at.tolist() == [5] and not len(told.fresh)
    told = negation.advance([delta(left, 7, 12), delta(right, 7, 12)], 12)
    assert (told.fresh.start.tolist(), told.fresh.end.tolist(), told.fresh.ids.tolist()) == ([9], [20], [[0, 9]])
    assert told.fresh.rows.to_pylist() == [{"k": 1, "v": 0.0}] and not len(told.retracted)


def test_within_one_step_a_row_that_ends_early_is_simply_told_so() -> None:
    left, right = rows_of((A, 0, 20)), rows_of((A, 5, 9), (A, 7, 12), (A, 12, 14))
    told = operator("upa")().advance([delta(left, EVER_BEFORE, 30), delta(right, EVER_BEFORE, 30)], 30)
    assert list(zip(told.fresh.start.tolist(), told.fresh.end.tolist(), strict=True)) == [(0, 5), (14, 20)]
    assert not len(told.retracted)


def test_duplicates_of_the_left_stay() -> None:
    assert play(operator("upa"), [rows_of((A, 0, 9), (A, 0, 9)), rows_of((B, 0, 9))], [60]) == [(A, 0, 9)] * 2


def test_a_row_that_starts_as_coverage_ends_is_there_from_then_on() -> None:
    assert play(operator("upa"), [rows_of((A, 9, 20)), rows_of((A, 0, 9))], [60]) == [(A, 9, 20)]


def test_nulls_equal_nothing() -> None:
    left, right = rows_of(((None, 1.0), 0, 20)), rows_of(((None, 1.0), 5, 9))
    for strategy in ("upa", "nt", "scan"):
        assert play(operator(strategy), [left, right], [3, 7, 60]) == [((None, 1.0), 0, 20)]
        assert play(operator(strategy, keys=(K, V)), [left, right], [3, 7, 60]) == [((None, 1.0), 0, 20)]


def test_without_keys_any_row_of_the_right_will_do() -> None:
    assert play(operator("upa", keys=()), [rows_of((A, 0, 20)), rows_of((B, 5, 9))], [60]) == [(A, 0, 5), (A, 9, 20)]


def by_all_moments(left: Sequence[Row], right: Sequence[Row], keys: int) -> list[Life]:
    lives: list[Life] = []
    for row in left:
        key, since = canonical(row.values)[:keys], None
        covers = [other for other in right if canonical(other.values)[:keys] == key and None not in key]
        for moment in range(60):
            there = row.start <= moment < row.end and not any(o.start <= moment < o.end for o in covers)
            if there and since is None:
                since = moment
            if not there and since is not None:
                lives.append((row.values, since, moment))
                since = None
    return lives


@pytest.mark.parametrize("strategy", ["upa", "scan"])
@settings(max_examples=20)
@given(
    left=relations(strict=False), right=relations(strict=False), times=STEPS, restarts=st.booleans(), two=st.booleans()
)
def test_right_at_all_moments(
    left: list[Row], right: list[Row], times: list[int], restarts: bool, two: bool, strategy: str
) -> None:
    made = operator(strategy, keys=(K, V) if two else (K,))
    assert same(play(made, [left, right], times, restarts=restarts)) == same(by_all_moments(left, right, 1 + two))


@pytest.mark.parametrize("strategy", ["upa", "nt", "scan"])
@settings(max_examples=20)
@given(
    left=relations(strict=True), right=relations(strict=True), times=STEPS, restarts=st.booleans(), two=st.booleans()
)
def test_right_at_all_moments_over_strict_inputs(
    left: list[Row], right: list[Row], times: list[int], restarts: bool, two: bool, strategy: str
) -> None:
    made = operator(strategy, left=True, right=True, keys=(K, V) if two else (K,))
    assert same(play(made, [left, right], times, restarts=restarts)) == same(by_all_moments(left, right, 1 + two))


@settings(max_examples=20)
@given(relations(strict=False), relations(strict=False), STEPS, st.booleans())
def test_negative_tuples_give_the_same(left: list[Row], right: list[Row], times: list[int], restarts: bool) -> None:
    told = play(operator("nt"), [by_negative_tuples(left), by_negative_tuples(right)], times, restarts=restarts)
    assert same(told) == same(by_all_moments(left, right, 1))


@settings(max_examples=20)
@given(relations(strict=False), relations(strict=False), STEPS)
def test_a_hash_finds_what_a_scan_does(left: list[Row], right: list[Row], times: list[int]) -> None:
    def hashed() -> AntiJoinOperator:
        negation = operator("upa")()
        negation._left.use_keys(True)
        return negation

    assert same(play(hashed, [left, right], times)) == same(play(operator("upa"), [left, right], times))


def many(keys: Callable[[int], int], count: int, length: int) -> list[Row]:
    return rows_of(*(((keys(i), 0.0), i, i + length) for i in range(count)))


@pytest.mark.slow
def test_the_calendar_stays_when_nothing_ends_early_and_the_hash_is_chosen_when_the_right_ends_much() -> None:
    apart, meeting = operator("upa")(), operator("upa")()
    left = many(lambda i: i % 97, 4_000, 3_000)
    for negation, right in ((apart, many(lambda i: 0, 0, 0)), (meeting, many(lambda i: i % 89, 4_000, 3))):
        for before in range(0, 4_000, 20):
            now = before + 20
            negation.advance([delta(left, before, now), delta(right, before, now)], now)
    assert apart.chosen == "calendar" and not apart.seen.ended.value
    assert meeting.chosen == "hash" and (meeting.seen.ended.value or 0) > 0.2


def test_keys_that_have_gone_are_forgotten() -> None:
    negation = operator("upa")()
    left, right = many(lambda i: i, 30_000, 10), many(lambda i: i + 1_000_000, 30_000, 10)
    for before in range(0, 30_000, 3_000):
        now = before + 3_000
        negation.advance([delta(left, before, now), delta(right, before, now)], now)
    assert negation._keys.room < 16_000
    assert negation.rows_held < 8_000


def test_only_the_end_of_presence_is_kept() -> None:
    until = np.full(1, NEVER)
    expiries = Heap(np.empty(8, np.int64), np.empty(8, np.int64))
    changes = KeyChanges(np.empty(8, np.int64), np.empty(8, np.int64), np.empty(8, np.bool_))
    rows = np.array([0, 0, 0, 0]), np.array([0, 2, 9, 13]), np.array([9, 5, 11, FOREVER])
    count, size = presence_changes(*rows, 50, until, expiries, 0, changes)
    times, on = changes.time[:count].tolist(), changes.on[:count].tolist()
    assert list(zip(times, on, strict=True)) == [(0, True), (11, False), (13, True)]
    assert size == 1 and until.tolist() == [FOREVER]
