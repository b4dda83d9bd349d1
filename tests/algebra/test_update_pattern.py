"""The update pattern of every edge (golab 3.2, 3.3, 3.5.1)."""

from __future__ import annotations

import pytest

from mullion.algebra.lookups import Lookup
from mullion.algebra.nodes import Aggregated, Difference, Distinct, Node, ResultWindow, TableLookup, Union
from mullion.algebra.update_pattern import Pattern
from mullion.language.types import INT
from relational_plans import NEGATION_ABOVE, NEGATION_BELOW, S1, column, join, scan, unless, where, window

MONOTONIC, WEAKEST, WEAK, STRICT = Pattern
TABLE = Lookup("names", ((column("a"), column("id")),), None, (("id", INT),))

TIMED, COUNTED, ENDLESS = scan("s"), scan("s", "ROWS 10"), scan("s", "RANGE UNBOUNDED")
INTERNAL = scan("s", "RANGE 10 min INTERNAL")


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("RANGE 10 min", WEAKEST),
        ("RANGE 10 min SLIDE 1 min", WEAKEST),
        ("NOW", WEAKEST),
        ("ROWS 10", STRICT),
        ("ROWS 10 SLIDE 5", STRICT),
        ("PARTITION BY a ROWS 10", STRICT),
        ("RANGE UNBOUNDED", MONOTONIC),
        ("FROM TIMESTAMP '2020-01-01'", MONOTONIC),
        ("RANGE 10 min INTERNAL", MONOTONIC),
        ("ROWS 10 INTERNAL", MONOTONIC),
    ],
)
def test_leaves(text: str, pattern: Pattern) -> None:
    assert scan("s", text).pattern is pattern
    assert ResultWindow(COUNTED, window(text)).pattern is pattern


@pytest.mark.parametrize("below", [TIMED, COUNTED, ENDLESS, join(TIMED, TIMED)])
def test_rule_1_selections_and_tables_change_nothing(below: Node) -> None:
    name = next(iter(below.types))
    assert where(below, f"`{name}` > 1").pattern is below.pattern
    lookup = Lookup("names", ((column(name), column("id")),), None, (("id", INT),))
    assert TableLookup(below, lookup).pattern is below.pattern


@pytest.mark.parametrize(
    ("parts", "pattern"),
    [
        ((TIMED, scan("r")), WEAKEST),
        ((TIMED, scan("r", "RANGE 5 min")), WEAK),
        ((TIMED, ENDLESS), WEAK),
        ((ENDLESS, scan("r", "RANGE UNBOUNDED")), MONOTONIC),
        ((TIMED, Distinct(scan("r"))), WEAK),
        ((TIMED, COUNTED), STRICT),
    ],
)
def test_rule_2_a_union_is_as_hard_as_its_hardest_part(parts: tuple[Node, ...], pattern: Pattern) -> None:
    assert Union(parts).pattern is pattern
    assert Union(parts[::-1]).pattern is pattern


def test_rows_of_one_length_stay_first_in_first_out_through_unions_and_selections() -> None:
    assert Union((where(TIMED, "a > 1"), scan("r"))).life == 600_000_000
    assert scan("s", "NOW").life == 1
    assert join(TIMED, scan("r")).life is None
    nested = Union((Union((TIMED, scan("r"))), scan("q")))
    assert nested.pattern is WEAKEST


@pytest.mark.parametrize(
    ("parts", "pattern"),
    [
        ((TIMED, TIMED), WEAK),
        ((TIMED, TIMED, TIMED), WEAK),
        ((TIMED, ENDLESS), WEAK),
        ((TIMED, INTERNAL), WEAK),
        ((INTERNAL, INTERNAL), MONOTONIC),
        ((INTERNAL, ENDLESS), MONOTONIC),
        ((ENDLESS, ENDLESS), MONOTONIC),
        ((TIMED, COUNTED), STRICT),
        ((TIMED, scan("s", "ROWS 10 INTERNAL")), WEAK),
        ((unless(TIMED, TIMED), TIMED), STRICT),
    ],
)
def test_rule_3_joins(parts: tuple[Node, ...], pattern: Pattern) -> None:
    assert join(*parts).pattern is pattern


def test_rule_3_distinct() -> None:
    found = [Distinct(node).pattern for node in (ENDLESS, TIMED, join(TIMED, TIMED), COUNTED)]
    assert found == [MONOTONIC, WEAK, WEAK, STRICT]


def test_rule_4_is_strict_whatever_is_below() -> None:
    for below in (TIMED, ENDLESS):
        assert unless(below, below).pattern is STRICT
        assert Difference(below, below).pattern is STRICT
        assert Aggregated(below, ((column("a"), INT),), ()).pattern is STRICT
        assert TableLookup(below, TABLE, retroactive=True).pattern is STRICT


def test_internal_windows_are_kept_as_if_they_were_external() -> None:
    joined = join(INTERNAL, scan("r", "RANGE 5 min INTERNAL"))
    assert INTERNAL.pattern is MONOTONIC and INTERNAL.kept_as is WEAKEST
    assert scan("s", "ROWS 10 INTERNAL").kept_as is STRICT
    assert joined.pattern is MONOTONIC and joined.kept_as is WEAK
    assert joined.is_internal and not join(INTERNAL, TIMED).is_internal
    assert not TableLookup(INTERNAL, TABLE, retroactive=True).is_internal


def test_both_plans_of_figure_3_5() -> None:
    above, below = NEGATION_ABOVE, NEGATION_BELOW
    assert [n.pattern for n in (S1, above.left, above.right, above)] == [WEAKEST, WEAK, WEAKEST, STRICT]
    assert [n.pattern for n in (*below.parts, below)] == [STRICT, WEAKEST, STRICT]
