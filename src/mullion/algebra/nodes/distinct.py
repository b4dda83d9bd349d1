"""DISTINCT."""

from __future__ import annotations

from typing import ClassVar

from mullion.algebra.column_names import tells_equals_apart
from mullion.algebra.costs import CALENDAR, HASH, Estimates, Flow, OperatorCost
from mullion.algebra.nodes.base import Node, OperatorReason, OverOne
from mullion.algebra.nodes.filter import Filter
from mullion.algebra.nodes.registry import kind
from mullion.algebra.splitting import KeyExpressions, ShardKeys, are_common
from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Column, Expr
from mullion.options import Expiry


@kind
class Distinct(OverOne):
    """Each row once. NULLs are equal to each other, NaNs too, and zeros of either sign."""

    keeps_some: ClassVar[bool] = True

    @property
    def text(self) -> str:
        return f"distinct({self.input.text})"

    @property
    def explained(self) -> str:
        return "DISTINCT"

    @property
    def why_operators(self) -> OperatorReason:
        return OperatorReason(3, "it asks which rows are there at all")

    @property
    def looks_back(self) -> bool:
        return True

    @property
    def pattern(self) -> Pattern:
        under = self.input.pattern
        return under if under is Pattern.MONOTONIC else max(under, Pattern.WEAK)

    def flow(self, estimates: Estimates) -> Flow:
        flow = estimates.flow(self.input)
        values = estimates.different(self.input, [Column(name) for name in self.types], flow.size)
        rate = min(flow.rate, values / max(flow.life, 1e-9))
        return Flow(rate, values / max(rate, 1e-9), flow.premature)

    def cost(self, estimates: Estimates) -> OperatorCost:
        """delta* keeps twice its results and never its input; counting keeps a number a value and hears of every end;
        the other strategies keep the input too."""
        results = estimates.flow(self).rate
        cost = estimates.passing(self.input) + OperatorCost(processing=results)
        if self.input.pattern is Pattern.STRICT:
            return cost + OperatorCost(state=HASH * results)
        if estimates.expiry is Expiry.PATTERN_AWARE:
            return cost + OperatorCost(state=2 * CALENDAR * results)
        return cost + estimates.keeping(self.input)

    def split_by(self, keys: KeyExpressions) -> ShardKeys | None:
        return self.input.split_by(keys) if are_common(keys, self) else None

    def filtered_below(self, predicate: Expr) -> Node | None:
        if tells_equals_apart(predicate, self.types):
            return None
        return Distinct(Filter(self.input, predicate))
