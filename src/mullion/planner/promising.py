"""Whether a promising join is computed as such: where queries compute all of it anyway, it is a view of theirs.

A promising selection always is: what its budget is to save is not to select rows, but to tell them.

    CREATE QUERY all_pairs AS SELECT ... FROM a [RANGE 10 min], b [RANGE 10 min] WHERE a.k = b.k
    CREATE QUERY first_pairs AS SELECT ... FROM a [RANGE 5 min], b [RANGE 5 min] WHERE a.k = b.k WITH PREFERENCE ...

The second looks at what the first has, so it is complete and costs next to nothing. It is decided when a query enters,
and stays, as all plans do. A join is not made wider for it: that would cost what the budget is to save.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mullion.algebra.nodes import Aggregated, Join, Node, Project, Promising, nodes
from mullion.language.query import Column, Expr, Literal
from mullion.language.types import DOUBLE, Type
from mullion.planner.shared_joins import share_joins


def is_promising(root: Node) -> bool:
    return any(isinstance(node, Promising) for node in nodes(root))


def complete(root: Node) -> Node:
    """The plan with whole joins in the place of promising ones. Every row then stands for itself."""
    if isinstance(root, Aggregated) and isinstance(root.input, Promising) and root.input.weighs:
        (read,) = root.needs(())
        join = complete(root.input.input)
        items = [(name, _whole(name, type_, join), type_) for name, type_ in root.input.columns if name in read]
        return replace(root, input=Project(join, tuple(items)))
    if isinstance(root, Promising) and isinstance(root.input, Join):
        return complete(root.input)
    return root.with_inputs(tuple(complete(below) for below in root.inputs))


def _whole(name: str, type_: Type, join: Node) -> Expr:
    """A column of the join. Of those that say what a row stands for, weights are 1, and units do not matter."""
    return Column(name) if name in join.types else Literal(1.0 if type_ == DOUBLE else 0, type_)


def chosen_way(root: Node, standing: Sequence[Node]) -> Node:
    """The plan, complete if plans that stand compute its joins already."""
    preferring = [complete(node.input) for node in nodes(root) if isinstance(node, Promising)]
    joins = [node for node in preferring if isinstance(node, Join)]
    if not joins:
        return root
    exact = [plan for plan in standing if not is_promising(plan)]
    return complete(root) if all(_is_computed(join, exact) for join in joins) else root


def _is_computed(join: Join, exact: Sequence[Node]) -> bool:
    """Whether plans compute all of a join: itself, or one of longer windows that need not change for it."""
    shared = share_joins(exact)
    if any(join == node for plan in shared.plans.values() for node in nodes(plan)):
        return True
    return join.time_windows() is not None and share_joins([*exact, join]).shapes == shared.shapes
