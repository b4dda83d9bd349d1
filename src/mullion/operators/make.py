"""The operator of a node. The modules that are imported here enter their operators into the registry."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mullion.algebra.nodes import Node
from mullion.operators import (  # noqa: F401
    aggregated,
    anti_join,
    difference,
    distinct,
    join,
    join_view,
    result_window,
    stateless,
    table_lookup,
    window,
)
from mullion.operators.base import Operator
from mullion.operators.registry import IMPLEMENTATIONS

STRATEGIES = ("upa", "nt", "direct")


def make(node: Node, inputs: Sequence[Operator], strategy: str, needed: Collection[str] | None = None) -> Operator:
    """The operator of a node over those of its inputs; a scan's input is its stream. `needed`: the columns that
    somebody above reads, for operators that can do with fewer."""
    return IMPLEMENTATIONS[type(node)](node, inputs, strategy, needed)


__all__ = ["STRATEGIES", "make"]
