"""The operator of a promising join or selection."""

from __future__ import annotations

from collections.abc import Sequence

from mullion.algebra.nodes import Join, Promising
from mullion.operators.base import Operator
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.promising_join import PromisingJoinOperator
from mullion.operators.promising_selection import PromisingSelectionOperator
from mullion.operators.registry import implements
from mullion.operators.stateless import Narrowed


@implements(Promising)
def promising(node: Promising, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> Operator:
    """Where negative tuples tell when rows end, all rows of a selection are told, as all of a join are
    (`planner.promising.complete`)."""
    if isinstance(node.input, Join):
        return PromisingJoinOperator(node, inputs, construction)
    if any(construction.has_retractions(part.pattern) for part in node.parts):
        return Narrowed(inputs[0], [name for name in inputs[0].schema.names if construction.reads(name)])
    return PromisingSelectionOperator(node, inputs, construction)
