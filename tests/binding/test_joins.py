"""Joins bound to the algebra: their keys, where conditions stand, and lookups in tables."""

from __future__ import annotations

import pytest

from binding.plans import MINUTE, PAIR, A, B, C, R, T, bound, keys, project, residual, root, scan, where
from mullion.algebra.lookups import Lookup
from mullion.algebra.nodes import Filter, Join, Project, TableLookup, nodes
from mullion.expressions.typing import resolve
from mullion.language.parse import parse_expression
from mullion.language.query import Column, Expr


@pytest.mark.parametrize(
    "sources",
    [
        "a [c], b [c] WHERE a.k = b.k",
        "b [c], a [c] WHERE a.k = b.k",
        "a [c] JOIN b [c] ON b.K = a.k",
        "a [c] JOIN b [c] USING (k)",
        "A [c] CROSS JOIN B [c] WHERE a.k = b.k",
        "a [RANGE 10 min WATTR ts] JOIN b [c] ON a.k = b.k AND a.k = b.k",
    ],
)
def test_all_ways_to_write_a_join_are_one(sources: str) -> None:
    assert root(f"SELECT a.v, b.v AS w FROM {sources}") == project(PAIR, "`0.v`", "`1.v`")


def test_a_join_does_not_depend_on_when_it_is_looked_at() -> None:
    periodic = bound("SELECT a.v FROM a [], b [RANGE 10 min] WHERE a.k = b.k")
    assert periodic.root == root("SELECT x.v AS other FROM a [c] x, b [c] WHERE x.k = b.k")
    assert (periodic.slide, periodic.offset, periodic.longest) == (MINUTE, 0, 10 * MINUTE)
    assert periodic.streams == ("a", "b") and periodic.names == ("v",)


def test_conditions_stand_as_low_as_they_can() -> None:
    low = Join((where(scan(A), "v < 3 AND v > 1"), scan(B)), keys("k", "k"))
    text = "SELECT a.v FROM a [c], b [c] WHERE a.v > 1 AND a.k = b.k AND a.v < b.v AND a.v < 3 AND 1 < a.v + b.v"
    expected = residual(low, "1 < `0.v` + `1.v` AND `0.v` < `1.v`")
    found = root(text)
    assert isinstance(found, Project) and isinstance(found.input, Join)
    assert found.input.parts == expected.parts and found.input.keys == expected.keys
    assert parts_of(found.input.residual) == parts_of(expected.residual)


def parts_of(predicate: Expr | None) -> set[Expr]:
    assert predicate is not None
    return set(getattr(predicate, "args", ()))


def test_one_attribute_joins_all_streams_at_once() -> None:
    expected = project(Join((scan(A), scan(B), scan(C)), keys("k", "k", "k")), "`2.j`")
    assert root("SELECT j FROM a [c], b [c], c [c] WHERE a.k = b.k AND b.k = c.k") == expected
    assert root("SELECT j FROM c [c], b [c], a [c] WHERE a.k = c.k AND a.k = b.k") == expected
    assert root("SELECT j FROM a [c] JOIN b [c] USING (k) JOIN c [c] USING (k)") == expected


def test_different_attributes_join_one_after_the_other() -> None:
    join = Join((PAIR, scan(C)), ((Column("0.v"),), (Column("j"),)))
    found = root("SELECT c.k FROM a [c], c [c], b [c] WHERE a.k = b.k AND c.j = a.v")
    assert found == project(join, "`1.k`")


def test_several_attributes_are_one_key_in_the_type_that_they_are_compared_in() -> None:
    found = root("SELECT a.k FROM a [c], b [c] WHERE a.k = b.k AND a.v = b.v")
    as_bigint = resolve(parse_expression("CAST(v AS BIGINT)"), A.types)[0]
    assert found == project(Join((scan(A), scan(B)), ((as_bigint, Column("k")), (Column("v"), Column("k")))), "`0.k`")


def test_an_equality_of_some_parts_alone_is_asked_of_the_whole() -> None:
    found = root("SELECT j FROM a [c], b [c], c [c] WHERE a.k = b.k AND b.k = c.k AND a.v = c.j")
    join = Join((scan(A), scan(B), scan(C)), keys("k", "k", "k"))
    assert found == project(residual(join, "`0.v` = `2.j`"), "`2.j`")


def test_columns_equal_to_one_elsewhere_are_equal_at_home() -> None:
    found = root(
        "SELECT a.k FROM a [c] x, a [c], c [c] WHERE x.v = c.j AND a.v = c.j AND a.v = x.v AND c.k = x.k AND c.k = x.k"
    )
    assert isinstance(found, Project) and isinstance(found.input, Join) and len(found.input.parts) == 3
    both = root("SELECT c.k FROM b [c], c [c] WHERE b.k = c.k AND b.k = upper(c.k)")
    assert isinstance(both, Project) and isinstance(both.input, Join)
    assert both.input.parts == (scan(B), where(scan(C), "k = upper(k)")) and len(both.input.keys[0]) == 1


def test_a_stream_joins_itself() -> None:
    found = bound("SELECT x.v, y.v AS w FROM a [RANGE 5 min] x, a [c] y WHERE x.k = y.k")
    short, long = scan(A, "RANGE 5 min"), scan(A)
    (join,) = [node for node in nodes(found.root) if isinstance(node, Join)]
    assert set(join.parts) == {short, long} and join.keys == keys("k", "k")
    first = join.parts.index(short)
    assert found.root == project(join, f"`{first}.v`", f"`{1 - first}.v`")
    assert found.longest == 10 * MINUTE


CLOSE = Lookup("t", ((Column("k"), Column("k")),), None, T.columns)
LIMITS = Lookup("r", ((Column("k"), Column("k")),), None, R.columns)


def test_tables_are_looked_up_by_the_stream_that_has_their_keys() -> None:
    found = root("SELECT a.k, cp, most FROM a [c], b [c], t, r WHERE a.k = b.k AND t.k = b.k AND r.k = a.k AND cp > 3")
    left = TableLookup(scan(A), LIMITS, retroactive=True)
    right = TableLookup(scan(B), CLOSE)
    join = Join(
        (Filter(left, Column(LIMITS.matched)), where(right, f"`{CLOSE.matched}` AND `{CLOSE.column('cp')}` > 3")),
        keys("k", "k"),
    )
    assert found == project(join, "`0.k`", f"`1.{CLOSE.column('cp')}`", f"`0.{LIMITS.column('most')}`")


def test_a_left_join_of_a_table_keeps_rows_that_find_none() -> None:
    found = root("SELECT a.k, cp FROM a [c] JOIN b [c] ON a.k = b.k LEFT JOIN t ON t.k = b.k")
    join = Join((scan(A), TableLookup(scan(B), CLOSE)), keys("k", "k"))
    assert found == project(join, "`0.k`", f"`1.{CLOSE.column('cp')}`")


def test_streams_joined_through_a_table() -> None:
    found = root("SELECT a.v FROM a [c], b [c], t WHERE t.k = a.k AND t.k = b.k")
    left = Filter(TableLookup(scan(A), CLOSE), Column(CLOSE.matched))
    assert found == project(Join((left, scan(B)), keys(CLOSE.column("k"), "k")), "`0.v`")


def test_operators_run_aggregates_with_a_retroactive_table() -> None:
    aggregated = root("SELECT max(most) AS m FROM a [], r WHERE a.k = r.k")
    assert [node.retroactive for node in nodes(aggregated) if isinstance(node, TableLookup)] == [True]
