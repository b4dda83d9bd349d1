"""EXCEPT ALL."""

from __future__ import annotations

from mullion.algebra.column_names import tells_equals_apart
from mullion.algebra.costs import Estimates, Flow, OperatorCost, total, uncovered_flow
from mullion.algebra.nodes.base import Node, OperatorReason, OverTwo
from mullion.algebra.nodes.filter import Filter
from mullion.algebra.nodes.registry import kind
from mullion.algebra.splitting import KeyExpressions, ShardKeys, are_common, merged_keys, renamed
from mullion.language.query import Column, Expr


@kind
class Difference(OverTwo):
    """EXCEPT ALL: of v1 equal rows on the left and v2 on the right, the v1 - v2 youngest of the left stay (golab
    2.2.2). Rows are equal as in DISTINCT. Both sides have the same columns."""

    @property
    def text(self) -> str:
        return f"difference({self.left.text}, {self.right.text})"

    @property
    def explained(self) -> str:
        return "EXCEPT ALL"

    @property
    def why_operators(self) -> OperatorReason:
        return OperatorReason(4, "it takes rows away from others")

    @property
    def asks_for_order(self) -> bool:
        return True

    def flow(self, estimates: Estimates) -> Flow:
        row = [Column(name) for name in self.types]
        values = max(estimates.different(side, row, estimates.flow(side).size) for side in self.inputs)
        return uncovered_flow(estimates, self.left, self.right, values)

    def cost(self, estimates: Estimates) -> OperatorCost:
        return total(cost for side in self.inputs for cost in (estimates.passing(side, 2), estimates.keeping(side)))

    def split_by(self, keys: KeyExpressions) -> ShardKeys | None:
        if not are_common(keys, self):
            return None
        return merged_keys(side.split_by(renamed(keys, self, side)) for side in self.inputs)

    def filtered_below(self, predicate: Expr) -> Node | None:
        if tells_equals_apart(predicate, self.types):
            return None
        return Difference(Filter(self.left, predicate), Filter(self.right, predicate))
