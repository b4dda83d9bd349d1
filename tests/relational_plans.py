"""Small relational plans, written by hand for the tests of the planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mullion.algebra.nodes import AntiJoin, Distinct, Filter, Join, Node, Project, Scan
from mullion.algebra.relation import Relation
from mullion.expressions.typing import resolve_predicate
from mullion.language.parse import parse_expression, parse_query
from mullion.language.query import Column, Expr, Named, Window
from mullion.language.types import INT, TIMESTAMP
from mullion.operators.structures import Structures
from mullion.options import Expiry
from mullion.planner.explain import Explanation
from mullion.planner.explain_operators import ComputedTogether, OperatorPlans, expected_orders
from mullion.planner.operator_cost import CostModel
from mullion.planner.optimiser import Chosen, optimise_together
from mullion.planner.relation_stats import NO_STATS, Stats

COLUMNS = (("a", INT), ("b", INT), ("ts", TIMESTAMP))


def window(text: str) -> Window:
    """From its text: `RANGE 10 min`."""
    source = parse_query(f"SELECT a FROM s [{text}]").source
    assert isinstance(source, Named) and source.window is not None
    return source.window


def scan(stream: str, text: str = "RANGE 10 min") -> Scan:
    return Scan(stream, window(text), COLUMNS)


def column(name: str) -> Column:
    return Column(name)


def where(node: Node, text: str) -> Filter:
    """A selection; columns of joins are written in backquotes."""
    return Filter(node, predicate(node, text))


def predicate(node: Node, text: str) -> Expr:
    return resolve_predicate(parse_expression(text), node.types)


def join(*parts: Node, on: str = "a") -> Join:
    """On a column that all parts have; of a join's columns, the first with that name."""
    return Join(parts, tuple((key(part, on),) for part in parts))


def key(node: Node, name: str) -> Column:
    return Column(next(own for own in node.types if own.split(".")[-1] == name))


def unless(left: Node, right: Node, on: str = "a") -> AntiJoin:
    """NOT EXISTS with equal `on`; a name with dots is a column of the left as it is written."""
    own = Column(on) if on in left.types else key(left, on)
    return AntiJoin(left, right, (own,), (key(right, on.split(".")[-1]),))


def keys_of(node: Node, name: str = "a") -> Distinct:
    """What EXISTS joins with."""
    own = key(node, name)
    return Distinct(Project(node, (("k0", own, node.types[own.name]),)))


def optimise(root: Node, stats: Stats = NO_STATS, strategy: str = "upa") -> Chosen:
    """The plan that is chosen for one query by itself."""
    (chosen,) = optimise_together([root], stats, strategy)
    return chosen


def explained(
    relations: Sequence[Relation],
    stats: Stats = NO_STATS,
    chosen: Sequence[Chosen] | None = None,
    observed: Mapping[str, Any] | None = None,
) -> Explanation:
    """The plans that are chosen for queries over relations, or those that are given."""
    plans = optimise_together([r.root for r in relations], stats, Expiry.PATTERN_AWARE) if chosen is None else chosen
    orders = expected_orders((plan.root for plan in plans), stats)
    together = (ComputedTogether(tuple(relations), tuple(plans), stats, orders),) if relations else ()
    operators = OperatorPlans(together, Structures(Expiry.PATTERN_AWARE))
    return Explanation((), "auto", observed=observed or {}, operators=operators)


def as_written(relations: Sequence[Relation], stats: Stats = NO_STATS) -> Explanation:
    """The plans without any rewriting, to look at one plan in particular."""
    return explained(relations, stats, [Chosen(r.root, CostModel(stats).plan(r.root), (), ()) for r in relations])


S1, S2, S3 = where(scan("S1"), "b > 10"), where(scan("S2"), "b < 500"), scan("S3")

NEGATION_ABOVE = unless(join(S1, S2), S3, on="0.a")
"""The plan on the left of Figure 3.5."""
NEGATION_BELOW = join(unless(S1, S3), S2)
"""The plan on its right."""
