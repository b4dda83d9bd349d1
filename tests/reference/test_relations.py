"""The meaning of relations: windows, joins, compositions and tables, in examples worked out by hand."""

from __future__ import annotations

from mullion.algebra.lookups import Lookup
from mullion.algebra.nodes import Distinct, Filter, Join, Node, Project, Scan, TableLookup, Union
from mullion.language.types import DOUBLE, INT
from reference.plans import (
    NAN,
    A,
    B,
    C,
    T,
    ask,
    column,
    expr,
    grouped,
    join,
    negation,
    pick,
    relation,
    scan,
    states,
    where,
    window,
)

# Windows


def test_rows_of_a_time_window_live_for_its_range() -> None:
    asked = relation(pick(scan(A, range=10), "k"), longest=10)
    assert ask(asked, a=[(3, 1, 0.0), (5, 2, 0.0)]) == [(-7, 3, 1, 3, 13), (-5, 5, 2, 5, 15)]


def test_a_periodic_query_sees_what_lives_just_before_an_instant() -> None:
    """[RANGE 4 SLIDE 5]: at t the events with t - 4 <= ts < t, and no answer where there is none."""
    asked = relation(pick(scan(A, range=4, slide=5), "k"), slide=5, longest=4)
    events = [(0, 1, 0.0), (1, 2, 0.0), (5, 3, 0.0), (6, 4, 0.0), (-1, 5, 0.0)]
    assert ask(asked, a=events) == [(-4, 0, 5, -1, 3), (1, 5, 2, 1, 5), (6, 10, 4, 6, 10)]


def test_a_row_window_holds_the_last_rows() -> None:
    events = [(1, 1, 0.0), (2, 2, 0.0), (4, 3, 0.0), (4, 4, 0.0)]
    assert states(pick(scan(A, rows=2, slide_rows=1), "k"), a=events) == {1: [1], 2: [1, 2], 4: [3, 4]}
    assert states(pick(scan(A, rows=1, slide_rows=2), "k"), a=events) == {2: [2], 4: [4]}
    assert states(pick(scan(A, rows=3, slide_rows=2), "k"), a=events) == {2: [1, 2], 4: [2, 3, 4]}


def test_a_row_window_does_not_know_when_its_rows_end() -> None:
    """Strict: expires_at is not known, and a row that leaves is told with sign -1."""
    asked = relation(pick(scan(A, rows=1, slide_rows=1), "k"))
    assert ask(asked, a=[(1, 7, 0.0), (5, 8, 0.0)]) == [
        (None, 1, 7, 1, None, 1),
        (None, 5, 7, 1, None, -1),
        (None, 5, 8, 5, None, 1),
    ]


def test_partitions_keep_the_last_rows_of_each_key() -> None:
    events = [(1, 1, 1.0), (2, 1, 2.0), (3, 2, 3.0), (4, 1, 4.0), (5, None, 5.0), (6, None, 6.0)]
    found = states(pick(scan(A, partition="k", rows=1, slide_rows=1), "v"), a=events)
    assert found == {1: [1.0], 2: [2.0], 3: [2.0, 3.0], 4: [3.0, 4.0], 5: [3.0, 4.0, 5.0], 6: [3.0, 4.0, 6.0]}


def test_unbounded_landmark_and_now() -> None:
    events = [(1, 1, 0.0), (5, 2, 0.0), (5, 3, 0.0)]
    assert states(pick(scan(A, unbounded=True), "k"), a=events) == {1: [1], 5: [1, 2, 3]}
    assert states(pick(Scan("a", window(since=2), A.columns), "k"), a=events) == {5: [2, 3]}
    assert states(pick(scan(A, now=True), "k"), a=events) == {1: [1], 5: [2, 3]}


def test_events_without_time_are_dropped_and_the_others_ordered() -> None:
    events = [(5, 1, 0.0), (None, 2, 0.0), (1, 3, 0.0), (5, 4, 0.0)]
    assert states(pick(scan(A, unbounded=True), "k"), a=events) == {1: [3], 5: [3, 1, 4]}


def test_everything_so_far_is_answered_until_the_first_instant_after_all_events() -> None:
    asked = relation(pick(scan(A, unbounded=True, slide=5), "k"), slide=5)
    assert ask(asked, a=[(1, 1, 0.0), (12, 2, 0.0)]) == [
        (None, 5, 1, 1, None),
        (None, 10, 1, 1, None),
        (None, 15, 1, 1, None),
        (None, 15, 2, 12, None),
    ]


# Joins


def test_a_join_expires_with_the_first_of_its_parts() -> None:
    """golab 2.3.2: min(exp, exp')."""
    joined = join(scan(A, range=10), scan(B, range=4))
    asked = relation(pick(joined, "0.k", "0.v", "1.w"), longest=10)
    events = {"a": [(0, 1, 0.5), (9, 1, 0.75)], "b": [(8, 1, 2.0), (9, 2, 3.0)]}
    assert ask(asked, **events) == [(-2, 8, 1, 0.5, 2.0, 8, 10), (-1, 9, 1, 0.75, 2.0, 9, 12)]


def test_rows_meet_only_when_both_live() -> None:
    joined = pick(join(scan(A, range=5), scan(B, range=5)), "0.k")
    assert ask(relation(joined), a=[(0, 1, 0.0)], b=[(5, 1, 0.0)]) == []
    assert ask(relation(joined), a=[(0, 1, 0.0)], b=[(4, 1, 0.0)]) == [(None, 4, 1, 4, 5)]


def test_keys_of_a_join() -> None:
    """NULL equals nothing, NaN equals NaN, and zeros of either sign are equal."""
    joined = Join((scan(A, range=9), scan(B, range=9)), ((column("v"),), (column("w"),)))
    events = {"a": [(0, 1, NAN), (0, 2, -0.0), (0, 3, None)], "b": [(0, 1, NAN), (0, 2, 0.0), (0, 3, None)]}
    assert [row[2:4] for row in ask(relation(pick(joined, "0.k", "1.k")), **events)] == [(1, 1), (2, 2)]


def test_a_join_of_three_with_a_residual() -> None:
    parts = scan(A, range=9), scan(B, range=8), scan(C, range=7)
    joined = join(*parts, residual="`0.v` < `2.x`")
    events = {"a": [(0, 1, 1.0), (1, 1, 5.0)], "b": [(2, 1, 0.0), (3, 2, 0.0)], "c": [(4, 1, 3.0)]}
    assert ask(relation(pick(joined, "0.v", "2.x")), **events) == [(None, 4, 1.0, 3.0, 4, 9)]


# Internal and external windows (golab 3.3.2, Figure 3.2)


def test_figure_3_2_four_windows_of_a_sum() -> None:
    """A sum over [ROWS 5] or over everything. External: a new sum replaces the one before. Internal: sums stay."""
    events = [(n, 0, float(n)) for n in range(1, 8)]
    sliding = [1.0, 3.0, 6.0, 10.0, 15.0, 20.0, 25.0]
    endless = [1.0, 3.0, 6.0, 10.0, 15.0, 21.0, 28.0]
    for sums, given in ((sliding, {"rows": 5, "slide_rows": 1}), (endless, {"unbounded": True})):
        external = states(grouped(scan(A, **given), "sum(v)"), a=events)
        internal = states(grouped(scan(A, **given, internal=True), "sum(v)"), a=events)
        assert external == {n: [sums[n - 1]] for n in range(1, 8)}
        assert internal == {n: sums[:n] for n in range(1, 8)}


def test_internal_windows_pair_as_external_ones_but_their_results_stay() -> None:
    events = {"a": [(0, 1, 0.0)], "b": [(4, 1, 1.0), (5, 1, 2.0)]}
    both = join(scan(A, range=5, internal=True), scan(B, range=5, internal=True))
    assert ask(relation(pick(both, "1.w")), **events) == [(None, 4, 1.0, 4, None)]
    one = join(scan(A, range=5, internal=True), scan(B, range=5))
    assert ask(relation(pick(one, "1.w")), **events) == [(None, 4, 1.0, 4, 9)]
    alone = scan(A, range=5, internal=True)
    assert ask(relation(pick(alone, "k")), **events) == [(None, 0, 1, 0, None)]


def test_figure_3_3_a_join_in_a_join_keeps_the_windows_of_internal_parts() -> None:
    """A new c must not find the pair of a and b after their windows let them go, though the pair is still shown."""
    pair = join(scan(A, range=5, internal=True), scan(B, range=5, internal=True))
    three = Join((pair, scan(C, range=5, internal=True)), ((column("0.k"),), (column("k"),)))
    events = {"a": [(0, 1, 0.0)], "b": [(3, 1, 0.0)]}
    assert ask(relation(pick(three, "1.k")), **events, c=[(4, 1, 0.0)]) == [(None, 4, 1, 4, None)]
    assert ask(relation(pick(three, "1.k")), **events, c=[(5, 1, 0.0)]) == []


# Compositions


def test_negation_over_a_join_and_a_join_over_a_negation() -> None:
    pair = join(scan(A, range=10), scan(B, range=10))
    over = pick(negation(pair, scan(C, range=3), "0.k"), "0.k")
    under = pick(join(negation(scan(A, range=10), scan(C, range=3)), scan(B, range=10)), "0.k")
    events = {"a": [(0, 1, 0.0)], "b": [(2, 1, 0.0)], "c": [(4, 1, 0.0)]}
    wanted = [
        (None, 2, 1, 2, None, 1),
        (None, 4, 1, 2, None, -1),
        (None, 7, 1, 7, None, 1),
        (None, 10, 1, 7, None, -1),
    ]
    assert ask(relation(over), **events) == wanted
    assert ask(relation(under), **events) == wanted


def test_union_keeps_duplicates_and_distinct_over_it_does_not() -> None:
    both = Union((pick(scan(A, range=10), "k"), pick(scan(B, range=4), "k")))
    events = {"a": [(0, 1, 0.0)], "b": [(0, 1, 0.0), (8, 1, 0.0)]}
    assert ask(relation(both), **events) == [(None, 0, 1, 0, 10), (None, 0, 1, 0, 4), (None, 8, 1, 8, 12)]
    assert ask(relation(Distinct(both)), **events) == [(None, 0, 1, 0, 10), (None, 10, 1, 10, 12)]


def test_a_filter_above_and_a_projection() -> None:
    kept = where(scan(A, range=5), "v > 1")
    doubled = Project(kept, (("double", expr("v * 2", kept.types), DOUBLE),))
    events = [(0, 1, 1.0), (1, 1, 2.0), (2, 1, None)]
    assert ask(relation(doubled), a=events) == [(None, 1, 4.0, 1, 6)]


# Tables


def looked_up(input_: Node, *, retroactive: bool) -> Project:
    lookup = Lookup("t", ((column("k"), column("id")),), None, T.columns)
    found = TableLookup(input_, lookup, retroactive)
    matched = Filter(found, column(lookup.matched))
    return Project(matched, (("k", column("k"), INT), ("name", column(lookup.column("name")), INT)))


def test_an_event_keeps_what_it_found_in_a_table() -> None:
    asked = relation(looked_up(scan(A, range=5), retroactive=False))
    rows = [{"id": 1, "name": 10}, {"id": 1, "name": 11}, {"id": None, "name": 12}]
    events = [(0, 1, 0.0), (1, 2, 0.0), (2, None, 0.0), (4, 1, 0.0)]
    found = ask(asked, {"t": (T, rows)}, {"t": [(3, [{"id": 1, "name": 20}])]}, a=events)
    assert found == [(None, 0, 1, 10, 0, 5), (None, 0, 1, 11, 0, 5), (None, 4, 1, 20, 4, 9)]


def test_a_retroactive_table_revises_what_was_found() -> None:
    asked = relation(looked_up(scan(A, range=9), retroactive=True))
    before = [{"id": 1, "name": 10}, {"id": 1, "name": 11}]
    after = [{"id": 1, "name": 11}, {"id": 1, "name": 12}]
    found = ask(asked, {"t": (T, before)}, {"t": [(3, after)]}, a=[(0, 1, 0.0)])
    assert found == [
        (None, 0, 1, 10, 0, None, 1),
        (None, 0, 1, 11, 0, None, 1),
        (None, 3, 1, 10, 0, None, -1),
        (None, 3, 1, 12, 3, None, 1),
        (None, 9, 1, 11, 0, None, -1),
        (None, 9, 1, 12, 3, None, -1),
    ]
