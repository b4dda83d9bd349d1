"""What each operator of a plan keeps. Operators are built as for work, without rows, and say it themselves."""

from __future__ import annotations

from collections.abc import Sequence

from mullion.algebra.nodes import Node, Scan
from mullion.expressions.vector import has_arrow_type
from mullion.operators.base import Operator
from mullion.operators.construction import Construction
from mullion.operators.expressions import schema_of
from mullion.operators.make import make
from mullion.operators.timed_rows import Delta
from mullion.options import Expiry


class StreamEvents(Operator):
    """The events of a stream, as they come: they live forever."""

    def __init__(self, node: Scan, names: Sequence[str]) -> None:
        self.schema = schema_of((name, node.event_types[name]) for name in names)
        self.width = 1

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        raise AssertionError("events come from outside")


class Structures:
    """Structures of operators under one way of expiry; equal nodes are looked at once."""

    def __init__(self, expiry: Expiry) -> None:
        self._construction = Construction(expiry)
        self._operators: dict[Node, Operator] = {}

    def of(self, node: Node) -> dict[str, str]:
        """What the operator of a node keeps, and in which structure; nothing for those that let rows pass."""
        return self.operator(node).structures()

    def hears_negatives(self, node: Node) -> bool:
        """Whether negative tuples reach an operator."""
        return any(self._construction.has_retractions(below.pattern) for below in node.inputs)

    def operator(self, node: Node) -> Operator:
        operator = self._operators.get(node)
        if operator is None:
            below = [self.operator(below) for below in node.operator_inputs]
            inputs = [_events_of(node)] if isinstance(node, Scan) else below
            operator = self._operators[node] = make(node, inputs, self._construction)
        return operator


def _events_of(scan: Scan) -> StreamEvents:
    """With the columns that a query can read: nested ones never reach an operator."""
    return StreamEvents(scan, [name for name, type_ in scan.columns if has_arrow_type(type_)])
