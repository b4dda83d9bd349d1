"""The update pattern of every edge (golab 3.2, 3.3, 3.5.1)."""

from __future__ import annotations

import pytest

from mullion.algebra.lookups import Lookup
from mullion.algebra.nodes import Aggregated, Difference, Distinct, Node, ResultWindow, TableLookup, Union
from mullion.language.types import INT
from mullion.planner.update_pattern import Pattern, is_internal, kept_as, life_of, pattern_of
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
    assert pattern_of(scan("s", text)) is pattern
    assert pattern_of(ResultWindow(COUNTED, window(text))) is pattern


@pytest.mark.parametrize("below", [TIMED, COUNTED, ENDLESS, join(TIMED, TIMED)])
def test_rule_1_selections_and_tables_change_nothing(below: Node) -> None:
    name = next(iter(below.types))
    assert pattern_of(where(below, f"`{name}` > 1")) is pattern_of(below)
    lookup = Lookup("names", ((column(name), column("id")),), None, (("id", INT),))
    assert pattern_of(TableLookup(below, lookup)) is pattern_of(below)


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
    assert pattern_of(Union(parts)) is pattern
    assert pattern_of(Union(parts[::-1])) is pattern


def test_rows_of_one_length_stay_first_in_first_out_through_unions_and_selections() -> None:
    assert life_of(Union((where(TIMED, "a > 1"), scan("r")))) == 600_000_000
    assert life_of(scan("s", "NOW")) == 1
    assert life_of(join(TIMED, scan("r"))) is None
    nested = Union((Union((TIMED, scan("r"))), scan("q")))
    assert pattern_of(nested) is WEAKEST


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
    assert pattern_of(join(*parts)) is pattern


def test_rule_3_distinct() -> None:
    found = [pattern_of(Distinct(node)) for node in (ENDLESS, TIMED, join(TIMED, TIMED), COUNTED)]
    assert found == [MONOTONIC, WEAK, WEAK, STRICT]


def test_rule_4_is_strict_whatever_is_below() -> None:
    for below in (TIMED, ENDLESS):
        assert pattern_of(unless(below, below)) is STRICT
        assert pattern_of(Difference(below, below)) is STRICT
        assert pattern_of(Aggregated(below, ((column("a"), INT),), ())) is STRICT
        assert pattern_of(TableLookup(below, TABLE, retroactive=True)) is STRICT


def test_internal_windows_are_kept_as_if_they_were_external() -> None:
    joined = join(INTERNAL, scan("r", "RANGE 5 min INTERNAL"))
    assert pattern_of(INTERNAL) is MONOTONIC and kept_as(INTERNAL) is WEAKEST
    assert kept_as(scan("s", "ROWS 10 INTERNAL")) is STRICT
    assert pattern_of(joined) is MONOTONIC and kept_as(joined) is WEAK
    assert is_internal(joined) and not is_internal(join(INTERNAL, TIMED))
    assert not is_internal(TableLookup(INTERNAL, TABLE, retroactive=True))


def test_both_plans_of_figure_3_5() -> None:
    above, below = NEGATION_ABOVE, NEGATION_BELOW
    assert [pattern_of(n) for n in (S1, above.left, above.right, above)] == [WEAKEST, WEAK, WEAKEST, STRICT]
    assert [pattern_of(n) for n in (*below.parts, below)] == [STRICT, WEAKEST, STRICT]
