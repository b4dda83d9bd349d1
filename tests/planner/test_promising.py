"""When a promising join is a view of one that stands."""

from __future__ import annotations

import pytest

from mullion.algebra.nodes import Join, Node, Project, Promising
from mullion.language.query import Budget, Column, Literal
from mullion.language.types import DOUBLE
from mullion.planner.promising import chosen_way, complete, is_promising
from relational_plans import join, scan, where

ONE = Literal(1.0, DOUBLE)


def promising(own: Join) -> Node:
    (name, type_), *_ = own.columns
    return Project(Promising(own, "desc", (ONE, ONE), Budget(rows=1)), (("c0", Column(name), type_),))


SHORT, LONG, ENDLESS = "RANGE 1 min", "RANGE 10 min", "RANGE UNBOUNDED"


@pytest.mark.parametrize(
    ("standing", "own", "is_view"),
    [
        ([join(scan("r", LONG), scan("s", LONG))], join(scan("r", SHORT), scan("s", LONG)), True),
        ([join(scan("r", SHORT), scan("s", LONG))], join(scan("r", LONG), scan("s", LONG)), False),
        ([join(scan("r", LONG), scan("s", LONG))], join(where(scan("r"), "b > 1"), scan("s")), True),
        ([join(where(scan("r"), "b > 1"), scan("s"))], join(scan("r"), scan("s")), False),
        ([join(scan("r", ENDLESS), scan("s", ENDLESS))], join(scan("r", ENDLESS), scan("s", ENDLESS)), True),
        ([join(scan("r"), scan("s"))], join(scan("r", ENDLESS), scan("s", ENDLESS)), False),
        ([join(scan("r"), scan("s"))], join(join(scan("r"), scan("s")), scan("q")), False),
        ([join(join(scan("r"), scan("s")), scan("q"))], join(join(scan("r"), scan("s")), scan("q")), True),
        ([promising(join(scan("r"), scan("s")))], join(scan("r"), scan("s")), False),
        ([], join(scan("r"), scan("s")), False),
    ],
)
def test_it_is_complete_where_all_of_it_is_computed_anyway(standing: list[Node], own: Join, is_view: bool) -> None:
    root = promising(own)
    chosen = chosen_way(root, standing)
    assert chosen == (complete(root) if is_view else root)
    assert is_promising(chosen) != is_view


def test_other_plans_stay_as_they_are() -> None:
    own = join(scan("r"), scan("s"))
    assert chosen_way(own, [own]) is own and complete(own) is own
