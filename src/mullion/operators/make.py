"""The operator for each kind of relation."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mullion.algebra.nodes import (
    Aggregated,
    AntiJoin,
    Difference,
    Distinct,
    Filter,
    Join,
    JoinView,
    Node,
    Project,
    ResultWindow,
    Scan,
    TableLookup,
    Union,
)
from mullion.operators.aggregated import AggregatedOperator
from mullion.operators.anti_join import AntiJoinOperator
from mullion.operators.base import Operator
from mullion.operators.difference import DifferenceOperator
from mullion.operators.distinct import DistinctOperator
from mullion.operators.join import JoinOperator
from mullion.operators.join_view import JoinViewOperator
from mullion.operators.result_window import ResultWindowOperator
from mullion.operators.stateless import FilterOperator, ProjectOperator, UnionOperator
from mullion.operators.table_lookup import table_lookup_operator
from mullion.operators.window import window_operator

STRATEGIES = ("upa", "nt", "direct")


def make(node: Node, inputs: Sequence[Operator], strategy: str, needed: Collection[str] | None = None) -> Operator:
    """The operator of a node over those of its inputs; a scan's input is its stream. `needed`: the columns that
    somebody above reads, for operators that can do with fewer."""
    match node:
        case Scan():
            return window_operator(node, inputs, strategy)
        case TableLookup():
            return table_lookup_operator(node, inputs, strategy, needed)
        case JoinView() | Filter(input=JoinView()):
            return JoinViewOperator(node, inputs, strategy, needed)
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
        case AntiJoin():
            return AntiJoinOperator(node, inputs, strategy)
        case Difference():
            return DifferenceOperator(node, inputs, strategy)
        case Aggregated():
            return AggregatedOperator(node, inputs, strategy)
        case ResultWindow():
            return ResultWindowOperator(node, inputs, strategy)
        case _:
            raise AssertionError(node.kind_name())


__all__ = ["STRATEGIES", "make"]
