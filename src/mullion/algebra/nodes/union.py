"""UNION ALL."""

from __future__ import annotations

from collections.abc import Collection

from mullion.algebra.costs import Estimates, Flow, OperatorCost, merged_flow, total
from mullion.algebra.nodes.base import Columns, Node, OperatorReason, OverMany
from mullion.algebra.nodes.filter import Filter
from mullion.algebra.nodes.registry import kind
from mullion.algebra.splitting import KeyExpressions, ShardKeys, merged_keys, renamed
from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Expr


@kind
class Union(OverMany):
    """UNION ALL. All parts have the same columns."""

    @property
    def columns(self) -> Columns:
        return self.parts[0].columns

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        return [set(needed) for _ in self.parts]

    @property
    def text(self) -> str:
        return f"union({', '.join(part.text for part in self.parts)})"

    @property
    def explained(self) -> str:
        return "UNION ALL"

    @property
    def why_operators(self) -> OperatorReason:
        return OperatorReason(5, "it puts the rows of several queries together")

    @property
    def pattern(self) -> Pattern:
        """As the hardest part; rows of windows of different lengths don't leave in the order in which they came."""
        hardest = max(part.pattern for part in self.parts)
        alike = len({part.life for part in self.parts}) == 1
        return hardest if alike else max(hardest, Pattern.WEAK)

    @property
    def kept_as(self) -> Pattern:
        if not self.is_internal:
            return self.pattern
        return max(Pattern.WEAK if len(self.parts) > 1 else Pattern.WEAKEST, *(part.kept_as for part in self.parts))

    @property
    def life(self) -> int | None:
        lives = {part.life for part in self.parts}
        return lives.pop() if len(lives) == 1 else None

    def flow(self, estimates: Estimates) -> Flow:
        return merged_flow([estimates.flow(part) for part in self.parts])

    def cost(self, estimates: Estimates) -> OperatorCost:
        return total(estimates.passing(part) for part in self.parts)

    def split_by(self, keys: KeyExpressions) -> ShardKeys | None:
        return merged_keys(part.split_by(renamed(keys, self, part)) for part in self.parts)

    def split_where_rows_meet(self) -> ShardKeys | None:
        return merged_keys(part.split_where_rows_meet() for part in self.parts)

    def filtered_below(self, predicate: Expr) -> Node | None:
        return Union(tuple(Filter(part, predicate) for part in self.parts))
