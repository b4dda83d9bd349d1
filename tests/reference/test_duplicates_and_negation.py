"""The meaning of DISTINCT, NOT EXISTS and EXCEPT ALL: examples worked out by hand."""

from __future__ import annotations

from mullion.algebra.nodes import Difference, Distinct, Project
from mullion.language.types import DOUBLE
from reference.plans import NAN, A, B, ask, column, negation, pick, relation, scan, states

# Duplicate elimination (golab 3.5.2)


def test_distinct_hands_over_to_the_youngest_row() -> None:
    """Rows of one value at 0, 2, 6 in a window of 8: the first lives until 8, then the one of 6 until 14."""
    asked = relation(Distinct(pick(scan(A, range=8), "k")))
    assert ask(asked, a=[(0, 1, 0.0), (2, 1, 0.0), (6, 1, 0.0), (20, 1, 0.0)]) == [
        (None, 0, 1, 0, 8),
        (None, 8, 1, 8, 14),
        (None, 20, 1, 20, 28),
    ]


def test_a_row_that_comes_as_another_ends_waits_for_the_one_that_takes_over() -> None:
    asked = relation(Distinct(pick(scan(A, range=8), "k")))
    assert ask(asked, a=[(0, 1, 0.0), (3, 1, 0.0), (8, 1, 0.0)]) == [
        (None, 0, 1, 0, 8),
        (None, 8, 1, 8, 11),
        (None, 11, 1, 11, 16),
    ]
    assert ask(asked, a=[(0, 1, 0.0), (8, 1, 0.0)]) == [(None, 0, 1, 0, 8), (None, 8, 1, 8, 16)]


def test_distinct_over_rows_counts() -> None:
    """Over strict input: there from the first to the last moment that any equal row is."""
    asked = relation(Distinct(pick(scan(A, rows=2, slide_rows=1), "k")))
    assert ask(asked, a=[(1, 7, 0.0), (2, 8, 0.0), (3, 7, 0.0), (4, 8, 0.0), (5, 8, 0.0)]) == [
        (None, 1, 7, 1, None, 1),
        (None, 2, 8, 2, None, 1),
        (None, 5, 7, 1, None, -1),
    ]


def test_nulls_nans_and_zeros_are_one_value_each() -> None:
    values = [None, NAN, 0.0, None, NAN, -0.0]
    asked = Distinct(pick(scan(A, range=9), "v"))
    found = ask(relation(asked), a=[(0, 1, v) for v in values])
    assert len(found) == 3


# AntiJoin and difference (golab 2.2.2)


def test_negation_ends_rows_early_and_brings_them_back() -> None:
    """a lives 0..10. b comes at 3 and leaves at 7: a is there 0..3, told as -1 at 3, and again 7..10."""
    asked = relation(pick(negation(scan(A, range=10), scan(B, range=4)), "k"))
    assert ask(asked, a=[(0, 1, 0.0)], b=[(3, 1, 0.0)]) == [
        (None, 0, 1, 0, None, 1),
        (None, 3, 1, 0, None, -1),
        (None, 7, 1, 7, None, 1),
        (None, 10, 1, 7, None, -1),
    ]


def test_negation_keeps_duplicates_and_null_keys() -> None:
    denied = pick(negation(scan(A, range=10), scan(B, range=10)), "k")
    events = {"a": [(0, 1, 0.0), (0, 1, 0.0), (0, None, 0.0), (0, 2, 0.0)], "b": [(1, None, 0.0), (1, 2, 0.0)]}
    assert states(denied, **events) == {0: [1, 1, None, 2], 1: [1, 1, None]}


def test_one_right_row_follows_another_at_once() -> None:
    """Between a b that leaves at 4 and one that comes at 4 there is no moment without b."""
    asked = relation(pick(negation(scan(A, range=10), scan(B, range=4)), "k"))
    assert ask(asked, a=[(0, 1, 0.0)], b=[(0, 1, 0.0), (4, 1, 0.0)]) == [
        (None, 8, 1, 8, None, 1),
        (None, 10, 1, 8, None, -1),
    ]


def test_multiplicities_of_section_2_2_2() -> None:
    """v3 = v1 - v2. Three on the left at 0, 1, 2; on the right one at 3 and one at 4, which live 2 each: the oldest of
    the left go first, and the youngest comes back first."""
    left, right = pick(scan(A, range=100), "k"), pick(scan(B, range=2), "k")
    events = {"a": [(0, 1, 0.0), (1, 1, 0.0), (2, 1, 0.0)], "b": [(3, 1, 0.0), (4, 1, 0.0)]}
    assert ask(relation(Difference(left, right)), **events) == [
        (None, 0, 1, 0, None, 1),
        (None, 1, 1, 1, None, 1),
        (None, 2, 1, 2, None, 1),
        (None, 3, 1, 0, None, -1),
        (None, 4, 1, 1, None, -1),
        (None, 5, 1, 5, None, 1),
        (None, 6, 1, 6, None, 1),
        (None, 100, 1, 6, None, -1),
        (None, 101, 1, 5, None, -1),
        (None, 102, 1, 2, None, -1),
    ]
    counts = {t: len(rows) for t, rows in states(Difference(left, right), **events).items()}
    assert counts == {0: 1, 1: 2, 2: 3, 3: 2, 4: 1, 5: 2, 6: 3, 100: 2, 101: 1}


def test_there_are_never_fewer_than_none() -> None:
    left, right = pick(scan(A, range=9), "v"), pick(scan(B, range=9), "w")
    renamed = Project(right, (("v", column("w"), DOUBLE),))
    events = {"a": [(0, 1, None), (0, 1, NAN), (0, 1, 1.0)], "b": [(0, 1, None), (0, 1, None), (0, 1, NAN)]}
    assert states(Difference(left, renamed), **events) == {0: [1.0]}
