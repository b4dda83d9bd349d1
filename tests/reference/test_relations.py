"""The meaning of relations: examples worked out by hand, from the algebra up.

Streams a (ts, k, v), b (ts, k, w) and c (ts, k, x). An event is written (ts, k, value).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from by_operators import bind_relation
from by_slices import bind
from mullion import reference
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.algebra.lookups import Lookup
from mullion.algebra.nodes import (
    Aggregated,
    AntiJoin,
    Difference,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    ResultWindow,
    Scan,
    TableLookup,
    Union,
)
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.expressions.typing import resolve, resolve_predicate
from mullion.language.parse import parse_expression, parse_query
from mullion.language.query import Column, Expr, Window
from mullion.language.types import DOUBLE, INT, TIMESTAMP

A = Stream("a", (("ts", TIMESTAMP), ("k", INT), ("v", DOUBLE)), "ts")
B = Stream("b", (("ts", TIMESTAMP), ("k", INT), ("w", DOUBLE)), "ts")
C = Stream("c", (("ts", TIMESTAMP), ("k", INT), ("x", DOUBLE)), "ts")
STREAMS = {"a": A, "b": B, "c": C}
NAN = math.nan

Events = Sequence[tuple[Any, Any, Any]]


def window(**given: Any) -> Window:
    return Window(**given)


def scan(stream: Stream, *, partition: str | None = None, since: int | None = None, **given: Any) -> Scan:
    keys = () if partition is None else (expr(partition, stream.types),)
    return Scan(stream.name, Window(**given), stream.columns, keys, since)


def expr(text: str, types: Any) -> Expr:
    return resolve(parse_expression(text), dict(types))[0]


def pick(node: Node, *names: str) -> Project:
    """Some columns of a node: `0.k` becomes `k`, and the second of that name `1.k`."""
    items, used = [], set()
    for name in names:
        short = name.rpartition(".")[2]
        short = name if short in used else short
        used.add(short)
        items.append((short, column(name), node.types[name]))
    return Project(node, tuple(items))


def column(name: str) -> Expr:
    return Column(name)


def where(node: Node, text: str) -> Filter:
    return Filter(node, resolve_predicate(parse_expression(text), node.types))


def join(*parts: Node, on: str = "k", residual: str | None = None) -> Join:
    joined = Join(parts, tuple((column(on),) for _ in parts))
    if residual is None:
        return joined
    return Join(joined.parts, joined.keys, resolve_predicate(parse_expression(residual), joined.types))


def negation(left: Node, right: Node, left_key: str = "k", right_key: str = "k") -> AntiJoin:
    return AntiJoin(left, right, (column(left_key),), (column(right_key),))


def aggregates(*texts: str) -> tuple[BoundAggregate, ...]:
    """Aggregates over the columns of a."""
    query = parse_query(f"SELECT {', '.join(texts)} FROM a [RANGE 1 s SLIDE 1 s]")
    return bind(query, STREAMS).template.aggregates


def grouped(node: Node, *texts: str, keys: Sequence[str] = (), slide: int | None = None) -> Aggregated:
    found = tuple((column(name), node.types[name]) for name in keys)
    return Aggregated(node, found, aggregates(*texts), slide)


def relation(root: Node, **given: Any) -> Relation:
    given.setdefault("names", tuple(name for name, _ in root.columns))
    given.setdefault("output", "rstream" if given.get("slide") else "changes")
    return Relation("q", "", root, **given)


def streamed(**events: Events) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for name, stream in STREAMS.items():
        given = events.get(name, ())
        found[name] = [dict(zip(stream.types, event, strict=True)) for event in given]
    return found


def ask(asked: Relation, tables: Any = None, versions: Any = None, **events: Events) -> list[tuple[Any, ...]]:
    return reference.answer(asked, STREAMS, streamed(**events), tables, versions).rows


def states(root: Node, **events: Events) -> dict[int, list[Any]]:
    """What a continuous query holds after each change: its rows without times."""
    asked = relation(root, output="rstream")
    width = len(asked.names)
    found: dict[int, list[Any]] = {}
    for row in ask(asked, **events):
        items = row[2 : 2 + width]
        found.setdefault(row[1], []).append(items[0] if width == 1 else items)
    return found


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


# Tables


T = Table("t", (("id", INT), ("name", INT)), "csv")


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


# From SQL


def sql(text: str) -> Relation:
    return bind_relation(parse_query(text), STREAMS, {"t": T})


def test_figure_3_2_in_sql() -> None:
    """What is told by DSTREAM is what a new sum crosses out."""
    events = [(n, 0, float(n)) for n in range(1, 8)]
    for window, sums in (("ROWS 5", [1, 3, 6, 10, 15, 20, 25]), ("RANGE UNBOUNDED", [1, 3, 6, 10, 15, 21, 28])):
        new = "ISTREAM (SELECT sum(v) AS total FROM a [{}])"
        old = "DSTREAM (SELECT sum(v) AS total FROM a [{}])"
        all_ = [(n, float(total)) for n, total in enumerate(sums, 1)]
        crossed = [(n + 1, total) for n, total in all_[:-1]]
        for inside, wanted in (("", crossed), (" INTERNAL", [])):
            assert [row[1:] for row in ask(sql(new.format(window + inside)), a=events)] == all_
            assert [row[1:] for row in ask(sql(old.format(window + inside)), a=events)] == wanted


def test_figure_3_4_in_sql() -> None:
    text = "ISTREAM {} (SELECT v FROM a [RANGE 10 us SLIDE 10 us] JOIN b [RANGE 10 us] ON a.k = b.k)"
    events = {"a": [(5, 1, 1.0), (15, 2, 2.0), (8, 3, 3.0)], "b": [(5, 1, 0.0), (15, 2, 0.0), (12, 3, 0.0)]}
    assert [row[1:3] for row in ask(sql(text.format("")), **events)] == [(10, 1.0), (20, 2.0)]
    assert [row[1:3] for row in ask(sql(text.format("RESTORE")), **events)] == [(10, 1.0), (20, 3.0), (20, 2.0)]


def test_multiplicities_in_sql() -> None:
    text = "SELECT k FROM a [RANGE 100 us] EXCEPT ALL SELECT k FROM b [RANGE 2 us]"
    events = {"a": [(0, 1, 0.0), (1, 1, 0.0), (2, 1, 0.0)], "b": [(3, 1, 0.0), (4, 1, 0.0)]}
    signs = [(row[1], row[-1]) for row in ask(sql(text), **events)]
    assert signs == [(0, 1), (1, 1), (2, 1), (3, -1), (4, -1), (5, 1), (6, 1), (100, -1), (101, -1), (102, -1)]


def test_orders_without_a_payment_in_sql() -> None:
    """Orders a of the last 10 without a payment b: told as they come, again with -1 when they are paid or leave."""
    text = "SELECT k FROM a [RANGE 10 us] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE UNBOUNDED] WHERE b.k = a.k)"
    found = ask(sql(text), a=[(0, 1, 0.0), (1, 2, 0.0)], b=[(4, 1, 0.0)])
    assert [(row[1], row[2], row[-1]) for row in found] == [(0, 1, 1), (1, 2, 1), (4, 1, -1), (11, 2, -1)]


def test_a_window_over_the_results_of_a_sub_query() -> None:
    """The sum over the last two pairs that were found, whether they still are or not."""
    text = "SELECT sum(s.v) AS total FROM (SELECT v FROM a [RANGE 3 us], b [RANGE 3 us] WHERE a.k = b.k) [ROWS 2] s"
    events = {"a": [(0, 1, 1.0), (1, 1, 2.0), (9, 1, 4.0)], "b": [(2, 1, 0.0), (9, 1, 0.0)]}
    assert [row[1:] for row in ask(sql(text), **events)] == [(0, None), (2, 3.0), (9, 6.0)]
