"""The operator of a node. The modules that are imported here enter their operators into the registry."""

from __future__ import annotations

from collections.abc import Sequence

from mullion.algebra.nodes import Node
from mullion.operators import (  # noqa: F401
    anti_join,
    bounded_join,
    difference,
    distinct,
    join,
    join_synopsis,
    join_view,
    offering,
    probed,
    promising,
    result_window,
    stateless,
    table_lookup,
    window,
)
from mullion.operators.base import Operator
from mullion.operators.construction import Construction
from mullion.operators.registry import IMPLEMENTATIONS


def make(node: Node, inputs: Sequence[Operator], construction: Construction) -> Operator:
    """The operator of a node over those of its inputs; a scan's input is its stream."""
    return IMPLEMENTATIONS[type(node)](node, inputs, construction)
