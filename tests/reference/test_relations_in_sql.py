"""The meaning of relations that are written in SQL: examples worked out by hand."""

from __future__ import annotations

from by_operators import bind_relation
from mullion.algebra.relation import Relation
from mullion.language.parse import parse_query
from reference.plans import STREAMS, T, ask


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


def test_a_total_begins_with_the_first_event_of_its_own_windows() -> None:
    """Of two parts, b counts nothing at 10: it has had no event."""
    text = "SELECT count(*) AS n FROM {} [RANGE 5 us SLIDE 5 us]"
    both = sql(f"{text.format('a')} UNION ALL {text.format('b')}")
    found = ask(both, a=[(1, 1, 1.0), (7, 1, 1.0)], b=[(11, 1, 1.0), (12, 1, 1.0)])
    assert sorted(row[1:3] for row in found) == [(5, 1), (10, 1), (15, 2)]


def test_a_result_of_a_periodic_aggregate_comes_at_its_instant() -> None:
    counts = "(SELECT count(*) AS n FROM a [RANGE 5 us SLIDE 5 us])"
    found = ask(sql(f"SELECT s.n FROM {counts} [RANGE 10 us] s"), a=[(1, 1, 1.0), (2, 1, 1.0), (7, 1, 1.0)])
    assert [row[1:] for row in found] == [(5, 2, 5, 15), (10, 2, 5, 15), (10, 1, 10, 20), (15, 1, 10, 20)]


def test_a_window_over_the_results_of_a_sub_query() -> None:
    """The sum over the last two pairs that were found, whether they still are or not."""
    text = "SELECT sum(s.v) AS total FROM (SELECT v FROM a [RANGE 3 us], b [RANGE 3 us] WHERE a.k = b.k) [ROWS 2] s"
    events = {"a": [(0, 1, 1.0), (1, 1, 2.0), (9, 1, 4.0)], "b": [(2, 1, 0.0), (9, 1, 0.0)]}
    assert [row[1:] for row in ask(sql(text), **events)] == [(0, None), (2, 3.0), (9, 6.0)]
