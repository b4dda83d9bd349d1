"""The operator for each kind of relation."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mullion.algebra.nodes import (
    Aggregated,
    Difference,
    Distinct,
    Filter,
    Join,
    LookedUp,
    Negation,
    Node,
    Project,
    Restricted,
    Rewindowed,
    Scan,
    Union,
)
from mullion.operators.aggregated import AggregatedOperator
from mullion.operators.base import Operator
from mullion.operators.difference import DifferenceOperator
from mullion.operators.distinct import DistinctOperator
from mullion.operators.join import JoinOperator
from mullion.operators.looked_up import looked_up_operator
from mullion.operators.negation import NegationOperator
from mullion.operators.restricted import RestrictedOperator
from mullion.operators.rewindowed import RewindowedOperator
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
        case Distinct():
            return DistinctOperator(node, inputs, strategy)
        case Negation():
            return NegationOperator(node, inputs, strategy)
        case Difference():
            return DifferenceOperator(node, inputs, strategy)
        case Aggregated():
            return AggregatedOperator(node, inputs, strategy)
        case Rewindowed():
            return RewindowedOperator(node, inputs, strategy)


__all__ = ["STRATEGIES", "make"]
