"""The operator for each kind of relation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib import import_module

from mullion.catalog.algebra import Filter, Join, LookedUp, Node, Project, Restricted, Scan, Union
from mullion.operators.base import Operator
from mullion.operators.join import JoinOperator
from mullion.operators.looked_up import looked_up_operator
from mullion.operators.restricted import RestrictedOperator
from mullion.operators.stateless import FilterOperator, ProjectOperator, UnionOperator
from mullion.operators.window import window_operator

STRATEGIES = ("upa", "nt", "direct")


def make(node: Node, inputs: Sequence[Operator], strategy: str, needed: Collection[str] | None = None) -> Operator:
    """The operator of a node over those of its inputs; a scan's input is its stream. `needed`: the columns that
    somebody above reads, for operators that can do with fewer."""
    match node:
        case Scan():
            return window_operator(node, inputs, strategy)
        case LookedUp():
            return looked_up_operator(node, inputs, strategy, needed)
        case Restricted() | Filter(input=Restricted()):
            return RestrictedOperator(node, inputs, strategy, needed)
        case Filter():
            return FilterOperator(node, inputs, strategy, needed)
        case Project():
            return ProjectOperator(node, inputs, strategy)
        case Join():
            return JoinOperator(node, inputs, strategy, needed)
        case Union():
            return UnionOperator(node, inputs, strategy)
        case _:
            kind = type(node).__name__
            built: Operator = getattr(import_module(f"mullion.operators.{kind.lower()}"), f"{kind}Operator")(
                node, inputs, strategy
            )
            return built


__all__ = ["STRATEGIES", "make"]
